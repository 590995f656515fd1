-- Pins: the tool definitions that the policy schema is built from. A changed
-- definition replaces its pin only when the policies validate against it.
CREATE TABLE pins (
    tool       TEXT PRIMARY KEY,
    digest     TEXT NOT NULL,
    definition BLOB NOT NULL, -- canonical JSON; digest is its SHA-256
    refused    TEXT NOT NULL, -- digest of the definition the tool is suspended for, or ''
    at         INTEGER NOT NULL -- microseconds since 1970, UTC
) STRICT;
