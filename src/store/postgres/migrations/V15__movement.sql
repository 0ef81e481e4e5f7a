-- A ledger that is replicated logically needs to tell its movements apart, and nothing else does.
ALTER TABLE movement REPLICA IDENTITY FULL;
