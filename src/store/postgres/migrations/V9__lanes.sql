-- Batches of the lanes. Whatever takes long or waits comes before the stock row: the rows of all
-- orders are written first, on the assumption that everything still is as it was read a moment ago,
-- so that the stock row's lock is held for one update and the commit. If it is not, what is too
-- much is taken out again under the lock.
--
-- Lock order everywhere: existing reservations by id, buyer locks by hash, new keys by (buyer, key),
-- stock by (sku, shard). Whoever holds a stock row waits for nothing but further stock rows.
--
-- The functions that cores call set the planner: a plan that was made while the tables were empty
-- would read all of them later, and planning anew for each batch takes longer than a batch of one.

-- Nothing looks a movement up by its number, and every insert paid for it.
ALTER TABLE movement DROP CONSTRAINT movement_pkey;

DROP FUNCTION take(text, integer, text, bigint, uuid[], text[], text[], bigint[], bytea[], boolean[]);

-- The buyers of a batch in byte order: what each wants in it, and what each has.
CREATE FUNCTION buyers_of(p_sale text, p_sku text, p_buyer text[], p_qty bigint[])
RETURNS TABLE (buyer text, wants bigint, has bigint) LANGUAGE plpgsql VOLATILE AS $$
#variable_conflict use_column
BEGIN
    RETURN QUERY
    SELECT b.buyer, b.wants,
           (SELECT coalesce(sum(l.qty), 0)::bigint
            FROM reservation r
            JOIN reservation_line l ON l.reservation = r.id AND l.sku = p_sku
            WHERE r.sale = p_sale AND r.buyer = b.buyer AND r.status IN ('held', 'confirmed'))
    FROM (SELECT q.buyer, sum(q.qty)::bigint AS wants
          FROM unnest(p_buyer, p_qty) q(buyer, qty) GROUP BY q.buyer) b
    ORDER BY b.buyer COLLATE "C";
END $$;

-- Verdicts, in arrival order, for the requests that have none. What fits is granted; a big order
-- that does not fit is skipped, not waited for. p_most: units of one buyer, null = no cap.
-- p_written: the requests are in the tables already, so that what their buyers have includes them.
CREATE FUNCTION grant_in_order(
    p_say text[], p_sale text, p_sku text, p_buyer text[], p_qty bigint[], p_left bigint,
    p_most bigint, p_written boolean
) RETURNS text[] LANGUAGE plpgsql VOLATILE AS $$
DECLARE
    v_say  text[] := p_say;
    v_left bigint := p_left;
    v_slot integer[];
    v_has  bigint[];
BEGIN
    IF p_most IS NOT NULL THEN
        SELECT array_agg(b.slot ORDER BY b.o) INTO v_slot
        FROM (SELECT q.o, dense_rank() OVER (ORDER BY q.buyer COLLATE "C") AS slot
              FROM unnest(p_buyer) WITH ORDINALITY q(buyer, o)) b;
        SELECT array_agg(b.has - CASE WHEN p_written THEN b.wants ELSE 0 END
                         ORDER BY b.buyer COLLATE "C")
        INTO v_has FROM buyers_of(p_sale, p_sku, p_buyer, p_qty) b;
    END IF;
    FOR i IN 1 .. cardinality(p_qty) LOOP
        CONTINUE WHEN v_say[i] IS NOT NULL;
        IF v_has[v_slot[i]] + p_qty[i] > p_most THEN                    -- null without a cap
            v_say[i] := 'over-cap';
        ELSIF v_left = 0 THEN
            v_say[i] := 'sold-out';
        ELSIF p_qty[i] > v_left THEN
            v_say[i] := 'insufficient';
        ELSE
            v_say[i] := 'held';
            v_left := v_left - p_qty[i];
            IF p_most IS NOT NULL THEN
                v_has[v_slot[i]] := v_has[v_slot[i]] + p_qty[i];
            END IF;
        END IF;
    END LOOP;
    RETURN v_say;
