-- The schema of a new store. Times are microseconds since 1970, UTC, unless a column says
-- otherwise. Columns that an earlier schema added to a table stand at the end of it.

-- The journal: docs/format/journal.md. Small columns come first, so that reading hashes does not
-- read the overflow pages of large payloads.
CREATE TABLE events (
    seq            INTEGER PRIMARY KEY,
    at             INTEGER NOT NULL,
    id             TEXT NOT NULL,
    code           TEXT NOT NULL,
    session        TEXT NOT NULL,
    run            TEXT NOT NULL,
    actor          TEXT NOT NULL,
    subject        TEXT NOT NULL,
    hash           BLOB NOT NULL,
    prev_hash      BLOB NOT NULL,
    payload_sha256 BLOB NOT NULL,
    salt           BLOB, -- NULL together with payload when erased
    payload        BLOB
) STRICT;

CREATE INDEX events_session ON events (session) WHERE session <> '' AND run = '';
-- Most calls have no run but themselves: their events have the same text as run and subject and
-- are found by the index of subjects. The index of runs holds only the others, so that an event of
-- such a call is written to one index less.
CREATE INDEX events_run ON events (run) WHERE run <> '' AND run <> subject;
CREATE INDEX events_subject ON events (subject) WHERE subject <> '';
CREATE INDEX events_checkpoints ON events (seq) WHERE code = 'PAL-J102';
-- The last event of a secret is found without reading all events of its use.
CREATE INDEX events_secrets ON events (subject) WHERE code = 'PAL-S200' OR code = 'PAL-S204' OR code = 'PAL-S208';
-- Every start asks whether the gateway continues from a backup.
CREATE INDEX events_restored ON events (seq) WHERE code = 'PAL-J105';

-- A start reports these events of the last days. They are found without reading all others; few
-- events have these codes, so that the index costs other events nothing.
CREATE INDEX events_gateway ON events (code, seq) WHERE code = 'PAL-P103' OR code = 'PAL-P107' OR code = 'PAL-P108';

-- The runs of each session. Events of a session that have a run are found through events_run, so
-- that an event is written to one index less.
CREATE TABLE session_runs (
    session TEXT NOT NULL,
    run     TEXT NOT NULL,
    PRIMARY KEY (session, run)
) STRICT, WITHOUT ROWID;

-- Complete tiles of the Merkle tree with 256 hashes each. The root comes before the hashes, which
-- are on overflow pages.
CREATE TABLE tiles (
    level  INTEGER NOT NULL,
    n      INTEGER NOT NULL,
    root   BLOB NOT NULL,
    hashes BLOB NOT NULL,
    PRIMARY KEY (level, n)
) STRICT;

-- The events of each complete tile by code and actor, so that a filter that selects few of a
-- million events finds them. Rows are written when a tile is complete; an ordinary index would cost
-- every event pages of its own. Events after the last complete tile are read.
CREATE TABLE event_places (
    n      INTEGER NOT NULL, -- events 256n+1 to 256n+256
    code   TEXT NOT NULL,
    actor  TEXT NOT NULL,
    places BLOB NOT NULL, -- a byte each, ascending: seq-256n-1
    PRIMARY KEY (n, code, actor)
) STRICT, WITHOUT ROWID;

-- The target of a probe write that tests whether the disk takes data again.
CREATE TABLE probe (
    id  INTEGER PRIMARY KEY,
    pad BLOB NOT NULL
) STRICT;

-- Approvals, grants and the freeze. The body is the row's RFC 8785 JSON and is authoritative;
-- queries and compare-and-swap use the columns beside it. What people were shown is sealed: prompt
-- and binding, of which body has only an outline, and the request.
CREATE TABLE approvals (
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
    payload_key    TEXT, -- of results_keys; '' for a row that holds nothing of a tool
    payload_digest BLOB, -- SHA-256 of the plain payload
    body           BLOB NOT NULL,
    payload        BLOB, -- empty once expired
    request        BLOB, -- for the next evaluation by policy; may hold secrets
    severity       TEXT NOT NULL DEFAULT '',
    session        TEXT NOT NULL DEFAULT '',
    subject        TEXT NOT NULL DEFAULT '',
    call_digest    TEXT NOT NULL DEFAULT ''
) STRICT;

