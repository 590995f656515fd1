-- The keys that a device may act with, as JSON; '' is the one key of before there was
-- the column. And when the use of one that was replaced was last journaled.
ALTER TABLE devices ADD COLUMN keys TEXT NOT NULL DEFAULT '';
ALTER TABLE devices ADD COLUMN old_key_at INTEGER;

-- Which events a device caused that its sessions do not lead to: votes, grants, and
-- changes of members, devices and tokens. The writer keeps the table in step with the
-- journal, in the same transaction (deviceacts.go); what is there is read once here.
CREATE TABLE device_acts (
    device TEXT NOT NULL,
    seq    INTEGER NOT NULL,
    PRIMARY KEY (device, seq)
) STRICT, WITHOUT ROWID;

INSERT OR IGNORE INTO device_acts (device, seq)
SELECT json_extract(CAST(payload AS TEXT), '$.vote.device'), seq FROM events
 WHERE code = 'PAL-A102' AND CASE WHEN json_valid(CAST(payload AS TEXT)) THEN json_type(CAST(payload AS TEXT), '$.vote.device') = 'text' END;

INSERT OR IGNORE INTO device_acts (device, seq)
SELECT json_extract(v.value, '$.device'), e.seq
  FROM (SELECT seq, CAST(payload AS TEXT) AS payload FROM events
         WHERE code = 'PAL-G100' AND CASE WHEN json_valid(CAST(payload AS TEXT)) THEN json_type(CAST(payload AS TEXT), '$.minted_by') = 'array' END) e,
       json_each(e.payload, '$.minted_by') v
 WHERE v.type = 'object' AND json_type(v.value, '$.device') = 'text';
