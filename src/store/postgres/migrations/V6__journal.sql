-- The journal of accounts and the holes that store losses leave.

-- Which of two words about an account is the later one: the id that Redis gave it.
ALTER TABLE place ADD COLUMN version bigint NOT NULL DEFAULT 0;

-- Numbers that were skipped: nobody has them. cohort is e (entry) or l (latecomer).
CREATE TABLE hole (
    sale   text COLLATE "C" NOT NULL,
    run    bigint NOT NULL,
    cohort text COLLATE "C" NOT NULL CHECK (cohort IN ('e', 'l')),
    first  bigint NOT NULL CHECK (first >= 0),
    past   bigint NOT NULL CHECK (past > first),
    PRIMARY KEY (sale, run, cohort, past)
);