CREATE INDEX approvals_created ON approvals (created_at);
CREATE INDEX approvals_last_allowed ON approvals (requested_by, tool, answered_at) WHERE state IN ('allowed', 'consumed');
CREATE INDEX approvals_sealed ON approvals (created_at) WHERE payload_key <> '' AND length(payload) > 0;
-- Rows may be large, so these indexes hold every column that the filter of a list reads.
CREATE INDEX approvals_of_state ON approvals (state, id, severity, subject_type, tool, requested_by, on_behalf_of, created_at);
CREATE INDEX approvals_chosen ON approvals (id, state, severity, subject_type, tool, requested_by, on_behalf_of, created_at);
CREATE INDEX approvals_lately ON approvals (requested_by, on_behalf_of, tool, created_at, subject, call_digest, session);

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

-- At most one row: the gateway is frozen while it exists.
CREATE TABLE freeze (
    id   INTEGER PRIMARY KEY CHECK (id = 1),
    body BLOB NOT NULL
) STRICT;

-- A removed member stays, because the journal, votes and grants name it; the name is never reused.
CREATE TABLE members (
    principal      TEXT PRIMARY KEY, -- "kind:name"
    owner          TEXT NOT NULL,    -- '' for a user
    roles          TEXT NOT NULL,    -- JSON array of names
    disabled       INTEGER NOT NULL,
    created_at     INTEGER NOT NULL,
    removed_at     INTEGER,          -- NULL unless removed
    awaits_consent INTEGER NOT NULL DEFAULT 0 -- 1 for an agent whose owner has not consented
) STRICT;

-- Who added, changed and confirmed members, in order. Policy decides by it whether two voters are
-- two people.
CREATE TABLE member_acts (
    n      INTEGER PRIMARY KEY,
    member TEXT NOT NULL, -- "kind:name"
    kind   TEXT NOT NULL, -- made, changed or confirmed
    by     TEXT NOT NULL, -- JSON array of the possible authors; [] is the host's administrator
    at     INTEGER NOT NULL
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
    version       INTEGER NOT NULL,
    login_until   INTEGER, -- end of the session that the device is; NULL for another device
    keys          TEXT NOT NULL DEFAULT '', -- JSON, the keys that the device may use
    old_key_at    INTEGER, -- when the use of a replaced key was journaled last
    presence      TEXT NOT NULL DEFAULT '' -- JSON, the key that proves the presence of a person
) STRICT;

CREATE INDEX devices_principal ON devices (principal);

-- The events that a device caused and that its sessions do not lead to: votes, grants, and changes
-- of members, devices and tokens. The writer keeps the table consistent with the journal, in the
-- same transaction (deviceacts.go).
CREATE TABLE device_acts (
    device TEXT NOT NULL,
    seq    INTEGER NOT NULL,
    PRIMARY KEY (device, seq)
) STRICT, WITHOUT ROWID;

-- The subjects of identity providers with their members. A provider never gives a subject to
-- another person, and no member is two persons.
CREATE TABLE logins (
    issuer  TEXT NOT NULL,
    subject TEXT NOT NULL,
    member  TEXT NOT NULL UNIQUE REFERENCES members (principal),
    made_at INTEGER NOT NULL,
    PRIMARY KEY (issuer, subject)
) STRICT, WITHOUT ROWID;

-- Passkeys of members.
CREATE TABLE passkeys (
    id      BLOB NOT NULL PRIMARY KEY,
    member  TEXT NOT NULL,
    passkey TEXT NOT NULL, -- JSON (passkey.Passkey)
    version INTEGER NOT NULL
) STRICT, WITHOUT ROWID;

-- API tokens. Only the SHA-256 of the secret is stored.
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
    revoked_by   TEXT NOT NULL,
    device       TEXT NOT NULL DEFAULT '' -- whose revocation ends the token
) STRICT, WITHOUT ROWID;

