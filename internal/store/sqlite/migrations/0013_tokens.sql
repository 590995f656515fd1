-- API tokens. Of the secret only its SHA-256 is kept.
CREATE TABLE tokens (
    id           TEXT NOT NULL PRIMARY KEY,
    name         TEXT NOT NULL,
    principal    TEXT NOT NULL,
    created_by   TEXT NOT NULL,
    scopes       TEXT NOT NULL, -- JSON list
    addresses    TEXT NOT NULL, -- JSON list of CIDR ranges
    digest       BLOB NOT NULL,
    created_at   INTEGER NOT NULL,
    expires_at   INTEGER NOT NULL,
    last_used_at INTEGER,
    revoked_at   INTEGER,
    revoked_by   TEXT NOT NULL
) STRICT, WITHOUT ROWID;
