-- What the journal says of a secret last: found without reading all its uses.
CREATE INDEX events_secrets ON events (subject) WHERE code = 'PAL-S200' OR code = 'PAL-S204';
