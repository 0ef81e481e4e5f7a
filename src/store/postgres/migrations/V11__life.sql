-- The life of reservations when there are very many of them: sweeps that hold a stock row for a
-- moment only, figures that need no sum over all orders, holds that wait for the shop's answer.

-- A sweep reads the ends of ordinary holds; those that the shop has not answered for are no business
-- of it, however many of them lie about.
DROP INDEX reservation_lapsing;
CREATE INDEX reservation_lapsing ON reservation (expires_at) WHERE status = 'held' AND NOT settling;
CREATE INDEX reservation_settling ON reservation (expires_at) WHERE status = 'held' AND settling;

-- Confirmed units of a SKU, a row for each database connection that ever confirmed, so that none
-- waits for another; what is held is then loaded - available - confirmed.
CREATE TABLE sold (
    sku     text COLLATE "C" NOT NULL,
    backend integer NOT NULL,
    units   bigint NOT NULL,
    PRIMARY KEY (sku, backend)
) WITH (fillfactor = 20, autovacuum_vacuum_threshold = 500, autovacuum_vacuum_scale_factor = 0);

INSERT INTO sold (sku, backend, units)
SELECT l.sku, 0, sum(l.qty)
FROM reservation r JOIN reservation_line l ON l.reservation = r.id
WHERE r.status = 'confirmed' GROUP BY l.sku;

-- A trigger on updates: takes insert, and pay nothing for it.
CREATE FUNCTION count_sold() RETURNS trigger
LANGUAGE plpgsql VOLATILE
SET enable_seqscan = off SET enable_hashjoin = off SET enable_mergejoin = off AS $$
BEGIN
    INSERT INTO sold AS s (sku, backend, units)
    SELECT l.sku, pg_backend_pid(), sum(x.sign * l.qty)
    FROM (SELECT a.id, 1 AS sign FROM after a WHERE a.status = 'confirmed'
          UNION ALL
          SELECT b.id, -1 FROM before b WHERE b.status = 'confirmed') x
    JOIN reservation_line l ON l.reservation = x.id
    GROUP BY l.sku HAVING sum(x.sign * l.qty) <> 0
    ORDER BY l.sku
    ON CONFLICT (sku, backend) DO UPDATE SET units = s.units + excluded.units;
    RETURN NULL;
END $$;
CREATE TRIGGER reservation_sold AFTER UPDATE ON reservation
REFERENCING OLD TABLE AS before NEW TABLE AS after
FOR EACH STATEMENT EXECUTE FUNCTION count_sold();

-- Puts the units of reservations back. Their rows are locked and updated by the caller already. All
-- sums are made before the first stock row is touched, so that its lock lasts from one update to the
-- commit; the rows are updated in order.
CREATE OR REPLACE FUNCTION put_back(p_reservations uuid[], p_kind text, p_now timestamptz)
RETURNS TABLE (sku text, shard integer, returned bigint, units bigint)
LANGUAGE plpgsql VOLATILE
SET enable_seqscan = off SET enable_hashjoin = off SET enable_mergejoin = off AS $$
#variable_conflict use_column
DECLARE
    v_sku   text[];
    v_shard integer[];
    v_units bigint[];
BEGIN
    INSERT INTO movement (at, kind, sku, shard, qty, reservation)
    SELECT p_now, p_kind, l.sku, l.shard, l.qty, l.reservation
    FROM reservation_line l WHERE l.reservation = ANY (p_reservations);
    SELECT array_agg(b.sku ORDER BY b.sku, b.shard), array_agg(b.shard ORDER BY b.sku, b.shard),
           array_agg(b.qty ORDER BY b.sku, b.shard)
    INTO v_sku, v_shard, v_units
    FROM (SELECT l.sku, l.shard, sum(l.qty)::bigint AS qty FROM reservation_line l
          WHERE l.reservation = ANY (p_reservations) GROUP BY l.sku, l.shard) b;
    FOR i IN 1 .. coalesce(cardinality(v_sku), 0) LOOP
        RETURN QUERY
        UPDATE stock s
        SET available = s.available + v_units[i], version = s.version + 1,
            returned = s.returned + v_units[i]
        WHERE s.sku = v_sku[i] AND s.shard = v_shard[i]
        RETURNING s.sku::text, s.shard, s.returned, v_units[i];
    END LOOP;
