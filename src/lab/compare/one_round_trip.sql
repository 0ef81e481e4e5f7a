-- One order, one call, one transaction, with the rows that lanes write: copies of the ledger's own
-- tables, so that only the way differs. The rows are inserted before the stock row is locked, which
-- holds it for the update and the commit alone.
CREATE SCHEMA single;
CREATE TABLE single.reservation (LIKE public.reservation INCLUDING ALL);
CREATE TABLE single.reservation_line (LIKE public.reservation_line INCLUDING ALL);
CREATE TABLE single.movement (LIKE public.movement INCLUDING ALL);
CREATE TABLE single.outbox (LIKE public.outbox INCLUDING ALL);
CREATE TABLE single.stock (LIKE public.stock INCLUDING ALL) WITH (
    fillfactor = 10,
    autovacuum_vacuum_threshold = 50,
    autovacuum_vacuum_scale_factor = 0,
    autovacuum_vacuum_cost_delay = 0
);

-- When the stock row was locked; null if there is not enough.
CREATE FUNCTION single.take(
    p_sku text, p_id uuid, p_sale text, p_buyer text, p_order_key text, p_qty bigint,
    p_body_hash bytea, p_hold interval
) RETURNS timestamptz LANGUAGE plpgsql VOLATILE AS $$
DECLARE
    v_now    timestamptz := clock_timestamp();
    v_locked timestamptz;
BEGIN
    -- So that a sold-out SKU costs no dead rows.
    PERFORM 1 FROM single.stock s
    WHERE s.sku = p_sku AND s.shard = 0 AND s.available >= p_qty;
    IF NOT FOUND THEN
        RETURN NULL;
    END IF;
    INSERT INTO single.reservation
        (id, sale, buyer, order_key, body_hash, status, expires_at, created_at)
    VALUES (p_id, p_sale, p_buyer, p_order_key, p_body_hash, 'held', v_now + p_hold, v_now)
    ON CONFLICT DO NOTHING;
    IF NOT FOUND THEN
        RAISE EXCEPTION 'this order is known' USING ERRCODE = 'unique_violation';
    END IF;
    INSERT INTO single.reservation_line (reservation, sku, shard, qty)
    VALUES (p_id, p_sku, 0, p_qty);
    INSERT INTO single.movement (at, kind, sku, shard, qty, reservation)
    VALUES (v_now, 'hold', p_sku, 0, p_qty, p_id);
    INSERT INTO single.outbox (at, type, reservation) VALUES (v_now, 'held', p_id);
    UPDATE single.stock s SET available = s.available - p_qty, version = s.version + 1
    WHERE s.sku = p_sku AND s.shard = 0 AND s.available >= p_qty
    RETURNING clock_timestamp() INTO v_locked;
    IF NOT FOUND THEN
        -- Takes back the rows.
        RAISE EXCEPTION 'sold out' USING ERRCODE = 'no_data_found';
    END IF;
    RETURN v_locked;
END $$;
