-- The ledger and the room's durable records. Names and SKUs are compared as bytes (COLLATE "C").

-- The cold parent: what rarely changes about a SKU. Nothing hot is locked through it.
CREATE TABLE sku (
    sku             text COLLATE "C" PRIMARY KEY,
    sale            text COLLATE "C" NOT NULL,
    loaded          bigint NOT NULL CHECK (loaded >= 0),
    -- 0 = no cap.
    units_per_buyer bigint NOT NULL CHECK (units_per_buyer >= 0),
    hold            interval NOT NULL CHECK (hold > interval '0'),
    generation      bigint NOT NULL DEFAULT 1,
    frozen          boolean NOT NULL DEFAULT false
);
CREATE INDEX sku_by_sale ON sku (sale);

-- The hot row. Room on its page lets every update stay there; dead versions are pruned on access.
CREATE TABLE stock (
    sku       text COLLATE "C" NOT NULL REFERENCES sku,
    shard     integer NOT NULL CHECK (shard >= 0),
    available bigint NOT NULL CHECK (available >= 0),
    version   bigint NOT NULL DEFAULT 0,
    -- Running total of units put back or added, which the gate applies by difference.
    returned  bigint NOT NULL DEFAULT 0,
    PRIMARY KEY (sku, shard)
) WITH (
    fillfactor = 10,
    autovacuum_vacuum_threshold = 50,
    autovacuum_vacuum_scale_factor = 0,
    autovacuum_vacuum_cost_delay = 0
);

-- No foreign keys from here on: the functions keep the rows together and the audit looks after it.
CREATE TABLE reservation (
    id          uuid PRIMARY KEY,
    sale        text COLLATE "C" NOT NULL,
    buyer       text COLLATE "C" NOT NULL,
    order_key   text COLLATE "C" NOT NULL,
    -- Null in the tombstone of a release that came before its order.
    body_hash   bytea,
    status      text COLLATE "C" NOT NULL
                CHECK (status IN ('held', 'confirmed', 'expired', 'released', 'cancelled')),
    settling    boolean NOT NULL DEFAULT false,
    expires_at  timestamptz NOT NULL,
    -- Extra time granted so far; expires_at - extended is the hold's first end.
    extended    interval NOT NULL DEFAULT interval '0',
    created_at  timestamptz NOT NULL,
    payment_ref text COLLATE "C",
    UNIQUE (sale, buyer, order_key)
);
CREATE INDEX reservation_lapsing ON reservation (expires_at) WHERE status = 'held';
CREATE INDEX reservation_by_payment ON reservation (payment_ref) WHERE payment_ref IS NOT NULL;

CREATE TABLE reservation_line (
    reservation uuid NOT NULL,
    sku         text COLLATE "C" NOT NULL,
    shard       integer NOT NULL,
    qty         bigint NOT NULL CHECK (qty > 0),
    PRIMARY KEY (reservation, sku, shard)
);

-- Append-only: every change of units, for history and audit.
CREATE TABLE movement (
    id          bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    at          timestamptz NOT NULL,
    kind        text COLLATE "C" NOT NULL
                CHECK (kind IN ('load', 'restock', 'hold', 'confirm', 'expire', 'release', 'cancel')),
    sku         text COLLATE "C" NOT NULL,
    shard       integer NOT NULL,
    qty         bigint NOT NULL,
    reservation uuid
);
CREATE INDEX movement_of ON movement (reservation) WHERE reservation IS NOT NULL;

-- Events in the order of their transactions: nothing below the oldest running one can still appear.
CREATE TABLE outbox (
    txid        xid8 NOT NULL DEFAULT pg_current_xact_id(),
    id          bigint GENERATED ALWAYS AS IDENTITY,
    at          timestamptz NOT NULL,
    type        text COLLATE "C" NOT NULL,
    reservation uuid,
    detail      jsonb,
    PRIMARY KEY (txid, id)
);
CREATE UNIQUE INDEX outbox_one_refund ON outbox (reservation, (detail ->> 'payment_ref'))
    WHERE type = 'refund_due';

-- What an operator asked for once, and what became of it.
CREATE TABLE operation (
    op_key text COLLATE "C" PRIMARY KEY,
    kind   text COLLATE "C" NOT NULL,
    sku    text COLLATE "C" NOT NULL,
    amount bigint NOT NULL,
    at     timestamptz NOT NULL
);

-- The room's records; Postgres is the truth, Redis the mirror.
CREATE TABLE control (
    sale    text COLLATE "C" PRIMARY KEY,
    version bigint NOT NULL,
    record  jsonb NOT NULL
);
CREATE TABLE draw (
    sale        text COLLATE "C" NOT NULL,
    run         bigint NOT NULL,
    sealed_seed bytea NOT NULL,
    commitment  bytea NOT NULL,
    PRIMARY KEY (sale, run)
);
CREATE TABLE opening (
    sale         text COLLATE "C" NOT NULL,
    run          bigint NOT NULL,
    n            bigint NOT NULL CHECK (n >= 0),
    opened_at_ms bigint NOT NULL,
    PRIMARY KEY (sale, run)
);
CREATE TABLE ceiling (
    sale  text COLLATE "C" NOT NULL,
    run   bigint NOT NULL,
    name  text COLLATE "C" NOT NULL,
    value bigint NOT NULL CHECK (value >= 0),
    PRIMARY KEY (sale, run, name)
);
-- Joins of accounts: the number is written e17 (entry) or l5 (latecomer).
CREATE TABLE place (
    sale         text COLLATE "C" NOT NULL,
    run          bigint NOT NULL,
    account      text COLLATE "C" NOT NULL,
    number       text COLLATE "C" NOT NULL,
    joined_at_ms bigint NOT NULL,
    PRIMARY KEY (sale, run, account)
);
