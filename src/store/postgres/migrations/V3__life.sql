-- The life of a reservation after the take. Each function locks the reservation first, reads the
-- clock after that, and answers one row per stock row that it changed (sku null: none), so that the
-- gate can be told the new totals.

-- Puts the units of reservations back. Their rows are locked and updated by the caller already; the
-- stock rows are touched last and in order, so that their locks are held briefly.
CREATE FUNCTION put_back(p_reservations uuid[], p_kind text, p_now timestamptz)
RETURNS TABLE (sku text, shard integer, returned bigint, units bigint)
LANGUAGE plpgsql VOLATILE AS $$
#variable_conflict use_column
BEGIN
    INSERT INTO movement (at, kind, sku, shard, qty, reservation)
    SELECT p_now, p_kind, l.sku, l.shard, l.qty, l.reservation
    FROM reservation_line l WHERE l.reservation = ANY (p_reservations);
    PERFORM 1 FROM stock s
    WHERE (s.sku, s.shard) IN (SELECT l.sku, l.shard FROM reservation_line l
                               WHERE l.reservation = ANY (p_reservations))
    ORDER BY s.sku, s.shard FOR NO KEY UPDATE;
    RETURN QUERY
    UPDATE stock s
    SET available = s.available + b.qty, version = s.version + 1, returned = s.returned + b.qty
    FROM (SELECT l.sku, l.shard, sum(l.qty)::bigint AS qty FROM reservation_line l
          WHERE l.reservation = ANY (p_reservations) GROUP BY l.sku, l.shard) b
    WHERE s.sku = b.sku AND s.shard = b.shard
    RETURNING s.sku::text, s.shard, s.returned, b.qty;
END $$;

-- One event for each payment that cannot be honoured, however often it is told.
CREATE FUNCTION owe_refund(p_reservation uuid, p_payment_ref text, p_now timestamptz)
RETURNS void LANGUAGE sql VOLATILE AS $$
    INSERT INTO outbox (at, type, reservation, detail)
    VALUES (p_now, 'refund_due', p_reservation, jsonb_build_object('payment_ref', p_payment_ref))
    ON CONFLICT DO NOTHING
$$;

-- Takes the units of an expired hold again, if all of them are there within the buyer's cap.
CREATE FUNCTION take_again(p_row reservation, p_now timestamptz) RETURNS boolean
LANGUAGE plpgsql VOLATILE AS $$
BEGIN
    PERFORM 1 FROM stock s
    WHERE (s.sku, s.shard) IN
        (SELECT l.sku, l.shard FROM reservation_line l WHERE l.reservation = p_row.id)
    ORDER BY s.sku, s.shard FOR NO KEY UPDATE;
    PERFORM 1 FROM reservation_line l
    JOIN stock s ON s.sku = l.sku AND s.shard = l.shard
    JOIN sku k ON k.sku = l.sku
    WHERE l.reservation = p_row.id
      AND (s.available < l.qty OR k.frozen
           OR live_units(p_row.sale, p_row.buyer, l.sku) + l.qty
               > most_units(k.units_per_buyer));
    IF FOUND THEN
        RETURN false;
    END IF;
    UPDATE stock s SET available = s.available - l.qty, version = s.version + 1
    FROM reservation_line l
    WHERE l.reservation = p_row.id AND s.sku = l.sku AND s.shard = l.shard;
    INSERT INTO movement (at, kind, sku, shard, qty, reservation)
    SELECT p_now, 'hold', l.sku, l.shard, l.qty, l.reservation
    FROM reservation_line l WHERE l.reservation = p_row.id;
    RETURN true;
END $$;

-- verdict: confirmed | retaken (confirmed with units taken again) | replay | unknown-order
--          | payment-conflict | hold-expired | released | cancelled
CREATE FUNCTION confirm(p_id uuid, p_payment_ref text, p_honour_late boolean)
RETURNS TABLE (verdict text, id uuid)
LANGUAGE plpgsql VOLATILE AS $$
#variable_conflict use_column
DECLARE
    v_row reservation%ROWTYPE;
    v_now timestamptz;
    v_say text;
BEGIN
    SELECT * INTO v_row FROM reservation r WHERE r.id = p_id FOR NO KEY UPDATE;
    v_now := clock_timestamp();
    v_say := CASE
        WHEN v_row.id IS NULL THEN 'unknown-order'
        WHEN v_row.status = 'held'
            AND (v_row.settling OR p_honour_late OR v_row.expires_at > v_now) THEN 'confirmed'
        WHEN v_row.status IN ('held', 'expired') THEN 'hold-expired'
        WHEN v_row.status = 'released' THEN 'released'
        WHEN v_row.status = 'cancelled' THEN 'cancelled'
        WHEN v_row.payment_ref = p_payment_ref THEN 'replay'
        ELSE 'payment-conflict'
    END;
    IF v_say = 'hold-expired' AND p_honour_late AND take_again(v_row, v_now) THEN
        v_say := 'retaken';
    END IF;

    IF v_say IN ('confirmed', 'retaken') THEN
        UPDATE reservation r SET status = 'confirmed', payment_ref = p_payment_ref, settling = false
        WHERE r.id = p_id;
        INSERT INTO movement (at, kind, sku, shard, qty, reservation)
        SELECT v_now, 'confirm', l.sku, l.shard, l.qty, l.reservation
        FROM reservation_line l WHERE l.reservation = p_id;
        INSERT INTO outbox (at, type, reservation, detail)
        VALUES (v_now, 'confirmed', p_id, jsonb_build_object('payment_ref', p_payment_ref));
    ELSIF v_say NOT IN ('replay', 'unknown-order')
        -- Cancelling paid this very payment back already.
        AND NOT (v_say = 'cancelled' AND v_row.payment_ref = p_payment_ref) THEN
        PERFORM owe_refund(p_id, p_payment_ref, v_now);
    END IF;
    RETURN QUERY SELECT v_say, v_row.id;