-- Principals and messaging channels that commands admit or exclude, whatever policies say.
CREATE TABLE ceilings (
    name    TEXT PRIMARY KEY, -- "user:bob", "agent:helper" or "channel:ops"
    allowed INTEGER NOT NULL,
    set_by  TEXT NOT NULL,    -- "kind:name"
    at      INTEGER NOT NULL,
    reason  TEXT NOT NULL
) STRICT;

-- One row per executed call. n orders them; it is not the journal's sequence number, which exists
-- only after the check of the unit.
CREATE TABLE attestations (
    n           INTEGER PRIMARY KEY,
    id          TEXT NOT NULL UNIQUE, -- ULID
    proposal_id TEXT NOT NULL UNIQUE, -- ULID
    call_digest TEXT NOT NULL,
    sha256      TEXT NOT NULL, -- hex, of envelope
    created_at  INTEGER NOT NULL,
    envelope    BLOB NOT NULL  -- DSSE JSON
) STRICT;

-- Calls that were decided and have not ended. The writer keeps the table consistent with the
-- journal, in the same transaction (opencalls.go).
CREATE TABLE open_calls (
    proposal_id TEXT PRIMARY KEY,
    session     TEXT NOT NULL,
    run         TEXT NOT NULL,
    actor       TEXT NOT NULL
) STRICT, WITHOUT ROWID;

-- The calls of the last days that policy or a grant allowed without asking people, by the fields
-- that a grant for them would match. The writer stores them together with the journal and keeps
-- only as many as are counted (opencalls.go).
CREATE TABLE unasked_calls (
    requested_by TEXT NOT NULL,
    on_behalf_of TEXT NOT NULL,
    tool         TEXT NOT NULL,
    at           INTEGER NOT NULL,
    proposal_id  TEXT NOT NULL,
    subject      TEXT NOT NULL,
    call_digest  TEXT NOT NULL,
    session      TEXT NOT NULL,
    PRIMARY KEY (requested_by, on_behalf_of, tool, at, proposal_id)
) STRICT, WITHOUT ROWID;

-- Idempotency keys of each principal.
CREATE TABLE claims (
    principal   TEXT NOT NULL,
    key         TEXT NOT NULL,
    digest      TEXT NOT NULL,
    proposal_id TEXT NOT NULL,
    at          INTEGER NOT NULL,
    PRIMARY KEY (principal, key)
) STRICT;

CREATE INDEX claims_at ON claims (at);

-- Policy snapshots by digest: the exact configuration of a decision. The inputs are the texts from
-- which its set was built, so that a decision is explained under the policies that made it.
CREATE TABLE snapshots (
    digest  TEXT PRIMARY KEY,
    content BLOB NOT NULL,
    at      INTEGER NOT NULL,
    inputs  BLOB
) STRICT;

-- Policy sets by version, so that earlier ones can be read again.
CREATE TABLE policy_versions (
    version   TEXT PRIMARY KEY,
    sources   BLOB NOT NULL,
    at        INTEGER NOT NULL,
    loaded_by TEXT NOT NULL DEFAULT '', -- the first to load it
    policies  INTEGER NOT NULL DEFAULT 0
) STRICT;

-- At most one row: the version that an operator activated. It replaces the policy directory.
CREATE TABLE policy_activation (
    id      INTEGER PRIMARY KEY CHECK (id = 1),
    version TEXT NOT NULL REFERENCES policy_versions (version)
) STRICT;

-- One row once a policy set was active: the active version, or the last one of the previous run of
-- palyrad.
CREATE TABLE policy_last (
    id      INTEGER PRIMARY KEY CHECK (id = 1),
    version TEXT NOT NULL REFERENCES policy_versions (version)
) STRICT;

-- Pins: the tool definitions from which the policy schema is built. A changed definition replaces
-- its pin only if the policies validate against it.
CREATE TABLE pins (
    tool       TEXT PRIMARY KEY,
    digest     TEXT NOT NULL,
    definition BLOB NOT NULL, -- canonical JSON; digest is its SHA-256
    refused    TEXT NOT NULL, -- digest of the definition for which the tool is suspended, or ''
    at         INTEGER NOT NULL
) STRICT;

