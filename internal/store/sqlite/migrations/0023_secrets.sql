-- Secrets (docs/format/vault.md). What is not sealed here is authenticated; newest,
-- placed and last_used_at only find things faster.
CREATE TABLE secrets (
    scope        TEXT NOT NULL,
    key          TEXT NOT NULL,
    newest       INTEGER NOT NULL,
    metadata     BLOB NOT NULL, -- canonical JSON
    seal         BLOB NOT NULL,
    placed       INTEGER NOT NULL,
    last_used_at INTEGER,       -- microseconds since 1970, UTC
    PRIMARY KEY (scope, key)
) STRICT, WITHOUT ROWID;
CREATE INDEX secrets_placed ON secrets (scope, key) WHERE placed;
CREATE TABLE secret_versions (
    scope       TEXT NOT NULL,
    key         TEXT NOT NULL,
    version     INTEGER NOT NULL,
    kek         TEXT NOT NULL,  -- id of the key-encryption key
    wrapped_key BLOB NOT NULL,
    box         BLOB NOT NULL,  -- nonce and sealed value
    UNIQUE (scope, key, version)
) STRICT;
CREATE INDEX secret_versions_kek ON secret_versions (kek, scope, key, version);
-- Which key-encryption keys were exported to a recovery key, and when last.
CREATE TABLE vault_exports (
    kek TEXT NOT NULL PRIMARY KEY,
    at  INTEGER NOT NULL -- microseconds since 1970, UTC
) STRICT, WITHOUT ROWID;
