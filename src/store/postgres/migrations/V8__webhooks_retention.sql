-- Where each receiver of events stands, and which core delivers to it for the moment.
CREATE TABLE webhook (
    url          text COLLATE "C" PRIMARY KEY,
    -- The last event that was received, TRANSACTION-NUMBER.
    cursor       text COLLATE "C" NOT NULL DEFAULT '0-0',
    holder       uuid,
    leased_until timestamptz
);

-- How long after its close a sale's names are kept; remembered when it is gone from the file.
CREATE TABLE retention (
    sale text COLLATE "C" PRIMARY KEY,
    keep interval NOT NULL
);
