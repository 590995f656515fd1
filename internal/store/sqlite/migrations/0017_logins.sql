-- Who of the identity provider is which member. Subjects are never given to another
-- person, and no member is two persons.
CREATE TABLE logins (
    issuer  TEXT NOT NULL,
    subject TEXT NOT NULL,
    member  TEXT NOT NULL UNIQUE REFERENCES members (principal),
    made_at INTEGER NOT NULL, -- microseconds since 1970, UTC
    PRIMARY KEY (issuer, subject)
) STRICT, WITHOUT ROWID;

-- When the session ends that the device is; NULL for any other device.
ALTER TABLE devices ADD COLUMN login_until INTEGER;
