-- Members, devices and attestations.
CREATE TABLE members (
    principal  TEXT PRIMARY KEY, -- "kind:name"
    owner      TEXT NOT NULL,    -- '' for a user
    roles      TEXT NOT NULL,    -- JSON array of names
    disabled   INTEGER NOT NULL,
    created_at INTEGER NOT NULL  -- microseconds since 1970, UTC
) STRICT;

CREATE TABLE devices (
    id            TEXT PRIMARY KEY, -- ULID
    principal     TEXT NOT NULL REFERENCES members (principal),
    name          TEXT NOT NULL,
    local         INTEGER NOT NULL,
    serial        TEXT NOT NULL,
    key_sha256    TEXT NOT NULL,
    created_at    INTEGER NOT NULL,
    not_after     INTEGER NOT NULL,
    revoked_at    INTEGER, -- NULL unless revoked
    revoked_by    TEXT NOT NULL,
    revoke_reason TEXT NOT NULL,
    version       INTEGER NOT NULL
) STRICT;

CREATE INDEX devices_principal ON devices (principal);

-- One per executed call. n orders them; it is not the journal's sequence
-- number, which only exists once the unit's check has passed.
CREATE TABLE attestations (
    n           INTEGER PRIMARY KEY,
    id          TEXT NOT NULL UNIQUE, -- ULID
    proposal_id TEXT NOT NULL UNIQUE, -- ULID
    call_digest TEXT NOT NULL,
    sha256      TEXT NOT NULL, -- hex, of envelope
    created_at  INTEGER NOT NULL,
    envelope    BLOB NOT NULL  -- DSSE JSON
) STRICT;
