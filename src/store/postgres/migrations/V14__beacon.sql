-- A draw may mix in a round of a public randomness beacon: committed to with the seed, and its
-- signature written down once, before any position exists.
ALTER TABLE draw ADD COLUMN round bigint NOT NULL DEFAULT 0 CHECK (round >= 0);
ALTER TABLE draw ADD COLUMN signature bytea CHECK (length(signature) = 48);
