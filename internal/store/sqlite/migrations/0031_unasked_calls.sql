-- Calls of the last days that policy or a grant let run without asking people, by what a
-- grant for them would match. The writer keeps the table beside the journal, and only as
-- much of it as is counted (opencalls.go).
CREATE TABLE unasked_calls (
    requested_by TEXT NOT NULL,
    on_behalf_of TEXT NOT NULL,
    tool         TEXT NOT NULL,
    at           INTEGER NOT NULL, -- microseconds since 1970, UTC
    proposal_id  TEXT NOT NULL,
    subject      TEXT NOT NULL,
    call_digest  TEXT NOT NULL,
    session      TEXT NOT NULL,
    PRIMARY KEY (requested_by, on_behalf_of, tool, at, proposal_id)
) STRICT, WITHOUT ROWID;
