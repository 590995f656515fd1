-- Passkeys of members; the rest of each is JSON (passkey.Passkey).
CREATE TABLE passkeys (
    id      BLOB NOT NULL PRIMARY KEY,
    member  TEXT NOT NULL,
    passkey TEXT NOT NULL,
    version INTEGER NOT NULL
) STRICT, WITHOUT ROWID;
