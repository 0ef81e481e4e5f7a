-- A SKU's units in several rows (shards), and what operators do with them.
-- Lock order everywhere: existing reservations, buyers by hash, new keys sorted, stock by (sku, shard);
-- nothing that another order may hold is waited for behind a stock row.

-- How many rows takes look at. A row is never removed: units of older lines come back to where they
-- were taken, and the gate keeps a running total of each row. Rows from `shards` on are only gathered.
ALTER TABLE sku ADD COLUMN shards integer NOT NULL DEFAULT 1 CHECK (shards BETWEEN 1 AND 64);
UPDATE sku k SET shards = (SELECT count(*) FROM stock s WHERE s.sku = k.sku);

-- 'spread': units moved between rows of one SKU, signed; they sum to nothing. Old rows are fine.
ALTER TABLE movement DROP CONSTRAINT movement_kind_check;
ALTER TABLE movement ADD CONSTRAINT movement_kind_check CHECK (kind IN
    ('load', 'restock', 'spread', 'hold', 'confirm', 'expire', 'release', 'cancel')) NOT VALID;

-- What a row gets of units that are spread evenly, the first rows getting one more.
CREATE FUNCTION spread(p_units bigint, p_shards integer, p_shard integer) RETURNS bigint
LANGUAGE sql IMMUTABLE AS $$
    SELECT CASE WHEN p_shard < p_shards
                THEN p_units / p_shards + (p_shard < p_units % p_shards)::integer ELSE 0 END
$$;

-- Caps hold across rows: whoever looks at a buyer's live units of a SKU of several rows holds this.
CREATE FUNCTION lock_buyer(p_sku text[], p_buyer text) RETURNS void
LANGUAGE plpgsql VOLATILE AS $$
BEGIN
    PERFORM pg_advisory_xact_lock(x.hash)
    FROM (SELECT DISTINCT hashtextextended(k.sku || chr(31) || p_buyer, 0) AS hash
          FROM sku k
          WHERE k.sku = ANY (p_sku) AND k.units_per_buyer > 0
            AND EXISTS (SELECT 1 FROM stock s WHERE s.sku = k.sku AND s.shard > 0)
          ORDER BY hash) x;
END $$;

-- Which rows give how much, the fullest first, so that an order is split as little as can be. A line
-- without a shard may be given from all rows of its SKU. The rows are locked by the caller.
CREATE FUNCTION parts(p_sku text[], p_qty bigint[], p_shard integer[])
RETURNS TABLE (sku text, shard integer, qty bigint)
LANGUAGE sql VOLATILE AS $$
    SELECT x.sku, x.shard, least(x.available, x.qty - x.before)::bigint
    FROM (SELECT s.sku, s.shard, s.available, q.qty,
                 sum(s.available) OVER (PARTITION BY s.sku ORDER BY s.available DESC, s.shard)
                     - s.available AS before
          FROM unnest(p_sku, p_qty, p_shard) q(sku, qty, shard)
          JOIN stock s ON s.sku = q.sku AND s.shard = coalesce(q.shard, s.shard)) x
    WHERE x.available > 0 AND x.before < x.qty
$$;

-- Takes what was found to be there.
CREATE FUNCTION take_parts(
    p_id uuid, p_sku text[], p_qty bigint[], p_shard integer[], p_now timestamptz
) RETURNS void LANGUAGE plpgsql VOLATILE AS $$
BEGIN
    WITH part AS MATERIALIZED (
        SELECT p.sku, p.shard, p.qty FROM parts(p_sku, p_qty, p_shard) p
    ), lines AS (
        INSERT INTO reservation_line (reservation, sku, shard, qty)
        SELECT p_id, p.sku, p.shard, p.qty FROM part p
    ), moved AS (
        INSERT INTO movement (at, kind, sku, shard, qty, reservation)
        SELECT p_now, 'hold', p.sku, p.shard, p.qty, p_id FROM part p
    )
    UPDATE stock s SET available = s.available - p.qty, version = s.version + 1
    FROM part p WHERE s.sku = p.sku AND s.shard = p.shard;
END $$;

