-- What the journal says of a secret last: found without reading all its uses. And
-- whether the gateway goes on from a backup, which each start asks.
CREATE INDEX events_secrets ON events (subject) WHERE code = 'PAL-S200' OR code = 'PAL-S204';
CREATE INDEX events_restored ON events (seq) WHERE code = 'PAL-J105';
