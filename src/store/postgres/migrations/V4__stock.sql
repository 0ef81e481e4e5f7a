-- Stock as operators see and change it.

-- Loads a SKU once, when first seen; afterwards only the terms follow the settings.
-- verdict: loaded | known | other-sale
CREATE FUNCTION load_sku(
    p_sku text, p_sale text, p_units bigint, p_units_per_buyer bigint, p_hold_ms bigint,
    p_shards integer
) RETURNS text LANGUAGE plpgsql VOLATILE AS $$
DECLARE
    v_hold interval := make_interval(secs => p_hold_ms / 1000.0);
    v_sale text;
BEGIN
    INSERT INTO sku (sku, sale, loaded, units_per_buyer, hold)
    VALUES (p_sku, p_sale, p_units, p_units_per_buyer, v_hold)
    ON CONFLICT DO NOTHING;
    IF FOUND THEN
        -- Spread evenly, the first shards getting one more.
        WITH spread AS (
            INSERT INTO stock (sku, shard, available)
            SELECT p_sku, i, p_units / p_shards + (i < p_units % p_shards)::integer
            FROM generate_series(0, p_shards - 1) i
            RETURNING shard, available
        )
        INSERT INTO movement (at, kind, sku, shard, qty)
        SELECT clock_timestamp(), 'load', p_sku, shard, available FROM spread;
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

-- Adds or removes units; the stock rows are locked by the caller. False: fewer are available.
CREATE FUNCTION shift_units(p_sku text, p_delta bigint) RETURNS boolean
LANGUAGE plpgsql VOLATILE AS $$
DECLARE
    v_now  timestamptz := clock_timestamp();
    v_rest bigint := -p_delta;
    v_row  record;
BEGIN
    IF p_delta < 0 AND
        (SELECT sum(s.available) FROM stock s WHERE s.sku = p_sku) < -p_delta THEN
        RETURN false;
    END IF;
    IF p_delta > 0 THEN
        UPDATE stock s SET available = s.available + p_delta, version = s.version + 1,
                           returned = s.returned + p_delta
        WHERE s.sku = p_sku AND s.shard = 0;
        INSERT INTO movement (at, kind, sku, shard, qty) VALUES (v_now, 'restock', p_sku, 0, p_delta);
    END IF;
    FOR v_row IN SELECT s.shard, s.available FROM stock s WHERE s.sku = p_sku ORDER BY s.shard LOOP
        EXIT WHEN v_rest <= 0;
        CONTINUE WHEN v_row.available = 0;
        UPDATE stock s SET available = s.available - least(v_rest, v_row.available),
                           version = s.version + 1
        WHERE s.sku = p_sku AND s.shard = v_row.shard;
        INSERT INTO movement (at, kind, sku, shard, qty)
        VALUES (v_now, 'restock', p_sku, v_row.shard, -least(v_rest, v_row.available));
        v_rest := v_rest - v_row.available;
    END LOOP;
    UPDATE sku k SET loaded = k.loaded + p_delta WHERE k.sku = p_sku;
    INSERT INTO outbox (at, type, detail)
    VALUES (v_now, 'restocked', jsonb_build_object('sku', p_sku, 'delta', p_delta));
    RETURN true;
END $$;

-- verdict: restocked | replay | key-reused | unknown-sku | below-taken
CREATE FUNCTION restock(p_sku text, p_delta bigint, p_op_key text) RETURNS text
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
    END IF;
    IF NOT shift_units(p_sku, p_delta) THEN
        RETURN 'below-taken';
    END IF;
    -- The same key at the same time for another SKU fails here, and all of this is undone.
    INSERT INTO operation (op_key, kind, sku, amount, at)
    VALUES (p_op_key, 'restock', p_sku, p_delta, clock_timestamp());
    RETURN 'restocked';
END $$;

-- Compare and set. verdict: restocked | version-mismatch | unknown-sku | below-taken
CREATE FUNCTION set_loaded(p_sku text, p_loaded bigint, p_version bigint) RETURNS text
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
    RETURN CASE WHEN v_delta = 0 OR shift_units(p_sku, v_delta) THEN 'restocked'
                ELSE 'below-taken' END;
END $$;
