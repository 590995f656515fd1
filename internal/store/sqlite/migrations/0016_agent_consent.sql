-- An agent that somebody else than its owner made, or gave to them, waits until the
-- owner consents. Those that there are count as consented to.
ALTER TABLE members ADD COLUMN awaits_consent INTEGER NOT NULL DEFAULT 0;
