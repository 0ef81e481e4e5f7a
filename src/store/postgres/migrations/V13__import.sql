-- Many SKUs at once, all or none: by difference, or (p_set) to what was ever loaded. p_look: nothing
-- is changed. p_seen: what a look answered, if nothing may have changed since.
-- The row with ord 0 is for all of them: done | looked | refused | replay | key-reused | changed;
-- the others are for one line each: change | same | unknown-sku | below-taken | too-many.
CREATE FUNCTION import_stock(
    p_set boolean, p_sku text[], p_units bigint[], p_op_key text, p_seen text,
    p_look boolean
) RETURNS TABLE (
    ord integer, verdict text, sale text, loaded bigint, taken bigint, delta bigint, seen text
) LANGUAGE plpgsql VOLATILE AS $$
#variable_conflict use_column
DECLARE
    v_hash bigint := hashtextextended(concat_ws(chr(10), p_set, p_sku, p_units), 0);
    v_op   operation%ROWTYPE;
    v_seen text;
    v_say  text;
    v_sku  text[];
    v_rise bigint[];
BEGIN
    IF NOT p_look THEN
        PERFORM 1 FROM stock s WHERE s.sku = ANY (p_sku) ORDER BY s.sku, s.shard FOR NO KEY UPDATE;
    END IF;
    SELECT * INTO v_op FROM operation o WHERE o.op_key = p_op_key;
    IF FOUND THEN
        RETURN QUERY SELECT 0, CASE WHEN (v_op.kind, v_op.amount) = ('import', v_hash)
                                    THEN 'replay' ELSE 'key-reused' END,
            NULL::text, NULL::bigint, NULL::bigint, NULL::bigint, NULL::text;
        RETURN;
    END IF;

    CREATE TEMP TABLE import_line ON COMMIT DROP AS
    SELECT q.ord::integer AS ord, q.sku, k.sale, k.loaded, k.loaded - s.available AS taken,
           CASE WHEN p_set THEN q.units - k.loaded ELSE q.units END AS delta, s.available
    FROM unnest(p_sku, p_units) WITH ORDINALITY q(sku, units, ord)
    LEFT JOIN sku k ON k.sku = q.sku
    LEFT JOIN (SELECT s.sku, sum(s.available)::bigint AS available FROM stock s
               WHERE s.sku = ANY (p_sku) GROUP BY s.sku) s ON s.sku = k.sku;
    SELECT md5(string_agg(format('%s %s', i.sku, i.loaded), chr(10) ORDER BY i.ord)) INTO v_seen
    FROM import_line i;
    v_say := CASE
        WHEN NOT p_look AND p_seen <> v_seen THEN 'changed'
        WHEN EXISTS (SELECT 1 FROM import_line i WHERE i.loaded IS NULL OR i.available + i.delta < 0
                     OR i.loaded + i.delta > 999999999999999) THEN 'refused'
        WHEN p_look THEN 'looked'
        ELSE 'done' END;
    IF v_say = 'done' THEN
        SELECT array_agg(i.sku), array_agg(i.delta) INTO v_sku, v_rise
        FROM import_line i WHERE i.delta <> 0;
        PERFORM shift_units(v_sku, v_rise);
        INSERT INTO operation (op_key, kind, sku, amount, at)
        VALUES (p_op_key, 'import', '', v_hash, clock_timestamp());
    END IF;
    RETURN QUERY
    SELECT 0, v_say, NULL::text, NULL::bigint, NULL::bigint, NULL::bigint, v_seen
    UNION ALL
    SELECT i.ord, CASE
            WHEN i.loaded IS NULL THEN 'unknown-sku'
            WHEN i.available + i.delta < 0 THEN 'below-taken'
            WHEN i.loaded + i.delta > 999999999999999 THEN 'too-many'
            WHEN i.delta = 0 THEN 'same'
            ELSE 'change' END,
        i.sale::text, i.loaded, i.taken, i.delta, NULL::text
    FROM import_line i
    ORDER BY 1;
END $$;