-- Runs, listed newest first. n orders them; the journal's time never decreases, so that started_at
-- has the same order. Columns of queries come first, texts last.
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
    idempotency_key TEXT,    -- NULL without one, and once it is deleted
    start_digest    TEXT NOT NULL,
    model           TEXT NOT NULL,
    workspace       TEXT NOT NULL,
    interactive     INTEGER NOT NULL,
    budget_calls    INTEGER NOT NULL,
    budget_tokens   INTEGER NOT NULL,
    budget_time     INTEGER NOT NULL, -- microseconds
    calls           INTEGER NOT NULL, -- used, at the end
    turns           INTEGER NOT NULL,
    input_tokens    INTEGER NOT NULL,
    output_tokens   INTEGER NOT NULL,
    cancelled_by    TEXT NOT NULL,
    reason          TEXT NOT NULL,
    detail          TEXT NOT NULL,
    remedy          TEXT NOT NULL,
    message         TEXT NOT NULL
) STRICT;

-- Every index ends with n, so that a page is read in order.
CREATE INDEX runs_started_at ON runs (started_at);
CREATE INDEX runs_state ON runs (state);
CREATE INDEX runs_session ON runs (session);
CREATE INDEX runs_principal ON runs (principal);
CREATE INDEX runs_principal_state ON runs (principal, state);
CREATE INDEX runs_on_behalf_of ON runs (on_behalf_of);
CREATE INDEX runs_on_behalf_of_state ON runs (on_behalf_of, state);
CREATE UNIQUE INDEX runs_key ON runs (principal, idempotency_key) WHERE idempotency_key IS NOT NULL;

-- Sessions: the gateway counts what callers do by them. The effects of their calls are in the
-- journal.
CREATE TABLE sessions (
    id           TEXT PRIMARY KEY, -- ULID
    principal    TEXT NOT NULL,
    device       TEXT NOT NULL,
    client       TEXT NOT NULL, -- the kind of client
    on_behalf_of TEXT NOT NULL,
    started_at   INTEGER NOT NULL,
    ended_at     INTEGER, -- NULL unless a person or the daemon ended it
    ended_by     TEXT NOT NULL DEFAULT '',
    end_reason   TEXT NOT NULL DEFAULT ''
) STRICT;

CREATE INDEX sessions_key ON sessions (principal, device, client, id);
CREATE INDEX sessions_on_behalf_of ON sessions (on_behalf_of, id);

-- The calls of each session, refused ones included. Principals are stored with each call, so that
-- one page of one principal's calls, or of all of them, newest first, is read from an index.
CREATE TABLE session_calls (
    session      TEXT NOT NULL,
    proposal_id  TEXT NOT NULL,
    of_run       INTEGER NOT NULL, -- 1 for a call of a run that the gateway drives
    principal    TEXT NOT NULL DEFAULT '',
    on_behalf_of TEXT NOT NULL DEFAULT '',
    PRIMARY KEY (session, proposal_id)
) STRICT, WITHOUT ROWID;

CREATE INDEX session_calls_newest ON session_calls (proposal_id);
CREATE INDEX session_calls_principal ON session_calls (principal, proposal_id);
CREATE INDEX session_calls_on_behalf_of ON session_calls (on_behalf_of, proposal_id);

-- The calls that were added last: each writes one page here, and not one of session_calls and of
-- each of its indexes. The writer moves them there in bulk (sessions.go). The view calls contains
-- all calls.
CREATE TABLE recent_calls (
    proposal_id TEXT PRIMARY KEY,
    session     TEXT NOT NULL,
    of_run      INTEGER NOT NULL
) STRICT, WITHOUT ROWID;

