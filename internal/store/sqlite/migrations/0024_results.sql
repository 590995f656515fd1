-- What calls leave behind, sealed (docs/format/results.md): results, large arguments
-- and the texts of runs, by the SHA-256 of the plain content. Times are microseconds
-- since 1970, UTC. The table blobs has what was kept before, until the store has
-- sealed it in the background.
CREATE TABLE results (
    digest     BLOB PRIMARY KEY,
    kept_at    INTEGER NOT NULL,
    expired_at INTEGER,       -- NULL unless its bytes are gone
    key        TEXT NOT NULL, -- of results_keys
    box        BLOB NOT NULL  -- nonce and sealed content; empty once expired
) STRICT;

CREATE INDEX results_kept ON results (kept_at) WHERE expired_at IS NULL;

-- The keys that results are sealed under, wrapped by the vault.
CREATE TABLE results_keys (
    id         TEXT PRIMARY KEY, -- ULID
    wrapped_by TEXT NOT NULL,    -- id of the vault's key
    box        BLOB NOT NULL,
    made_at    INTEGER NOT NULL
) STRICT, WITHOUT ROWID;

-- What people were shown of an approval, sealed: prompt and binding, which body then
-- has in outline only, and the request. payload_key is NULL for rows of before, until
-- they are sealed, and '' for rows that hold nothing of a tool. The table is made anew:
-- in the pages of the old one is what rows had in them before.
CREATE TABLE approvals_anew (
    id             TEXT PRIMARY KEY, -- ULID
    revision       INTEGER NOT NULL UNIQUE, -- orders the changes of all rows
    state          TEXT NOT NULL,
    version        INTEGER NOT NULL,
    subject_type   TEXT NOT NULL,
    requested_by   TEXT NOT NULL,
    on_behalf_of   TEXT NOT NULL,
    tool           TEXT NOT NULL,
    created_at     INTEGER NOT NULL,
    answered_at    INTEGER,
    payload_key    TEXT, -- of results_keys
    payload_digest BLOB, -- SHA-256 of the plain payload
    body           BLOB NOT NULL,
    payload        BLOB, -- empty once expired
    request        BLOB  -- what policy evaluates again; may hold secrets
) STRICT;

INSERT INTO approvals_anew (id, revision, state, version, subject_type, requested_by, on_behalf_of, tool, created_at, answered_at, body, request)
SELECT id, revision, state, version, subject_type, requested_by, on_behalf_of, tool, created_at, answered_at, body, request
FROM approvals ORDER BY rowid;

-- The pages of the old table are wiped in the background, with all other free ones:
-- here it would take as long again as the copy.
PRAGMA secure_delete = OFF;
DROP TABLE approvals;
PRAGMA secure_delete = ON;
ALTER TABLE approvals_anew RENAME TO approvals;

CREATE INDEX approvals_state ON approvals (state, id);
CREATE INDEX approvals_created ON approvals (created_at);
CREATE INDEX approvals_last_allowed ON approvals (requested_by, tool, answered_at) WHERE state IN ('allowed', 'consumed');
CREATE INDEX approvals_plain ON approvals (id) WHERE payload_key IS NULL;
CREATE INDEX approvals_sealed ON approvals (created_at) WHERE payload_key <> '' AND length(payload) > 0;

-- What the background has to do once. Before this version, what was deleted or
-- overwritten stayed in pages of the file: free ones, and that from which the table
-- blobs begins.
CREATE TABLE untended (
    what TEXT PRIMARY KEY
) STRICT, WITHOUT ROWID;

INSERT INTO untended (what) VALUES ('free pages'), ('blobs');
