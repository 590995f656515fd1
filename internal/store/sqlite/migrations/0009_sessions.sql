-- Sessions: the gateway's own, by which it counts what callers do. What their
-- calls did is in the journal. Times are microseconds since 1970, UTC.
CREATE TABLE sessions (
    id           TEXT PRIMARY KEY, -- ULID
    principal    TEXT NOT NULL,
    device       TEXT NOT NULL,
    client       TEXT NOT NULL, -- the kind of client
    on_behalf_of TEXT NOT NULL,
    started_at   INTEGER NOT NULL,
    ended_at     INTEGER, -- NULL unless somebody ended it
    ended_by     TEXT NOT NULL DEFAULT '',
    end_reason   TEXT NOT NULL DEFAULT ''
) STRICT;

CREATE INDEX sessions_key ON sessions (principal, device, client, id);
CREATE INDEX sessions_on_behalf_of ON sessions (on_behalf_of, id);

-- The calls of each session, refused ones included.
CREATE TABLE session_calls (
    session     TEXT NOT NULL,
    proposal_id TEXT NOT NULL,
    of_run      INTEGER NOT NULL, -- 1 for a call of a run that the gateway drives
    PRIMARY KEY (session, proposal_id)
) STRICT, WITHOUT ROWID;
