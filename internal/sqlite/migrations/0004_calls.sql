-- Calls that were decided and have no end yet. The triggers keep the table in
-- step with the journal, in the same transaction, so that a start never scans
-- the journal for calls that a crash left open.
CREATE TABLE open_calls (
    proposal_id TEXT PRIMARY KEY,
    session     TEXT NOT NULL,
    run         TEXT NOT NULL,
    actor       TEXT NOT NULL
) STRICT;

CREATE TRIGGER open_call AFTER INSERT ON events
WHEN NEW.code = 'PAL-D103' AND json_extract(CAST(NEW.payload AS TEXT), '$.allowed') = 1
BEGIN
    INSERT OR IGNORE INTO open_calls (proposal_id, session, run, actor)
    VALUES (NEW.subject, NEW.session, NEW.run, NEW.actor);
END;

CREATE TRIGGER close_call AFTER INSERT ON events
WHEN NEW.code IN ('PAL-X100', 'PAL-X101')
BEGIN
    DELETE FROM open_calls WHERE proposal_id = NEW.subject;
END;

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
