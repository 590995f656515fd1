-- The versions of skills that are installed, and the keys of their publishers
-- (docs/format/skill.md). The packages are files beside the store. What decides whether a
-- version runs is in the newest event of the skill, too, and is compared with it. Times
-- are microseconds since 1970, UTC.
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
