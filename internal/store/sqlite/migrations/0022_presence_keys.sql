-- The key by which a device proves that a person is there, as JSON; '' for a device of
-- before there was the column, which has none.
ALTER TABLE devices ADD COLUMN presence TEXT NOT NULL DEFAULT '';
