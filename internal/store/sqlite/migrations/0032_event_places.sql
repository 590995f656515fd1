-- Which events of each complete tile of 256 have a code and an actor, so that a filter
-- that chooses few of a million finds them. It is written when a tile is complete: an
-- index of its own would cost every append pages of its own. What follows the last
-- complete tile is read.
CREATE TABLE event_places (
    n      INTEGER NOT NULL, -- events 256n+1 to 256n+256
    code   TEXT NOT NULL,
    actor  TEXT NOT NULL,
    places BLOB NOT NULL, -- a byte each, ascending: seq-256n-1
    PRIMARY KEY (n, code, actor)
) STRICT, WITHOUT ROWID;

INSERT INTO event_places (n, code, actor, places)
SELECT (seq - 1) / 256, code, actor, unhex(group_concat(printf('%02x', (seq - 1) % 256), '' ORDER BY seq))
FROM events WHERE seq <= (SELECT max(seq) FROM events) / 256 * 256 GROUP BY 1, 2, 3;