END $$;

-- As before, with its plan nailed down: on a young table the statistics know of no lapsed hold yet,
-- and each chunk would sort all of them. Sweeps take turns, so that an order waits for one of them at
-- most: p_turn waits for it; without, a sweep that meets another one leaves it the work.
DROP FUNCTION sweep(integer);
CREATE FUNCTION sweep(p_limit integer, p_turn boolean)
RETURNS TABLE (expired integer, sku text, shard integer, returned bigint, units bigint)
LANGUAGE plpgsql VOLATILE
SET enable_seqscan = off SET enable_bitmapscan = off SET enable_sort = off AS $$
#variable_conflict use_column
DECLARE
    v_ids uuid[];
    v_now timestamptz;
    c_turn CONSTANT bigint := 6004496007583781971;
BEGIN
    IF p_turn THEN
        PERFORM pg_advisory_xact_lock(c_turn);
    ELSIF NOT pg_try_advisory_xact_lock(c_turn) THEN
        RETURN;
    END IF;
    v_now := clock_timestamp();
    SELECT array_agg(d.id) INTO v_ids FROM (
        SELECT r.id FROM reservation r
        WHERE r.status = 'held' AND r.expires_at <= v_now AND NOT r.settling
        ORDER BY r.expires_at LIMIT p_limit FOR NO KEY UPDATE SKIP LOCKED) d;
    IF v_ids IS NULL THEN
        RETURN;
    END IF;
    UPDATE reservation r SET status = 'expired' WHERE r.id = ANY (v_ids);
    INSERT INTO outbox (at, type, reservation) SELECT v_now, 'expired', unnest(v_ids);
    RETURN QUERY SELECT cardinality(v_ids), b.sku, b.shard, b.returned, b.units
    FROM put_back(v_ids, 'expire', v_now) b;
END $$;

-- When a hold of each SKU ends at the earliest, looked for among those that end first of all. A SKU
-- whose holds are all younger is not told of.
CREATE FUNCTION earliest_release() RETURNS TABLE (sku text, at timestamptz)
LANGUAGE plpgsql STABLE
SET enable_seqscan = off SET enable_bitmapscan = off SET enable_sort = off AS $$
#variable_conflict use_column
BEGIN
    RETURN QUERY
    SELECT l.sku::text, min(e.expires_at)
    FROM (SELECT r.id, r.expires_at FROM reservation r
          WHERE r.status = 'held' AND NOT r.settling
          ORDER BY r.expires_at LIMIT 500) e
    JOIN reservation_line l ON l.reservation = e.id GROUP BY l.sku;
END $$;

-- As before, but a hold whose shop has not answered yet has not ended.
-- verdict: extended | replay (confirmed: nothing to extend) | unknown-order | hold-expired | released
CREATE OR REPLACE FUNCTION extend(p_id uuid, p_extension_ms bigint) RETURNS text
LANGUAGE plpgsql VOLATILE AS $$
DECLARE
    v_row  reservation%ROWTYPE;
    v_now  timestamptz;
    v_most timestamptz;
    v_want timestamptz;
