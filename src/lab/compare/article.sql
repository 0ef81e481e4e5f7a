-- The article's tables, word for word, in a schema of their own; `orders` is what its first, wrong
-- example calls createOrder.
CREATE SCHEMA article;
CREATE TABLE article.sku_stock (
  sku       text    PRIMARY KEY,
  initial   integer NOT NULL,
  available integer NOT NULL CHECK (available >= 0)
);
CREATE TABLE article.orders (
  id        uuid    PRIMARY KEY DEFAULT gen_random_uuid(),
  sku       text    NOT NULL,
  buyer_id  text    NOT NULL,
  qty       integer NOT NULL CHECK (qty > 0)
);
CREATE TABLE article.reservations (
  id         uuid        PRIMARY KEY DEFAULT gen_random_uuid(),
  sku        text        NOT NULL REFERENCES article.sku_stock(sku),
  buyer_id   text        NOT NULL,
  qty        integer     NOT NULL CHECK (qty > 0),
  order_key  text        NOT NULL UNIQUE,
  status     text        NOT NULL DEFAULT 'held',
  expires_at timestamptz NOT NULL
);
CREATE TABLE article.sku_stock_shard (
  sku       text     NOT NULL,
  shard     smallint NOT NULL,
  available integer  NOT NULL CHECK (available >= 0),
  PRIMARY KEY (sku, shard)
);