END $$;

-- Many requests for one stock row, arrays in arrival order. Answers a row `ord` 0 with the verdicts
-- in that order (null: all held), when their holds begin and end, what remains and how long the stock
-- row was waited for and changed; then, for each replay or reused key, a row with its place and the
-- reservation that it stands for.
-- verdict: held | replay | key-reused | raced (send again) | unknown-sku | frozen | closed
--          | over-cap | sold-out | insufficient | elsewhere (not here, but there are other shards)
CREATE FUNCTION take_batch(
    p_sku text, p_shard integer, p_sale text, p_closes_ms bigint,
    p_id uuid[], p_buyer text[], p_order_key text[], p_qty bigint[], p_body_hash bytea[],
    p_settling boolean[]
) RETURNS TABLE (
    ord integer, verdicts text[], id uuid, status text, settling boolean, lapsed boolean,
    created_at timestamptz, expires_at timestamptz, payment_ref text, remaining bigint,
    row_us bigint, locked_at timestamptz
) LANGUAGE plpgsql VOLATILE SET plan_cache_mode = force_generic_plan
SET enable_seqscan = off SET enable_hashjoin = off SET enable_mergejoin = off AS $$
#variable_conflict use_column
DECLARE
    v_all     bigint := (SELECT sum(q) FROM unnest(p_qty) q);
    v_closes  timestamptz := to_timestamp(p_closes_ms / 1000.0);
    v_read    record;
    v_sku     sku%ROWTYPE;
    v_most    bigint;
    v_left    bigint;
    v_now     timestamptz;
    v_waits   timestamptz;
    v_row_us  bigint := 0;
    v_locked  timestamptz;
    v_alone   boolean := false;
    v_stop    text;
    v_fits    boolean;
    v_say     text[];
    v_again   text[];
    v_taken   bigint;
    -- The granted requests: their places and columns.
    g_at       bigint[];
    g_id       uuid[];
    g_buyer    text[];
    g_key      text[];
    g_qty      bigint[];
    g_hash     bytea[];
    g_settling boolean[];
