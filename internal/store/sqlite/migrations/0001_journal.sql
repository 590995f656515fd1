-- The journal: docs/format/journal.md. Small columns come first, so that
-- reading hashes does not walk the overflow pages of large payloads.
CREATE TABLE events (
    seq            INTEGER PRIMARY KEY,
    at             INTEGER NOT NULL, -- microseconds since 1970, UTC
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
CREATE INDEX events_run ON events (run) WHERE run <> '';
CREATE INDEX events_subject ON events (subject) WHERE subject <> '';
CREATE INDEX events_checkpoints ON events (seq) WHERE code = 'PAL-J102';

-- The runs of each session: events of a session that have a run are found
-- through events_run, so that an append pays for one index less.
CREATE TABLE session_runs (
    session TEXT NOT NULL,
    run     TEXT NOT NULL,
    PRIMARY KEY (session, run)
) STRICT, WITHOUT ROWID;

-- Complete tiles of the Merkle tree, 256 hashes each. root comes before the
-- hashes for the same reason as above.
CREATE TABLE tiles (
    level  INTEGER NOT NULL,
    n      INTEGER NOT NULL,
    root   BLOB NOT NULL,
    hashes BLOB NOT NULL,
    PRIMARY KEY (level, n)
) STRICT;

-- Large inputs and outputs, by the SHA-256 of their content.
CREATE TABLE blobs (
    digest BLOB PRIMARY KEY,
    data   BLOB NOT NULL
) STRICT;

-- Where a probe write goes that finds out whether the disk takes data again.
CREATE TABLE probe (
    id  INTEGER PRIMARY KEY,
    pad BLOB NOT NULL
) STRICT;
