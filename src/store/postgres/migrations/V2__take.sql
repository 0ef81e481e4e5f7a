-- Taking units. Lock order everywhere: existing reservations, stock by (sku, shard), new keys sorted.
-- The functions are VOLATILE, so each inner statement reads a fresh snapshot: what is read after the
-- wait for the stock row's lock is what the last holder of it left behind.

-- plpgsql, because it keeps its plan: a function in plain SQL is planned anew at each call, and that
-- would be paid for while the stock row is locked.
CREATE FUNCTION live_units(p_sale text, p_buyer text, p_sku text) RETURNS bigint
LANGUAGE plpgsql VOLATILE AS $$
BEGIN
    RETURN (SELECT coalesce(sum(l.qty), 0)
            FROM reservation r
            JOIN reservation_line l ON l.reservation = r.id AND l.sku = p_sku
            WHERE r.sale = p_sale AND r.buyer = p_buyer AND r.status IN ('held', 'confirmed'));
END $$;

-- What a buyer's live units of a SKU may be; 0 in the table means that nothing limits them.
CREATE FUNCTION most_units(p_units_per_buyer bigint) RETURNS bigint
LANGUAGE sql IMMUTABLE AS $$ SELECT coalesce(nullif(p_units_per_buyer, 0), 9223372036854775807) $$;

-- Many requests for one SKU, arrays in arrival order; one answer a request, in that order.
-- verdict: held | replay | key-reused | raced (send again once) | unknown-sku | frozen | closed
--          | over-cap | sold-out | insufficient
CREATE FUNCTION take(
    p_sku text, p_shard integer, p_sale text, p_closes_ms bigint,
    p_id uuid[], p_buyer text[], p_order_key text[], p_qty bigint[], p_body_hash bytea[],
    p_settling boolean[]
) RETURNS TABLE (
    ord integer, verdict text, id uuid, status text, settling boolean, lapsed boolean,
    expires_at timestamptz, created_at timestamptz, payment_ref text, remaining bigint
) LANGUAGE plpgsql VOLATILE AS $$
#variable_conflict use_column
DECLARE
    v_left  bigint;
    v_sku   sku%ROWTYPE;
    v_now   timestamptz;
    v_say   text[];
    v_slot  integer[];
    v_used  bigint[];
    v_taken bigint;
    v_stop  text;
BEGIN
    SELECT s.available INTO v_left FROM stock s
    WHERE s.sku = p_sku AND s.shard = p_shard FOR NO KEY UPDATE;        -- the only wait
    v_now := clock_timestamp();                                         -- a hold starts after it
    SELECT * INTO v_sku FROM sku k WHERE k.sku = p_sku;
    v_stop := CASE
        WHEN v_left IS NULL OR v_sku.sale IS DISTINCT FROM p_sale THEN 'unknown-sku'
        WHEN v_sku.frozen THEN 'frozen'
        WHEN v_now >= to_timestamp(p_closes_ms / 1000.0) THEN 'closed'
    END;

    SELECT array_agg(CASE
            WHEN r.id IS NULL THEN v_stop
            WHEN r.body_hash <> q.body_hash THEN 'key-reused'           -- a tombstone has none
            ELSE 'replay' END ORDER BY q.o)
    INTO v_say
    FROM unnest(p_buyer, p_order_key, p_body_hash) WITH ORDINALITY q(buyer, order_key, body_hash, o)
    LEFT JOIN reservation r
        ON r.sale = p_sale AND r.buyer = q.buyer AND r.order_key = q.order_key;

    IF v_sku.units_per_buyer > 0 THEN
        SELECT array_agg(b.slot ORDER BY b.o) INTO v_slot
        FROM (SELECT q.o, dense_rank() OVER (ORDER BY q.buyer COLLATE "C") AS slot
              FROM unnest(p_buyer) WITH ORDINALITY q(buyer, o)) b;
        SELECT array_agg(live_units(p_sale, b.buyer, p_sku) ORDER BY b.buyer COLLATE "C")
        INTO v_used
        FROM (SELECT DISTINCT q.buyer FROM unnest(p_buyer) q(buyer)) b;
    END IF;

    FOR i IN 1 .. cardinality(p_id) LOOP                                -- skip what does not fit
        CONTINUE WHEN v_say[i] IS NOT NULL;
        IF v_used[v_slot[i]] + p_qty[i] > v_sku.units_per_buyer THEN   -- null without a cap
            v_say[i] := 'over-cap';
        ELSIF v_left = 0 THEN
            v_say[i] := 'sold-out';
        ELSIF p_qty[i] > v_left THEN
            v_say[i] := 'insufficient';
        ELSE
            v_say[i] := 'held';
            v_left := v_left - p_qty[i];
            IF v_slot IS NOT NULL THEN
                v_used[v_slot[i]] := v_used[v_slot[i]] + p_qty[i];
            END IF;
        END IF;
    END LOOP;

    WITH fresh AS (
        INSERT INTO reservation
            (id, sale, buyer, order_key, body_hash, status, settling, expires_at, created_at)
        SELECT q.id, p_sale, q.buyer, q.order_key, q.body_hash, 'held', q.settling,
               v_now + v_sku.hold, v_now
        FROM unnest(p_id, p_buyer, p_order_key, p_body_hash, p_settling, v_say)
            q(id, buyer, order_key, body_hash, settling, say)
        WHERE q.say = 'held'
        ORDER BY q.buyer COLLATE "C", q.order_key COLLATE "C"
        ON CONFLICT DO NOTHING
        RETURNING id
    ), wanted AS (
        SELECT f.id, q.qty FROM fresh f JOIN unnest(p_id, p_qty) q(id, qty) ON q.id = f.id
    ), lines AS (
        INSERT INTO reservation_line (reservation, sku, shard, qty)
        SELECT w.id, p_sku, p_shard, w.qty FROM wanted w
    ), moved AS (
        INSERT INTO movement (at, kind, sku, shard, qty, reservation)
        SELECT v_now, 'hold', p_sku, p_shard, w.qty, w.id FROM wanted w
    ), told AS (
        INSERT INTO outbox (at, type, reservation) SELECT v_now, 'held', w.id FROM wanted w
    )
    SELECT coalesce(sum(w.qty), 0) INTO v_taken FROM wanted w;

    IF v_taken > 0 THEN
        UPDATE stock s SET available = s.available - v_taken, version = s.version + 1
        WHERE s.sku = p_sku AND s.shard = p_shard
        RETURNING s.available INTO v_left;
    END IF;

    RETURN QUERY
    SELECT q.o::integer,
           CASE WHEN q.say = 'held' AND (r.id IS DISTINCT FROM q.id OR r.created_at <> v_now)
                THEN 'raced' ELSE q.say END,
           r.id, r.status::text, r.settling, r.status = 'held' AND r.expires_at <= v_now,
           r.expires_at, r.created_at, r.payment_ref::text, v_left
    FROM unnest(p_id, p_buyer, p_order_key, v_say) WITH ORDINALITY q(id, buyer, order_key, say, o)
    LEFT JOIN reservation r
        ON r.sale = p_sale AND r.buyer = q.buyer AND r.order_key = q.order_key
    ORDER BY q.o;
