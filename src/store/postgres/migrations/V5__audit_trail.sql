-- Who changed what by hand, and when: the control records of sales, and stock.
CREATE TABLE audit_trail (
    id      bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    -- Named by the writer, so that an entry written twice is one.
    entry   text COLLATE "C" NOT NULL,
    at_ms   bigint NOT NULL,
    author  text COLLATE "C" NOT NULL,
    action  text COLLATE "C" NOT NULL,
    -- '' for what concerns no one sale.
    sale    text COLLATE "C" NOT NULL,
    -- Of the control record.
    version bigint,
    changes jsonb NOT NULL,
    UNIQUE (sale, entry)
);
CREATE INDEX audit_trail_by_sale ON audit_trail (sale, id);
