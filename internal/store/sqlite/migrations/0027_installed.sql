-- What installations wrote into the settings of agents, and how palyrad last saw it.
CREATE TABLE installations (
    id            TEXT NOT NULL PRIMARY KEY,
    agent         TEXT NOT NULL,
    scope         TEXT NOT NULL,
    transport     TEXT NOT NULL,
    entries       TEXT NOT NULL, -- JSON list
    registered_by TEXT NOT NULL,
    registered_at INTEGER NOT NULL
) STRICT, WITHOUT ROWID;
