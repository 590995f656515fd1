-- Approvals, grants and the freeze. body is the row's RFC 8785 JSON and the
-- truth; the columns beside it are what queries and compare-and-swap look at.
-- Times are microseconds since 1970, UTC.
CREATE TABLE approvals (
    id           TEXT PRIMARY KEY, -- ULID
    revision     INTEGER NOT NULL UNIQUE, -- orders the changes of all rows
    state        TEXT NOT NULL,
    version      INTEGER NOT NULL,
    subject_type TEXT NOT NULL,
    requested_by TEXT NOT NULL,
    on_behalf_of TEXT NOT NULL,
    tool         TEXT NOT NULL,
    created_at   INTEGER NOT NULL,
    answered_at  INTEGER,
    body         BLOB NOT NULL,
    request      BLOB -- what policy evaluates again; may hold secrets
) STRICT;

CREATE INDEX approvals_state ON approvals (state, id);
CREATE INDEX approvals_created ON approvals (created_at);
CREATE INDEX approvals_last_allowed ON approvals (requested_by, tool, answered_at) WHERE state IN ('allowed', 'consumed');

CREATE TABLE grants (
    id           TEXT PRIMARY KEY, -- ULID
    version      INTEGER NOT NULL,
    principal    TEXT NOT NULL,
    on_behalf_of TEXT NOT NULL,
    session      TEXT NOT NULL,
    open         INTEGER NOT NULL, -- 0 once revoked or ended
    body         BLOB NOT NULL
) STRICT;

CREATE INDEX grants_open ON grants (id) WHERE open = 1;

-- At most one row: the gateway is frozen while it is there.
CREATE TABLE freeze (
    id   INTEGER PRIMARY KEY CHECK (id = 1),
    body BLOB NOT NULL
) STRICT;