-- The casts give both halves of calls columns of the same kind. Without them SQLite would not read
-- a page of calls from the ends of both.
CREATE VIEW newest_calls AS
 SELECT session, proposal_id, of_run,
  CAST(coalesce((SELECT principal FROM sessions WHERE id = session), '') AS TEXT) AS principal,
  CAST(coalesce((SELECT on_behalf_of FROM sessions WHERE id = session), '') AS TEXT) AS on_behalf_of
 FROM recent_calls r
 WHERE NOT EXISTS (SELECT 1 FROM session_calls s WHERE s.session = r.session AND s.proposal_id = r.proposal_id);

CREATE VIEW calls AS
 SELECT session, proposal_id, of_run, principal, on_behalf_of FROM session_calls
 UNION ALL SELECT session, proposal_id, of_run, principal, on_behalf_of FROM newest_calls;

-- How many bytes the calls of each principal stored in an hour, for quotas.
CREATE TABLE usage (
    who   TEXT NOT NULL,
    hour  INTEGER NOT NULL, -- hours since 1970, UTC
    bytes INTEGER NOT NULL,
    PRIMARY KEY (who, hour)
) STRICT, WITHOUT ROWID;

-- Secrets (docs/format/vault.md). Columns that are not sealed are authenticated; newest, placed and
-- last_used_at only speed up searches.
CREATE TABLE secrets (
    scope        TEXT NOT NULL,
    key          TEXT NOT NULL,
    newest       INTEGER NOT NULL,
    metadata     BLOB NOT NULL, -- canonical JSON
    seal         BLOB NOT NULL,
    placed       INTEGER NOT NULL,
    last_used_at INTEGER,
    held_by      TEXT NOT NULL DEFAULT '', -- holder of a secret whose sealed metadata has none
    PRIMARY KEY (scope, key)
) STRICT, WITHOUT ROWID;

CREATE INDEX secrets_placed ON secrets (scope, key) WHERE placed;

CREATE TABLE secret_versions (
    scope       TEXT NOT NULL,
    key         TEXT NOT NULL,
    version     INTEGER NOT NULL,
    kek         TEXT NOT NULL, -- id of the key-encryption key
    wrapped_key BLOB NOT NULL,
    box         BLOB NOT NULL, -- nonce and sealed value
    UNIQUE (scope, key, version)
) STRICT;

CREATE INDEX secret_versions_kek ON secret_versions (kek, scope, key, version);

-- The key-encryption keys that were exported to a recovery key, with the time of the last export.
CREATE TABLE vault_exports (
    kek TEXT NOT NULL PRIMARY KEY,
    at  INTEGER NOT NULL
) STRICT, WITHOUT ROWID;

-- The sealed data of calls (docs/format/results.md): results, large arguments and the texts of
-- runs, by the SHA-256 of the plain content.
CREATE TABLE results (
    digest     BLOB PRIMARY KEY,
    kept_at    INTEGER NOT NULL,
    expired_at INTEGER,       -- NULL unless its bytes are gone
    key        TEXT NOT NULL, -- of results_keys
    box        BLOB NOT NULL  -- nonce and sealed content; empty once expired
) STRICT;

CREATE INDEX results_kept ON results (kept_at) WHERE expired_at IS NULL;

-- The keys under which results are sealed, wrapped by the vault.
CREATE TABLE results_keys (
    id         TEXT PRIMARY KEY, -- ULID
    wrapped_by TEXT NOT NULL,    -- id of the vault's key
    box        BLOB NOT NULL,
    made_at    INTEGER NOT NULL
) STRICT, WITHOUT ROWID;

-- Upstream MCP servers: the operator's declaration, and the server's own description at the last
-- approval and at the last connection (docs/upstreams.md).
CREATE TABLE upstreams (
    name        TEXT PRIMARY KEY,
    server      BLOB NOT NULL, -- JSON, without secrets
    added_by    TEXT NOT NULL,
    added_at    INTEGER NOT NULL,
    approved    BLOB NOT NULL, -- JSON
    seen        BLOB NOT NULL, -- JSON
    seen_at     INTEGER,       -- NULL for never
    approved_by TEXT NOT NULL,
    approved_at INTEGER        -- NULL for never
) STRICT;