-- Why a cart cannot be had, by its first line that cannot; verdict null: it can, and for how long.
-- A line with a shard asks that row only, and one that is short of units there says 'elsewhere'.
CREATE FUNCTION judge_cart(
    p_sale text, p_closes_ms bigint, p_buyer text, p_sku text[], p_qty bigint[], p_shard integer[]
) RETURNS TABLE (verdict text, failed text, remaining bigint, hold interval)
LANGUAGE plpgsql VOLATILE AS $$
#variable_conflict use_column
DECLARE
    v_now  timestamptz := clock_timestamp();
    v_say  text;
    v_hold interval;
    v_line record;
BEGIN
    FOR v_line IN
        SELECT q.sku, q.qty, k.sale, k.frozen, k.units_per_buyer, k.hold,
               coalesce((SELECT sum(s.available) FROM stock s
                         WHERE s.sku = q.sku AND s.shard = coalesce(q.shard, s.shard)), 0)::bigint
                   AS available,
               q.shard IS NOT NULL
                   AND EXISTS (SELECT 1 FROM stock s WHERE s.sku = q.sku AND s.shard <> q.shard)
                   AS more
        FROM unnest(p_sku, p_qty, p_shard) q(sku, qty, shard)
        LEFT JOIN sku k ON k.sku = q.sku
        ORDER BY q.sku COLLATE "C"
    LOOP
        v_hold := greatest(v_hold, v_line.hold);
        v_say := CASE
            WHEN v_line.sale IS DISTINCT FROM p_sale THEN 'unknown-sku'
            WHEN v_line.frozen THEN 'frozen'
            WHEN v_now >= to_timestamp(p_closes_ms / 1000.0) THEN 'closed'
            WHEN live_units(p_sale, p_buyer, v_line.sku) + v_line.qty
                > most_units(v_line.units_per_buyer) THEN 'over-cap'
            WHEN v_line.available < v_line.qty AND v_line.more THEN 'elsewhere'
            WHEN v_line.available = 0 THEN 'sold-out'
            WHEN v_line.available < v_line.qty THEN 'insufficient'
        END;
        IF v_say IS NOT NULL THEN
            RETURN QUERY SELECT v_say, v_line.sku, v_line.available, v_hold;
            RETURN;
        END IF;
    END LOOP;
    RETURN QUERY SELECT NULL::text, NULL::text, NULL::bigint, v_hold;
END $$;

-- One order, all or nothing: a cart of several SKUs, or what no single row had enough for. A line's
-- shard names the row to try; null gathers from all rows of its SKU, and only that answer is final.
-- verdict: held | replay | key-reused | raced (send again) | elsewhere (gather) | unknown-sku
--          | frozen | closed | over-cap | sold-out | insufficient; `failed` names the line's SKU and
-- `remaining` what is left of it.
DROP FUNCTION take_cart;
CREATE FUNCTION take_cart(
    p_sale text, p_closes_ms bigint, p_id uuid, p_buyer text, p_order_key text, p_body_hash bytea,
    p_settling boolean, p_sku text[], p_qty bigint[], p_shard integer[]
) RETURNS TABLE (
    verdict text, id uuid, status text, settling boolean, lapsed boolean,
    expires_at timestamptz, created_at timestamptz, payment_ref text, remaining bigint, failed text
) LANGUAGE plpgsql VOLATILE SET plan_cache_mode = force_generic_plan
SET enable_seqscan = off SET enable_hashjoin = off SET enable_mergejoin = off AS $$
#variable_conflict use_column
DECLARE
    v_say    text;
    v_no     text;
    v_failed text;
    v_left   bigint;
    v_hold   interval;
    v_row    reservation%ROWTYPE;
    v_now    timestamptz;
    v_terms  bigint := (SELECT sum(k.generation) FROM sku k WHERE k.sku = ANY (p_sku));
