-- Principals and messaging channels that commands let in or keep out, whatever
-- policies say.
CREATE TABLE ceilings (
    name    TEXT PRIMARY KEY, -- "user:bob", "agent:helper" or "channel:ops"
    allowed INTEGER NOT NULL,
    set_by  TEXT NOT NULL,    -- "kind:name"
    at      INTEGER NOT NULL, -- microseconds since 1970, UTC
    reason  TEXT NOT NULL
) STRICT;