END $$;

-- One cart of several SKUs, all or nothing. The same verdicts; `failed` names the line's SKU and
-- `remaining` what is left of it.
CREATE FUNCTION take_cart(
    p_sale text, p_closes_ms bigint, p_id uuid, p_buyer text, p_order_key text, p_body_hash bytea,
    p_settling boolean, p_sku text[], p_qty bigint[]
) RETURNS TABLE (
    verdict text, id uuid, status text, settling boolean, lapsed boolean,
    expires_at timestamptz, created_at timestamptz, payment_ref text, remaining bigint, failed text
) LANGUAGE plpgsql VOLATILE AS $$
#variable_conflict use_column
DECLARE
    v_say    text;
    v_failed text;
    v_left   bigint;
    v_now    timestamptz;
    v_hold   interval;
    v_row    reservation%ROWTYPE;
    v_line   record;
BEGIN
    PERFORM 1 FROM stock s WHERE s.sku = ANY (p_sku) AND s.shard = 0
    ORDER BY s.sku, s.shard FOR NO KEY UPDATE;
    v_now := clock_timestamp();

    SELECT * INTO v_row FROM reservation r
    WHERE r.sale = p_sale AND r.buyer = p_buyer AND r.order_key = p_order_key;
    IF FOUND THEN
        v_say := CASE WHEN v_row.body_hash <> p_body_hash THEN 'key-reused' ELSE 'replay' END;
    END IF;

    FOR v_line IN
        SELECT q.sku, q.qty, s.available, k.sale, k.frozen, k.units_per_buyer, k.hold
        FROM unnest(p_sku, p_qty) q(sku, qty)
        LEFT JOIN sku k ON k.sku = q.sku
        LEFT JOIN stock s ON s.sku = q.sku AND s.shard = 0
        ORDER BY q.sku COLLATE "C"
    LOOP
        EXIT WHEN v_say IS NOT NULL;
        v_hold := greatest(v_hold, v_line.hold);
        v_say := CASE
            WHEN v_line.available IS NULL OR v_line.sale <> p_sale THEN 'unknown-sku'
            WHEN v_line.frozen THEN 'frozen'
            WHEN v_now >= to_timestamp(p_closes_ms / 1000.0) THEN 'closed'
            WHEN live_units(p_sale, p_buyer, v_line.sku) + v_line.qty
                > most_units(v_line.units_per_buyer) THEN 'over-cap'
            WHEN v_line.available = 0 THEN 'sold-out'
            WHEN v_line.available < v_line.qty THEN 'insufficient'
        END;
        IF v_say IS NOT NULL THEN
            v_failed := v_line.sku;
            v_left := v_line.available;
        END IF;
    END LOOP;

    IF v_say IS NULL THEN
        INSERT INTO reservation
            (id, sale, buyer, order_key, body_hash, status, settling, expires_at, created_at)
        VALUES (p_id, p_sale, p_buyer, p_order_key, p_body_hash, 'held', p_settling,
                v_now + v_hold, v_now)
        ON CONFLICT DO NOTHING
        RETURNING * INTO v_row;
        v_say := CASE WHEN FOUND THEN 'held' ELSE 'raced' END;
    END IF;
    IF v_say = 'held' THEN
        INSERT INTO reservation_line (reservation, sku, shard, qty)
        SELECT p_id, q.sku, 0, q.qty FROM unnest(p_sku, p_qty) q(sku, qty);
        INSERT INTO movement (at, kind, sku, shard, qty, reservation)
        SELECT v_now, 'hold', q.sku, 0, q.qty, p_id FROM unnest(p_sku, p_qty) q(sku, qty);
        INSERT INTO outbox (at, type, reservation) VALUES (v_now, 'held', p_id);
        UPDATE stock s SET available = s.available - q.qty, version = s.version + 1
        FROM unnest(p_sku, p_qty) q(sku, qty) WHERE s.sku = q.sku AND s.shard = 0;
    END IF;

    RETURN QUERY SELECT v_say, v_row.id, v_row.status::text, v_row.settling,
        v_row.status = 'held' AND v_row.expires_at <= v_now,
        v_row.expires_at, v_row.created_at, v_row.payment_ref::text, v_left, v_failed;
END $$;