BEGIN
    PERFORM lock_buyer(p_sku, p_buyer);
    v_now := clock_timestamp();
    SELECT * INTO v_row FROM reservation r
    WHERE r.sale = p_sale AND r.buyer = p_buyer AND r.order_key = p_order_key;
    IF FOUND THEN
        v_say := CASE WHEN v_row.body_hash <> p_body_hash THEN 'key-reused' ELSE 'replay' END;
    ELSE
        -- A look without a lock, so that what cannot be had in vain writes nothing.
        SELECT * INTO v_say, v_failed, v_left, v_hold
        FROM judge_cart(p_sale, p_closes_ms, p_buyer, p_sku, p_qty, p_shard);
    END IF;
    IF v_say IS NULL THEN
        INSERT INTO reservation
            (id, sale, buyer, order_key, body_hash, status, settling, expires_at, created_at)
        VALUES (p_id, p_sale, p_buyer, p_order_key, p_body_hash, 'held', p_settling,
                v_now + v_hold, v_now)
        ON CONFLICT DO NOTHING;
        v_say := CASE WHEN FOUND THEN 'held' ELSE 'raced' END;
    END IF;

    IF v_say IN ('held', 'sold-out', 'insufficient') THEN
        PERFORM 1 FROM unnest(p_sku, p_shard) q(sku, shard)
        JOIN stock s ON s.sku = q.sku AND s.shard = coalesce(q.shard, s.shard)
        ORDER BY s.sku, s.shard FOR NO KEY UPDATE OF s;
        v_now := clock_timestamp();                                     -- a hold starts after it
        SELECT * INTO v_no, v_failed, v_left, v_hold
        FROM judge_cart(p_sale, p_closes_ms, p_buyer, p_sku, p_qty, p_shard);
        -- A SKU that was frozen, spread and thawed meanwhile may need another buyer's lock.
        IF v_no IS NULL
            AND v_terms <> (SELECT sum(k.generation) FROM sku k WHERE k.sku = ANY (p_sku)) THEN
            v_no := 'raced';
        END IF;
        IF v_say = 'held' AND v_no IS NULL THEN
            PERFORM take_parts(p_id, p_sku, p_qty, p_shard, v_now);
            INSERT INTO outbox (at, type, reservation) VALUES (v_now, 'held', p_id);
            UPDATE reservation r SET created_at = v_now, expires_at = v_now + v_hold
            WHERE r.id = p_id RETURNING * INTO v_row;
        ELSIF v_say = 'held' THEN
            DELETE FROM reservation r WHERE r.id = p_id;
            v_say := v_no;
        ELSE
            -- Units came while the rows were waited for: keys are not written behind them.
            v_say := coalesce(v_no, 'raced');
        END IF;
    END IF;

    RETURN QUERY SELECT v_say, v_row.id, v_row.status::text, v_row.settling,
        v_row.status = 'held' AND NOT v_row.settling AND v_row.expires_at <= v_now,
        v_row.expires_at, v_row.created_at, v_row.payment_ref::text,
        v_left, v_failed;
END $$;

-- Takes the units of an expired hold again, from whichever rows have them, within the buyer's cap.
CREATE OR REPLACE FUNCTION take_again(p_row reservation, p_now timestamptz) RETURNS boolean
LANGUAGE plpgsql VOLATILE AS $$
DECLARE
    v_sku text[];
    v_qty bigint[];
BEGIN
    SELECT array_agg(g.sku), array_agg(g.qty) INTO v_sku, v_qty
    FROM (SELECT l.sku, sum(l.qty)::bigint AS qty FROM reservation_line l
          WHERE l.reservation = p_row.id GROUP BY l.sku) g;
    PERFORM lock_buyer(v_sku, p_row.buyer);
    PERFORM 1 FROM stock s WHERE s.sku = ANY (v_sku)
    ORDER BY s.sku, s.shard FOR NO KEY UPDATE;
    PERFORM 1 FROM unnest(v_sku, v_qty) q(sku, qty)
    JOIN sku k ON k.sku = q.sku
    WHERE k.frozen
       OR (SELECT sum(s.available) FROM stock s WHERE s.sku = q.sku) < q.qty
       OR live_units(p_row.sale, p_row.buyer, q.sku) + q.qty > most_units(k.units_per_buyer);
    IF FOUND THEN
        RETURN false;
    END IF;
    DELETE FROM reservation_line l WHERE l.reservation = p_row.id;
    PERFORM take_parts(p_row.id, v_sku, v_qty, NULL, p_now);
    RETURN true;
END $$;