BEGIN
    SELECT * INTO v_row FROM reservation r WHERE r.id = p_id FOR NO KEY UPDATE;
    v_now := clock_timestamp();
    IF v_row.id IS NULL THEN
        RETURN 'unknown-order';
    ELSIF v_row.status = 'confirmed' THEN
        RETURN 'replay';
    ELSIF v_row.status = 'expired'
        OR (v_row.status = 'held' AND NOT v_row.settling AND v_row.expires_at <= v_now) THEN
        RETURN 'hold-expired';
    ELSIF v_row.status <> 'held' THEN
        RETURN 'released';
    END IF;
    v_most := v_row.expires_at - v_row.extended + make_interval(secs => p_extension_ms / 1000.0);
    SELECT v_now + max(k.hold) INTO v_want
    FROM reservation_line l JOIN sku k ON k.sku = l.sku WHERE l.reservation = p_id;
    -- A whole hold from now, but never past the total and never sooner than it was.
    v_want := greatest(v_row.expires_at, least(v_want, v_most));
    UPDATE reservation r
    SET expires_at = v_want, extended = v_row.extended + (v_want - v_row.expires_at)
    WHERE r.id = p_id;
    RETURN 'extended';
END $$;

-- The shop has answered, and the hold is an ordinary one from now on: it ends when it ends.
-- verdict: settled | replay (confirmed, or settled before) | unknown-order | hold-expired | released
CREATE FUNCTION settle(p_id uuid) RETURNS text
LANGUAGE plpgsql VOLATILE AS $$
DECLARE
    v_row reservation%ROWTYPE;
BEGIN
    SELECT * INTO v_row FROM reservation r WHERE r.id = p_id FOR NO KEY UPDATE;
    IF v_row.id IS NULL THEN
        RETURN 'unknown-order';
    ELSIF v_row.status = 'held' AND v_row.settling THEN
        UPDATE reservation r SET settling = false WHERE r.id = p_id;
        RETURN 'settled';
    END IF;
    RETURN CASE v_row.status WHEN 'held' THEN 'replay' WHEN 'confirmed' THEN 'replay'
                             WHEN 'expired' THEN 'hold-expired' ELSE 'released' END;
END $$;

-- A payment that came before its order, or without one, is told of once.
CREATE UNIQUE INDEX outbox_one_unmatched ON outbox (detail) WHERE type = 'payment_unmatched';

-- A page of the keys that concern a SKU, by id, for its gate; tombstones name no SKU and concern all.
-- The plan is nailed down: each page sorted anew would make the load of a gate quadratic.
CREATE FUNCTION known_keys(p_sale text, p_sku text, p_after uuid, p_limit bigint)
RETURNS TABLE (id uuid, sale text, buyer text, order_key text)
LANGUAGE plpgsql STABLE
SET enable_seqscan = off SET enable_bitmapscan = off SET enable_sort = off AS $$
#variable_conflict use_column
BEGIN
    RETURN QUERY
    SELECT r.id, r.sale::text, r.buyer::text, r.order_key::text
    FROM reservation r
    CROSS JOIN LATERAL (SELECT bool_or(l.sku = p_sku) AS ours
                        FROM reservation_line l WHERE l.reservation = r.id) n
    WHERE r.sale = p_sale AND r.id > p_after AND n.ours IS NOT FALSE
    ORDER BY r.id LIMIT p_limit;
END $$;

-- Those that came to be known since a snapshot, whatever their ids; each left an event.
CREATE FUNCTION keys_since(p_sale text, p_sku text, p_snapshot pg_snapshot, p_limit bigint)
RETURNS TABLE (id uuid, sale text, buyer text, order_key text)
LANGUAGE plpgsql STABLE
SET enable_seqscan = off SET enable_bitmapscan = off
SET enable_hashjoin = off SET enable_mergejoin = off AS $$
#variable_conflict use_column
BEGIN
    RETURN QUERY
    SELECT r.id, r.sale::text, r.buyer::text, r.order_key::text
    FROM outbox o
    JOIN reservation r ON r.id = o.reservation
    CROSS JOIN LATERAL (SELECT bool_or(l.sku = p_sku) AS ours
                        FROM reservation_line l WHERE l.reservation = r.id) n
    WHERE o.txid >= pg_snapshot_xmin(p_snapshot) AND NOT pg_visible_in_snapshot(o.txid, p_snapshot)
      AND o.type IN ('held', 'released') AND r.sale = p_sale AND n.ours IS NOT FALSE
    LIMIT p_limit;
END $$;
