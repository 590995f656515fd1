-- Upstream MCP servers: what an operator declared, and what each said of itself when it
-- was approved last and when it was looked at last (docs/upstreams.md). Times are
-- microseconds since 1970, UTC.
CREATE TABLE upstreams (
    name        TEXT PRIMARY KEY,
    server      BLOB NOT NULL,    -- JSON, without secrets
    added_by    TEXT NOT NULL,
    added_at    INTEGER NOT NULL,
    approved    BLOB NOT NULL,    -- JSON
    seen        BLOB NOT NULL,    -- JSON
    seen_at     INTEGER,          -- NULL for never
    approved_by TEXT NOT NULL,
    approved_at INTEGER           -- NULL for never
) STRICT;
