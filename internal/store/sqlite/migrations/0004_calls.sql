-- Calls that were decided and have no end yet. The writer keeps the table in
-- step with the journal, in the same transaction (opencalls.go).
CREATE TABLE open_calls (
    proposal_id TEXT PRIMARY KEY,
    session     TEXT NOT NULL,
    run         TEXT NOT NULL,
    actor       TEXT NOT NULL
) STRICT;

-- Idempotency keys, per principal.
CREATE TABLE claims (
    principal   TEXT NOT NULL,
    key         TEXT NOT NULL,
    digest      TEXT NOT NULL,
    proposal_id TEXT NOT NULL,
    at          INTEGER NOT NULL, -- microseconds since 1970, UTC
    PRIMARY KEY (principal, key)
) STRICT;

CREATE INDEX claims_at ON claims (at);

-- Policy snapshots by digest: the exact configuration behind a decision.
CREATE TABLE snapshots (
    digest  TEXT PRIMARY KEY,
    content BLOB NOT NULL,
    at      INTEGER NOT NULL
) STRICT;

-- Policy sets by version, so that what was in force can be read again.
CREATE TABLE policy_versions (
    version TEXT PRIMARY KEY,
    sources BLOB NOT NULL,
    at      INTEGER NOT NULL
) STRICT;