BEGIN
    FOR v_turn IN 1 .. 4 LOOP
        SELECT k.*, s.available, s.version, (SELECT count(*) FROM stock o WHERE o.sku = p_sku) AS rows
        INTO v_read                                                     -- nothing is locked yet
        FROM sku k LEFT JOIN stock s ON s.sku = k.sku AND s.shard = p_shard WHERE k.sku = p_sku;
        v_left := v_read.available;
        v_most := nullif(v_read.units_per_buyer, 0);
        v_now := clock_timestamp();
        v_stop := CASE
            WHEN v_left IS NULL OR v_read.sale IS DISTINCT FROM p_sale THEN 'unknown-sku'
            WHEN v_read.frozen THEN 'frozen'
            WHEN v_now >= v_closes THEN 'closed'
        END;
        IF NOT v_alone AND v_most IS NOT NULL AND v_read.rows > 1 THEN  -- the cap is over all shards
            PERFORM pg_advisory_xact_lock(b.hash)
            FROM (SELECT DISTINCT hashtextextended(p_sku || chr(31) || q.buyer, 0) AS hash
                  FROM unnest(p_buyer) q(buyer) ORDER BY hash) b;
            v_alone := true;
        END IF;
        v_fits := v_stop IS NULL AND v_all <= v_left;
        IF v_fits AND v_most IS NOT NULL THEN
            SELECT bool_and(b.has + b.wants <= v_most) INTO v_fits
            FROM buyers_of(p_sale, p_sku, p_buyer, p_qty) b;
        END IF;

        IF v_fits AND v_turn = 1 THEN
            v_say := NULL;                                              -- all, unless a key is known
            v_taken := v_all;
            g_id := p_id; g_buyer := p_buyer; g_key := p_order_key; g_qty := p_qty;
            g_hash := p_body_hash; g_settling := p_settling;
        ELSE
            SELECT array_agg(CASE
                    WHEN r.id IS NULL AND q.nth > 1 THEN 'raced'
                    WHEN r.id IS NULL THEN v_stop
                    WHEN r.body_hash <> q.body_hash THEN 'key-reused'   -- a tombstone has none
                    ELSE 'replay' END ORDER BY q.o)
            INTO v_say
            FROM (SELECT k.*, row_number() OVER (PARTITION BY k.buyer, k.order_key ORDER BY k.o) nth
                  FROM unnest(p_buyer, p_order_key, p_body_hash) WITH ORDINALITY
                      k(buyer, order_key, body_hash, o)) q
            LEFT JOIN reservation r
                ON r.sale = p_sale AND r.buyer = q.buyer AND r.order_key = q.order_key;
            IF v_stop IS NULL THEN
                v_say := grant_in_order(v_say, p_sale, p_sku, p_buyer, p_qty, v_left, v_most, false);
            END IF;
            SELECT array_agg(q.o), array_agg(q.id), array_agg(q.buyer), array_agg(q.order_key),
                   array_agg(q.qty), array_agg(q.body_hash), array_agg(q.settling), sum(q.qty)
            INTO g_at, g_id, g_buyer, g_key, g_qty, g_hash, g_settling, v_taken
            FROM unnest(p_id, p_buyer, p_order_key, p_qty, p_body_hash, p_settling, v_say)
                WITH ORDINALITY q(id, buyer, order_key, qty, body_hash, settling, say, o)
            WHERE q.say = 'held';
            EXIT WHEN g_id IS NULL;                                     -- nothing to be written
        END IF;

        BEGIN
            WITH orders AS (
                INSERT INTO reservation
                    (id, sale, buyer, order_key, body_hash, status, settling, expires_at, created_at)
                SELECT q.id, p_sale, q.buyer, q.order_key, q.body_hash, 'held', q.settling,
                       v_now + v_read.hold, v_now
                FROM unnest(g_id, g_buyer, g_key, g_hash, g_settling)
                    q(id, buyer, order_key, body_hash, settling)
                ORDER BY q.buyer COLLATE "C", q.order_key COLLATE "C"
            ), lines AS (
                INSERT INTO reservation_line (reservation, sku, shard, qty)
                SELECT q.id, p_sku, p_shard, q.qty FROM unnest(g_id, g_qty) q(id, qty)
            ), moved AS (
                INSERT INTO movement (at, kind, sku, shard, qty, reservation)
                SELECT v_now, 'hold', p_sku, p_shard, q.qty, q.id
                FROM unnest(g_id, g_qty) q(id, qty)
            )
            INSERT INTO outbox (at, type, reservation) SELECT v_now, 'held', unnest(g_id);

            v_waits := clock_timestamp();
            UPDATE stock s SET available = s.available - v_taken, version = s.version + 1
            WHERE s.sku = p_sku AND s.shard = p_shard AND s.available >= v_taken
                -- What the buyers have is as it was read: nothing else was taken, or they are locked.
                AND (s.version = v_read.version OR v_most IS NULL OR v_read.rows > 1)
            RETURNING s.available, clock_timestamp() INTO v_left, v_locked;
            IF NOT FOUND THEN
                SELECT s.available INTO v_left FROM stock s
                WHERE s.sku = p_sku AND s.shard = p_shard FOR NO KEY UPDATE;
                v_locked := clock_timestamp();
                v_again := grant_in_order(array_fill(NULL::text, ARRAY[cardinality(g_id)]),
                                          p_sale, p_sku, g_buyer, g_qty, coalesce(v_left, 0), v_most,
                                          true);
                v_taken := take_out(g_id, v_again, p_sku, p_shard, g_qty);
                v_left := v_left - v_taken;
                v_say := coalesce(v_say, array_fill('held'::text, ARRAY[cardinality(p_id)]));
                FOR i IN 1 .. cardinality(g_id) LOOP
                    v_say[coalesce(g_at[i], i)] := v_again[i];
                END LOOP;
            END IF;

            -- Read after the lock: a freeze locks the stock row too.
            SELECT * INTO v_sku FROM sku k WHERE k.sku = p_sku;
            IF v_sku.frozen OR v_sku.generation <> v_read.generation
                OR clock_timestamp() >= v_closes THEN
                RAISE EXCEPTION USING ERRCODE = 'ST001', MESSAGE = 'the terms of a SKU changed';
            END IF;
            v_row_us := extract(epoch FROM clock_timestamp() - v_waits) * 1000000;
            -- A hold starts after the waits: for buyers, for a key, for the row.
            IF v_locked - v_now > interval '50 ms' THEN
                v_now := clock_timestamp();
                UPDATE reservation r SET created_at = v_now, expires_at = v_now + v_read.hold
                WHERE r.id = ANY (g_id);
            END IF;
            EXIT;
        EXCEPTION WHEN unique_violation OR SQLSTATE 'ST001' THEN
            -- A key is known, or came in just now: it is looked up in the next turn.
            v_say := array_fill('raced'::text, ARRAY[cardinality(p_id)]);
        END;
    END LOOP;

    IF v_read.rows > 1 THEN
        v_say := array_replace(array_replace(v_say, 'sold-out', 'elsewhere'),
                               'insufficient', 'elsewhere');
    END IF;
    ord := 0;
    verdicts := v_say;
    created_at := v_now;
    expires_at := v_now + v_read.hold;
    remaining := v_left;
    row_us := v_row_us;
    locked_at := v_locked;
    RETURN NEXT;
    IF v_say && ARRAY['replay', 'key-reused'] THEN
        RETURN QUERY
        SELECT q.o::integer, NULL::text[], r.id, r.status::text, r.settling,
               r.status = 'held' AND NOT r.settling AND r.expires_at <= v_now,
               r.created_at, r.expires_at, r.payment_ref::text, NULL::bigint,
               NULL::bigint, NULL::timestamptz
        FROM unnest(p_buyer, p_order_key, v_say) WITH ORDINALITY q(buyer, order_key, say, o)
        JOIN reservation r
            ON r.sale = p_sale AND r.buyer = q.buyer AND r.order_key = q.order_key
        WHERE q.say IN ('replay', 'key-reused');
    END IF;
