-- A ledger that was dumped and restored into another server: transactions count anew there, so that
-- old events would lie in its future, hidden, and new ones would be sorted before them.

-- Puts such events, in their order, before everything that this server will add, and lets receivers
-- go on where they were. Answers how many.
CREATE FUNCTION adopt_events() RETURNS bigint LANGUAGE plpgsql VOLATILE AS $$
DECLARE
    -- Whatever is visible was committed by a transaction below this, if it was on this server.
    v_next xid8 := pg_snapshot_xmax(pg_current_snapshot());
    v_many bigint;
BEGIN
    IF (SELECT o.txid FROM outbox o ORDER BY o.txid DESC LIMIT 1) >= v_next THEN
        LOCK TABLE outbox IN SHARE ROW EXCLUSIVE MODE;
        -- What has the lowest number of those it has not received; some may come twice.
        UPDATE webhook w SET cursor = '0-' || coalesce(
            (SELECT min(o.id) - 1 FROM outbox o
             WHERE (o.txid, o.id) > (split_part(w.cursor, '-', 1)::xid8,
                                     split_part(w.cursor, '-', 2)::bigint)),
            (SELECT max(o.id) FROM outbox o), 0);
        UPDATE outbox SET txid = '0';
        GET DIAGNOSTICS v_many = ROW_COUNT;
    END IF;
    RETURN coalesce(v_many, 0);
END $$;
