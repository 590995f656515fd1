-- The device with which a token was made, '' for tokens of before: a token ends with
-- the revocation of that device.
ALTER TABLE tokens ADD COLUMN device TEXT NOT NULL DEFAULT '';