END $$;

-- Takes what was written too much out of a batch again, and the units of the rest from the stock
-- row, which the caller has locked. Answers those units.
CREATE FUNCTION take_out(p_id uuid[], p_say text[], p_sku text, p_shard integer, p_qty bigint[])
RETURNS bigint LANGUAGE plpgsql VOLATILE AS $$
DECLARE
    v_out   uuid[];
    v_taken bigint;
BEGIN
    SELECT array_agg(q.id) FILTER (WHERE q.say <> 'held'),
           coalesce(sum(q.qty) FILTER (WHERE q.say = 'held'), 0)
    INTO v_out, v_taken FROM unnest(p_id, p_say, p_qty) q(id, say, qty);
    DELETE FROM reservation r WHERE r.id = ANY (v_out);
    DELETE FROM reservation_line l WHERE l.reservation = ANY (v_out);
    DELETE FROM movement m WHERE m.reservation = ANY (v_out);
    DELETE FROM outbox o WHERE o.txid = pg_current_xact_id() AND o.reservation = ANY (v_out);
    UPDATE stock s SET available = s.available - v_taken, version = s.version + 1
    WHERE s.sku = p_sku AND s.shard = p_shard AND v_taken > 0;
    RETURN v_taken;
END $$;

-- Confirms many orders, each as `confirm` would, in one transaction. An order is named by its id or
-- by sale, buyer and key. No stock row is touched: an expired hold whose payment is to be honoured
-- is said to be `alone`, and `confirm` takes its units again.
-- verdict: as of confirm | again (named twice in this batch) | alone
CREATE FUNCTION confirm_batch(
    p_id uuid[], p_sale text[], p_buyer text[], p_order_key text[], p_payment_ref text[],
    p_honour_late boolean[]
) RETURNS TABLE (ord integer, verdict text) LANGUAGE plpgsql VOLATILE SET plan_cache_mode = force_generic_plan
SET enable_seqscan = off SET enable_hashjoin = off SET enable_mergejoin = off AS $$
#variable_conflict use_column
DECLARE
    v_id  uuid[];
    v_say text[];
    v_now timestamptz;
