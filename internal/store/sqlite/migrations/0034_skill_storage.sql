-- What guests of skills keep, for each user apart. Values are sealed, each in its own place.
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