END $$;

-- verdict: released | replay (not held any more) | unknown-order | already-ordered
CREATE FUNCTION release(p_id uuid)
RETURNS TABLE (verdict text, sku text, shard integer, returned bigint)
LANGUAGE plpgsql VOLATILE AS $$
#variable_conflict use_column
DECLARE
    v_status text;
    v_now    timestamptz;
BEGIN
    SELECT r.status INTO v_status FROM reservation r WHERE r.id = p_id FOR NO KEY UPDATE;
    v_now := clock_timestamp();
    IF v_status IS DISTINCT FROM 'held' THEN
        RETURN QUERY SELECT CASE
            WHEN v_status IS NULL THEN 'unknown-order'
            WHEN v_status = 'confirmed' THEN 'already-ordered'
            ELSE 'replay' END, NULL::text, NULL::integer, NULL::bigint;
        RETURN;
    END IF;
    UPDATE reservation r SET status = 'released', settling = false WHERE r.id = p_id;
    INSERT INTO outbox (at, type, reservation) VALUES (v_now, 'released', p_id);
    RETURN QUERY SELECT 'released', b.sku, b.shard, b.returned
    FROM put_back(ARRAY[p_id], 'release', v_now) b;
END $$;

-- By order key: a key that nobody knows leaves a tombstone, so that a delayed reserve under it
-- cannot make an orphan hold.
CREATE FUNCTION release_key(p_sale text, p_buyer text, p_order_key text, p_new_id uuid)
RETURNS TABLE (verdict text, sku text, shard integer, returned bigint)
LANGUAGE plpgsql VOLATILE AS $$
#variable_conflict use_column
DECLARE
    v_id  uuid;
    v_now timestamptz := clock_timestamp();
BEGIN
    -- Waits for a take of the same key that is under way; then either of them is the first.
    INSERT INTO reservation (id, sale, buyer, order_key, status, expires_at, created_at)
    VALUES (p_new_id, p_sale, p_buyer, p_order_key, 'released', v_now, v_now)
    ON CONFLICT DO NOTHING;
    IF FOUND THEN
        INSERT INTO outbox (at, type, reservation) VALUES (v_now, 'released', p_new_id);
        RETURN QUERY SELECT 'released', NULL::text, NULL::integer, NULL::bigint;
        RETURN;
    END IF;
    SELECT r.id INTO v_id FROM reservation r
    WHERE r.sale = p_sale AND r.buyer = p_buyer AND r.order_key = p_order_key;
    RETURN QUERY SELECT * FROM release(v_id);
END $$;

-- verdict: extended | replay (confirmed: nothing to extend) | unknown-order | hold-expired | released
CREATE FUNCTION extend(p_id uuid, p_extension_ms bigint) RETURNS text
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
    ELSIF v_row.status = 'expired' OR (v_row.status = 'held' AND v_row.expires_at <= v_now) THEN
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

-- verdict: cancelled | replay | unknown-order | in-progress (not paid yet) | hold-expired | released
CREATE FUNCTION cancel(p_id uuid)
RETURNS TABLE (verdict text, sku text, shard integer, returned bigint)
LANGUAGE plpgsql VOLATILE AS $$
#variable_conflict use_column
DECLARE
    v_status text;
    v_now    timestamptz;
BEGIN
    SELECT r.status INTO v_status FROM reservation r WHERE r.id = p_id FOR NO KEY UPDATE;
    v_now := clock_timestamp();
    IF v_status IS DISTINCT FROM 'confirmed' THEN
        RETURN QUERY SELECT CASE
            WHEN v_status IS NULL THEN 'unknown-order'
            WHEN v_status = 'cancelled' THEN 'replay'
            WHEN v_status = 'held' THEN 'in-progress'
            WHEN v_status = 'expired' THEN 'hold-expired'
            ELSE 'released' END, NULL::text, NULL::integer, NULL::bigint;
        RETURN;
    END IF;
    UPDATE reservation r SET status = 'cancelled' WHERE r.id = p_id;
    INSERT INTO outbox (at, type, reservation) VALUES (v_now, 'cancelled', p_id);
    RETURN QUERY SELECT 'cancelled', b.sku, b.shard, b.returned
    FROM put_back(ARRAY[p_id], 'cancel', v_now) b;
END $$;

-- Expires at most p_limit lapsed holds; any number of sweeps at once, none waits for another.
CREATE FUNCTION sweep(p_limit integer)
RETURNS TABLE (expired integer, sku text, shard integer, returned bigint, units bigint)
LANGUAGE plpgsql VOLATILE AS $$
#variable_conflict use_column
DECLARE
    v_ids uuid[];
    v_now timestamptz := clock_timestamp();
BEGIN
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
