-- Who made, changed and confirmed whom, in order: by this, policy tells whether two
-- voters are two people.
CREATE TABLE member_acts (
    n      INTEGER PRIMARY KEY,
    member TEXT NOT NULL,    -- "kind:name"
    kind   TEXT NOT NULL,    -- made, changed or confirmed
    by     TEXT NOT NULL,    -- JSON array of who could have done it; [] is the host's administrator
    at     INTEGER NOT NULL  -- microseconds since 1970, UTC
) STRICT;
