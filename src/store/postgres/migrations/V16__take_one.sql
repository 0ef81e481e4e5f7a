-- A batch of one, as a quiet SKU has them: the way of `take_batch` without its arrays. Whatever is
-- not plain (a known key, too little, too much for the buyer) is answered with nulls and has written
-- nothing; terms that changed meanwhile fail with ST001, which undoes it. Both are for `take_batch`.
CREATE FUNCTION take_one(
    p_sku text, p_shard integer, p_sale text, p_closes_ms bigint, p_id uuid, p_buyer text,
    p_order_key text, p_qty bigint, p_body_hash bytea, p_settling boolean,
    OUT created_at timestamptz, OUT expires_at timestamptz, OUT remaining bigint, OUT row_us bigint,
    OUT locked_at timestamptz
) LANGUAGE plpgsql VOLATILE AS $$
#variable_conflict use_column
DECLARE
    v_closes  timestamptz := to_timestamp(p_closes_ms / 1000.0);
    v_read    record;
    v_now     timestamptz;
    v_waits   timestamptz;
    v_version bigint;
BEGIN
    SELECT k.units_per_buyer AS most, k.hold, k.generation, s.version INTO v_read
    FROM sku k JOIN stock s ON s.sku = k.sku AND s.shard = p_shard
    WHERE k.sku = p_sku AND k.sale = p_sale AND NOT k.frozen AND s.available >= p_qty;
    IF NOT FOUND THEN
        RETURN;
    END IF;
    v_now := clock_timestamp();
    -- A cap over several rows wants its buyers locked.
    IF v_now >= v_closes OR (v_read.most > 0 AND
        (live_units(p_sale, p_buyer, p_sku) + p_qty > v_read.most
         OR EXISTS (SELECT 1 FROM stock o WHERE o.sku = p_sku AND o.shard <> p_shard))) THEN
        RETURN;
    END IF;
    INSERT INTO reservation AS r
        (id, sale, buyer, order_key, body_hash, status, settling, expires_at, created_at)
    VALUES (p_id, p_sale, p_buyer, p_order_key, p_body_hash, 'held', p_settling,
            v_now + v_read.hold, v_now)
    ON CONFLICT DO NOTHING;
    IF NOT FOUND THEN
        RETURN;
    END IF;
    INSERT INTO reservation_line (reservation, sku, shard, qty) VALUES (p_id, p_sku, p_shard, p_qty);
    INSERT INTO movement (at, kind, sku, shard, qty, reservation)
    VALUES (v_now, 'hold', p_sku, p_shard, p_qty, p_id);
    INSERT INTO outbox (at, type, reservation) VALUES (v_now, 'held', p_id);
    v_waits := clock_timestamp();
    UPDATE stock s SET available = s.available - p_qty, version = s.version + 1
    WHERE s.sku = p_sku AND s.shard = p_shard AND s.available >= p_qty
        -- What the buyer has is as it was read.
        AND (v_read.most = 0 OR s.version = v_read.version)
    RETURNING s.available, s.version, clock_timestamp() INTO remaining, v_version, locked_at;
    IF NOT FOUND THEN
        DELETE FROM reservation r WHERE r.id = p_id;
        DELETE FROM reservation_line l WHERE l.reservation = p_id;
        DELETE FROM movement m WHERE m.reservation = p_id;
        DELETE FROM outbox o WHERE o.txid = pg_current_xact_id() AND o.reservation = p_id;
        RETURN;
    END IF;
    IF v_version <> v_read.version + 1 OR locked_at >= v_closes THEN
        PERFORM 1 FROM sku k
        WHERE k.sku = p_sku AND NOT k.frozen AND k.generation = v_read.generation;
        IF NOT FOUND OR locked_at >= v_closes THEN
            RAISE EXCEPTION USING ERRCODE = 'ST001', MESSAGE = 'the terms of a SKU changed';
        END IF;
    END IF;
    IF locked_at - v_now > interval '50 ms' THEN                        -- a hold starts after the wait
        v_now := locked_at;
        UPDATE reservation r SET created_at = v_now, expires_at = v_now + v_read.hold
        WHERE r.id = p_id;
    END IF;
    created_at := v_now;
    expires_at := v_now + v_read.hold;
    row_us := extract(epoch FROM locked_at - v_waits) * 1000000;
END $$;

-- A freeze or thaw moves the version of the stock rows, so that whoever finds it unmoved knows that
-- the terms are as they were read.
CREATE OR REPLACE FUNCTION freeze_sku(p_sku text, p_frozen boolean) RETURNS text
LANGUAGE plpgsql VOLATILE AS $$
BEGIN
    PERFORM 1 FROM stock s WHERE s.sku = p_sku ORDER BY s.shard FOR NO KEY UPDATE;
    IF NOT FOUND THEN
        RETURN 'unknown-sku';
    END IF;
    UPDATE sku k SET frozen = p_frozen, generation = k.generation + 1
    WHERE k.sku = p_sku AND k.frozen <> p_frozen;
    IF NOT FOUND THEN
        RETURN 'replay';
    END IF;
    UPDATE stock s SET version = s.version + 1 WHERE s.sku = p_sku;
    RETURN 'done';
END $$;
