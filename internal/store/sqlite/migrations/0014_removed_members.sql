-- A removed member stays: the journal, votes and grants name it, and its name is not
-- free for somebody else. Microseconds since 1970, UTC; NULL unless removed.
ALTER TABLE members ADD COLUMN removed_at INTEGER;
