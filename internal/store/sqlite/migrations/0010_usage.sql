-- Usage: how many bytes each principal left behind in an hour, for quotas.
CREATE TABLE usage (
    who   TEXT NOT NULL,
    hour  INTEGER NOT NULL, -- hours since 1970, UTC
    bytes INTEGER NOT NULL,
    PRIMARY KEY (who, hour)
) STRICT, WITHOUT ROWID;