-- Loads a SKU once, when first seen; afterwards only the terms follow the settings.
-- verdict: loaded | known | other-sale
CREATE OR REPLACE FUNCTION load_sku(
    p_sku text, p_sale text, p_units bigint, p_units_per_buyer bigint, p_hold_ms bigint,
    p_shards integer
) RETURNS text LANGUAGE plpgsql VOLATILE AS $$
DECLARE
    v_hold interval := make_interval(secs => p_hold_ms / 1000.0);
    v_sale text;
BEGIN
    INSERT INTO sku (sku, sale, loaded, units_per_buyer, hold, shards)
    VALUES (p_sku, p_sale, p_units, p_units_per_buyer, v_hold, p_shards)
    ON CONFLICT DO NOTHING;
    IF FOUND THEN
        WITH fresh AS (
            INSERT INTO stock (sku, shard, available)
            SELECT p_sku, i, spread(p_units, p_shards, i) FROM generate_series(0, p_shards - 1) i
            RETURNING shard, available
        )
        INSERT INTO movement (at, kind, sku, shard, qty)
        SELECT clock_timestamp(), 'load', p_sku, shard, available FROM fresh;
        RETURN 'loaded';
    END IF;
    SELECT k.sale INTO v_sale FROM sku k WHERE k.sku = p_sku;
    IF v_sale <> p_sale THEN
        RETURN 'other-sale';
    END IF;
    UPDATE sku k SET units_per_buyer = p_units_per_buyer, hold = v_hold
    WHERE k.sku = p_sku AND (k.units_per_buyer, k.hold) IS DISTINCT FROM (p_units_per_buyer, v_hold);
    RETURN 'known';
END $$;

-- Adds or removes units of any number of SKUs; the caller has locked their stock rows and knows that
-- nothing is taken away that is not available.
DROP FUNCTION shift_units;
CREATE FUNCTION shift_units(p_sku text[], p_delta bigint[]) RETURNS void
LANGUAGE plpgsql VOLATILE AS $$
DECLARE
    v_now timestamptz := clock_timestamp();
BEGIN
    WITH wanted AS MATERIALIZED (
        SELECT s.sku, s.shard, CASE
            WHEN q.delta > 0 THEN spread(q.delta, k.shards, s.shard)
            ELSE -least(s.available, greatest(0, -q.delta + s.available
                 - sum(s.available) OVER (PARTITION BY s.sku ORDER BY s.shard)))::bigint
            END AS delta
        FROM unnest(p_sku, p_delta) q(sku, delta)
        JOIN sku k ON k.sku = q.sku
        JOIN stock s ON s.sku = q.sku
    ), moved AS (
        INSERT INTO movement (at, kind, sku, shard, qty)
        SELECT v_now, 'restock', w.sku, w.shard, w.delta FROM wanted w WHERE w.delta <> 0
    )
    UPDATE stock s SET available = s.available + w.delta, version = s.version + 1,
                       returned = s.returned + greatest(w.delta, 0)
    FROM wanted w WHERE s.sku = w.sku AND s.shard = w.shard AND w.delta <> 0;
    UPDATE sku k SET loaded = k.loaded + q.delta
    FROM unnest(p_sku, p_delta) q(sku, delta) WHERE k.sku = q.sku AND q.delta <> 0;
    INSERT INTO outbox (at, type, detail)
    SELECT v_now, 'restocked', jsonb_build_object('sku', q.sku, 'delta', q.delta)
    FROM unnest(p_sku, p_delta) q(sku, delta) WHERE q.delta <> 0;
END $$;

-- verdict: restocked | replay | key-reused | unknown-sku | below-taken
CREATE OR REPLACE FUNCTION restock(p_sku text, p_delta bigint, p_op_key text) RETURNS text
LANGUAGE plpgsql VOLATILE AS $$
DECLARE
    v_op operation%ROWTYPE;
BEGIN
    PERFORM 1 FROM stock s WHERE s.sku = p_sku ORDER BY s.shard FOR NO KEY UPDATE;
    IF NOT FOUND THEN
        RETURN 'unknown-sku';
    END IF;
    SELECT * INTO v_op FROM operation o WHERE o.op_key = p_op_key;
    IF FOUND THEN
        RETURN CASE WHEN (v_op.kind, v_op.sku, v_op.amount) = ('restock', p_sku, p_delta)
                    THEN 'replay' ELSE 'key-reused' END;
    ELSIF (SELECT sum(s.available) FROM stock s WHERE s.sku = p_sku) + p_delta < 0 THEN
        RETURN 'below-taken';
    END IF;
    PERFORM shift_units(ARRAY[p_sku], ARRAY[p_delta]);
    -- The same key at the same time for another SKU fails here, and all of this is undone.
    INSERT INTO operation (op_key, kind, sku, amount, at)
    VALUES (p_op_key, 'restock', p_sku, p_delta, clock_timestamp());
    RETURN 'restocked';