-- The entries that installations wrote into the settings of agents.
CREATE TABLE installations (
    id            TEXT NOT NULL PRIMARY KEY,
    agent         TEXT NOT NULL,
    scope         TEXT NOT NULL,
    transport     TEXT NOT NULL,
    entries       TEXT NOT NULL, -- JSON list
    registered_by TEXT NOT NULL,
    registered_at INTEGER NOT NULL
) STRICT, WITHOUT ROWID;

-- The notices for each target with their state, and the members of chat users.
CREATE TABLE notify_cursor (
    one INTEGER NOT NULL PRIMARY KEY CHECK (one = 1),
    seq INTEGER NOT NULL
) STRICT;

CREATE TABLE deliveries (
    position  INTEGER PRIMARY KEY AUTOINCREMENT,
    id        TEXT NOT NULL UNIQUE,
    target    TEXT NOT NULL,
    seq       INTEGER NOT NULL, -- of the event, 0 for a test
    kind      TEXT NOT NULL,
    severity  TEXT NOT NULL,
    approval  TEXT NOT NULL,
    state     TEXT NOT NULL,
    attempts  INTEGER NOT NULL,
    queued_at INTEGER NOT NULL,
    next_at   INTEGER NOT NULL,
    ended_at  INTEGER,
    problem   TEXT NOT NULL,
    ref       TEXT NOT NULL
) STRICT;

CREATE UNIQUE INDEX deliveries_of_event ON deliveries (target, seq) WHERE seq > 0;
CREATE INDEX deliveries_queued ON deliveries (target, next_at, position) WHERE state = 'queued';
CREATE INDEX deliveries_asked ON deliveries (target, approval) WHERE kind = 'approval_asked';
CREATE INDEX deliveries_ended ON deliveries (ended_at) WHERE ended_at IS NOT NULL;

CREATE TABLE chat_users (
    id           TEXT NOT NULL PRIMARY KEY,
    team         TEXT NOT NULL,
    user         TEXT NOT NULL,
    member       TEXT NOT NULL,
    mapped_by    TEXT NOT NULL,
    mapped_at    INTEGER NOT NULL,
    consented_at INTEGER, -- NULL until the member consents; before that the user has no vote
    UNIQUE (team, user)
) STRICT, WITHOUT ROWID;

-- The installed versions of skills, and the keys of their publishers (docs/format/skill.md).
-- Packages are files beside the store. The columns that decide whether a version runs are also in
-- the newest event of the skill and are compared with it.
CREATE TABLE skills (
    skill        TEXT NOT NULL,
    version      TEXT NOT NULL,
    publisher    TEXT NOT NULL,
    key_id       TEXT NOT NULL,
    digest       TEXT NOT NULL, -- of the package
    status       TEXT NOT NULL,
    why          TEXT NOT NULL,
    current      INTEGER NOT NULL,
    installed_by TEXT NOT NULL,
    installed_at INTEGER NOT NULL,
    changed_by   TEXT NOT NULL,
    changed_at   INTEGER NOT NULL,
    PRIMARY KEY (skill, version)
) STRICT, WITHOUT ROWID;

CREATE TABLE skill_publishers (
    name       TEXT NOT NULL PRIMARY KEY,
    key_id     TEXT NOT NULL,
    public_key BLOB NOT NULL, -- 32 bytes of Ed25519
    first_use  INTEGER NOT NULL,
    distrusted INTEGER NOT NULL,
    changed_by TEXT NOT NULL,
    changed_at INTEGER NOT NULL
) STRICT, WITHOUT ROWID;

-- The storage of skill guests, separate for each user. Each value is sealed for its own place.
CREATE TABLE skill_storage (
    skill       TEXT NOT NULL,
    user        TEXT NOT NULL, -- on whose behalf calls are made
    key         TEXT NOT NULL,
    size        INTEGER NOT NULL, -- of key and value, in bytes
    digest      BLOB NOT NULL, -- SHA-256 of the value
    results_key TEXT NOT NULL, -- of results_keys
    box         BLOB NOT NULL, -- nonce and sealed value
    UNIQUE (skill, user, key)
) STRICT;

CREATE INDEX skill_storage_sizes ON skill_storage (skill, user, size);