BEGIN
    SELECT array_agg(coalesce(q.id, r.id) ORDER BY q.o) INTO v_id
    FROM unnest(p_id, p_sale, p_buyer, p_order_key) WITH ORDINALITY q(id, sale, buyer, order_key, o)
    LEFT JOIN reservation r
        ON q.id IS NULL AND r.sale = q.sale AND r.buyer = q.buyer AND r.order_key = q.order_key;
    PERFORM 1 FROM reservation r WHERE r.id = ANY (v_id) ORDER BY r.id FOR NO KEY UPDATE;
    v_now := clock_timestamp();

    SELECT array_agg(CASE
            WHEN r.id IS NULL THEN 'unknown-order'
            WHEN q.nth > 1 THEN 'again'
            WHEN r.status = 'held'
                AND (r.settling OR q.honour_late OR r.expires_at > v_now) THEN 'confirmed'
            WHEN r.status = 'expired' AND q.honour_late THEN 'alone'
            WHEN r.status IN ('held', 'expired') THEN 'hold-expired'
            WHEN r.status = 'released' THEN 'released'
            -- Cancelling paid this very payment back already.
            WHEN r.status = 'cancelled' AND r.payment_ref = q.payment_ref THEN 'refunded'
            WHEN r.status = 'cancelled' THEN 'cancelled'
            WHEN r.payment_ref = q.payment_ref THEN 'replay'
            ELSE 'payment-conflict' END ORDER BY q.o)
    INTO v_say
    FROM (SELECT b.*, row_number() OVER (PARTITION BY b.id ORDER BY b.o) AS nth
          FROM unnest(v_id, p_payment_ref, p_honour_late) WITH ORDINALITY
              b(id, payment_ref, honour_late, o)) q
    LEFT JOIN reservation r ON r.id = q.id;

    UPDATE reservation r SET status = 'confirmed', payment_ref = q.payment_ref, settling = false
    FROM unnest(v_id, p_payment_ref, v_say) q(id, payment_ref, say)
    WHERE r.id = q.id AND q.say = 'confirmed';
    WITH moved AS (
        INSERT INTO movement (at, kind, sku, shard, qty, reservation)
        SELECT v_now, 'confirm', l.sku, l.shard, l.qty, l.reservation
        FROM unnest(v_id, v_say) q(id, say)
        JOIN reservation_line l ON l.reservation = q.id WHERE q.say = 'confirmed'
    )
    INSERT INTO outbox (at, type, reservation, detail)
    SELECT v_now, 'confirmed', q.id, jsonb_build_object('payment_ref', q.payment_ref)
    FROM unnest(v_id, p_payment_ref, v_say) q(id, payment_ref, say) WHERE q.say = 'confirmed';
    PERFORM owe_refund(q.id, q.payment_ref, v_now)
    FROM unnest(v_id, p_payment_ref, v_say) q(id, payment_ref, say)
    WHERE q.say IN ('hold-expired', 'released', 'cancelled', 'payment-conflict');

    RETURN QUERY SELECT q.o::integer, CASE q.say WHEN 'refunded' THEN 'cancelled' ELSE q.say END
    FROM unnest(v_say) WITH ORDINALITY q(say, o);
END $$;