END $$;

-- Compare and set. verdict: restocked | version-mismatch | unknown-sku | below-taken
CREATE OR REPLACE FUNCTION set_loaded(p_sku text, p_loaded bigint, p_version bigint) RETURNS text
LANGUAGE plpgsql VOLATILE AS $$
DECLARE
    v_delta bigint;
BEGIN
    PERFORM 1 FROM stock s WHERE s.sku = p_sku ORDER BY s.shard FOR NO KEY UPDATE;
    IF NOT FOUND THEN
        RETURN 'unknown-sku';
    ELSIF (SELECT sum(s.version) FROM stock s WHERE s.sku = p_sku) <> p_version THEN
        RETURN 'version-mismatch';
    END IF;
    SELECT p_loaded - k.loaded INTO v_delta FROM sku k WHERE k.sku = p_sku;
    IF (SELECT sum(s.available) FROM stock s WHERE s.sku = p_sku) + v_delta < 0 THEN
        RETURN 'below-taken';
    ELSIF v_delta <> 0 THEN
        PERFORM shift_units(ARRAY[p_sku], ARRAY[v_delta]);
    END IF;
    RETURN 'restocked';
END $$;

-- Takes a SKU out of the sale, or puts it back. Its rows are locked first: what was being taken is
-- taken before, and no take that began earlier ends after it. verdict: done | replay | unknown-sku
CREATE FUNCTION freeze_sku(p_sku text, p_frozen boolean) RETURNS text
LANGUAGE plpgsql VOLATILE AS $$
BEGIN
    PERFORM 1 FROM stock s WHERE s.sku = p_sku ORDER BY s.shard FOR NO KEY UPDATE;
    IF NOT FOUND THEN
        RETURN 'unknown-sku';
    END IF;
    UPDATE sku k SET frozen = p_frozen, generation = k.generation + 1
    WHERE k.sku = p_sku AND k.frozen <> p_frozen;
    RETURN CASE WHEN FOUND THEN 'done' ELSE 'replay' END;
END $$;

-- Spreads what is available over another number of rows. verdict: done | replay | not-frozen
--          | unknown-sku
CREATE FUNCTION set_shards(p_sku text, p_shards integer) RETURNS text
LANGUAGE plpgsql VOLATILE AS $$
DECLARE
    v_sku   sku%ROWTYPE;
    v_units bigint;
BEGIN
    PERFORM 1 FROM stock s WHERE s.sku = p_sku ORDER BY s.shard FOR NO KEY UPDATE;
    SELECT * INTO v_sku FROM sku k WHERE k.sku = p_sku;
    IF NOT FOUND THEN
        RETURN 'unknown-sku';
    ELSIF NOT v_sku.frozen THEN
        RETURN CASE WHEN v_sku.shards = p_shards THEN 'replay' ELSE 'not-frozen' END;
    END IF;
    INSERT INTO stock (sku, shard, available)
    SELECT p_sku, i, 0 FROM generate_series(0, p_shards - 1) i ON CONFLICT DO NOTHING;
    SELECT sum(s.available) INTO v_units FROM stock s WHERE s.sku = p_sku;
    WITH moved AS (
        INSERT INTO movement (at, kind, sku, shard, qty)
        SELECT clock_timestamp(), 'spread', p_sku, s.shard,
               spread(v_units, p_shards, s.shard) - s.available
        FROM stock s WHERE s.sku = p_sku AND s.available <> spread(v_units, p_shards, s.shard)
    )
    UPDATE stock s SET available = spread(v_units, p_shards, s.shard), version = s.version + 1
    WHERE s.sku = p_sku AND s.available <> spread(v_units, p_shards, s.shard);
    UPDATE sku k SET shards = p_shards WHERE k.sku = p_sku;
    RETURN 'done';
END $$;
