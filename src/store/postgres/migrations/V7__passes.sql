-- Staff passes: so many ways past the line. Postgres counts them, so that no loss of Redis makes a
-- revoked or used-up pass count again.
CREATE TABLE pass (
    id            uuid PRIMARY KEY,
    sale          text COLLATE "C" NOT NULL,
    uses          bigint NOT NULL CHECK (uses > 0),
    used          bigint NOT NULL DEFAULT 0 CHECK (used BETWEEN 0 AND uses),
    created_at_ms bigint NOT NULL,
    expires_at_ms bigint NOT NULL,
    revoked_at_ms bigint
);
CREATE INDEX pass_of_sale ON pass (sale);

-- One row a use. The key is the redeemer's: asking again with it is the same use.
CREATE TABLE pass_use (
    pass   uuid NOT NULL,
    number bigint NOT NULL,
    key    text COLLATE "C" NOT NULL,
    at_ms  bigint NOT NULL,
    PRIMARY KEY (pass, number),
    UNIQUE (pass, key)
);

-- outcome: used | again | unknown | revoked | expired | used-up
CREATE FUNCTION redeem_pass(p_id uuid, p_sale text, p_key text, p_now_ms bigint)
RETURNS TABLE (outcome text, number bigint, uses bigint)
LANGUAGE plpgsql VOLATILE AS $$
#variable_conflict use_column
DECLARE
    v_pass   pass%ROWTYPE;
    v_number bigint;
BEGIN
    SELECT * INTO v_pass FROM pass p WHERE p.id = p_id AND p.sale = p_sale FOR NO KEY UPDATE;
    SELECT u.number INTO v_number FROM pass_use u WHERE u.pass = p_id AND u.key = p_key;
    outcome := CASE
        WHEN v_pass.id IS NULL THEN 'unknown'
        WHEN v_pass.revoked_at_ms IS NOT NULL THEN 'revoked'
        WHEN p_now_ms >= v_pass.expires_at_ms THEN 'expired'
        WHEN v_number IS NOT NULL THEN 'again'
        WHEN v_pass.used >= v_pass.uses THEN 'used-up'
        ELSE 'used'
    END;
    IF outcome = 'used' THEN
        UPDATE pass SET used = used + 1 WHERE id = p_id RETURNING used INTO v_number;
        INSERT INTO pass_use (pass, number, key, at_ms) VALUES (p_id, v_number, p_key, p_now_ms);
        PERFORM pg_advisory_xact_lock(6004496007583781970);             -- of the audit trail's writers
        INSERT INTO audit_trail (entry, at_ms, author, action, sale, version, changes)
        VALUES (format('pass %s use %s', p_id, v_number), p_now_ms, 'pass', 'pass-use', p_sale, NULL,
                jsonb_build_object('pass', p_id, 'use', v_number, 'of', v_pass.uses));
    END IF;
    number := v_number;
    uses := v_pass.uses;
    RETURN NEXT;
END $$;
