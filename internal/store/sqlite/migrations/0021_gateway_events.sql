-- What people are told of at the start, of the last days: found without reading all that
-- happened in them. Few events have these codes, so that an append pays nothing for it.
CREATE INDEX events_gateway ON events (code, seq) WHERE code = 'PAL-P103' OR code = 'PAL-P107' OR code = 'PAL-P108';
