-- What is owed to notification targets, what became of it, and who is who in chats.
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
    id        TEXT NOT NULL PRIMARY KEY,
    team      TEXT NOT NULL,
    user      TEXT NOT NULL,
    member    TEXT NOT NULL,
    mapped_by TEXT NOT NULL,
    mapped_at INTEGER NOT NULL,
    UNIQUE (team, user)
) STRICT, WITHOUT ROWID;
