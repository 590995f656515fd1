-- Runs, listed newest first. n orders them; as the journal's time never goes
-- back, started_at has the same order. What queries look at comes first; the
-- texts are last. Times are microseconds since 1970, UTC.
CREATE TABLE runs (
    n               INTEGER PRIMARY KEY,
    id              TEXT NOT NULL UNIQUE, -- ULID
    state           TEXT NOT NULL,
    principal       TEXT NOT NULL,
    on_behalf_of    TEXT NOT NULL,
    session         TEXT NOT NULL,
    device          TEXT NOT NULL,
    started_at      INTEGER NOT NULL,
    ended_at        INTEGER, -- NULL while it runs
    idempotency_key TEXT,    -- NULL without one, and once it is forgotten
    start_digest    TEXT NOT NULL,
    model           TEXT NOT NULL,
    workspace       TEXT NOT NULL,
    interactive     INTEGER NOT NULL,
    budget_calls    INTEGER NOT NULL,
    budget_tokens   INTEGER NOT NULL,
    budget_time     INTEGER NOT NULL, -- microseconds
    calls           INTEGER NOT NULL, -- used, as of the end
    turns           INTEGER NOT NULL,
    input_tokens    INTEGER NOT NULL,
    output_tokens   INTEGER NOT NULL,
    cancelled_by    TEXT NOT NULL,
    reason          TEXT NOT NULL,
    detail          TEXT NOT NULL,
    remedy          TEXT NOT NULL,
    message         TEXT NOT NULL
) STRICT;

-- Every index ends with n, so that a page comes out of it in order.
CREATE INDEX runs_started_at ON runs (started_at);
CREATE INDEX runs_state ON runs (state);
CREATE INDEX runs_session ON runs (session);
CREATE INDEX runs_principal ON runs (principal);
CREATE INDEX runs_principal_state ON runs (principal, state);
CREATE INDEX runs_on_behalf_of ON runs (on_behalf_of);
CREATE INDEX runs_on_behalf_of_state ON runs (on_behalf_of, state);
CREATE UNIQUE INDEX runs_key ON runs (principal, idempotency_key) WHERE idempotency_key IS NOT NULL;
