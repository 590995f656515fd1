-- Whose each call is, beside its session, so that a page of one principal's calls
-- or of all of them, newest first, is read from an index, however many there are.
ALTER TABLE session_calls ADD COLUMN principal TEXT NOT NULL DEFAULT '';
ALTER TABLE session_calls ADD COLUMN on_behalf_of TEXT NOT NULL DEFAULT '';

UPDATE session_calls SET (principal, on_behalf_of) = (SELECT s.principal, s.on_behalf_of FROM sessions s WHERE s.id = session_calls.session)
WHERE session IN (SELECT id FROM sessions);

CREATE INDEX session_calls_newest ON session_calls (proposal_id);
CREATE INDEX session_calls_principal ON session_calls (principal, proposal_id);
CREATE INDEX session_calls_on_behalf_of ON session_calls (on_behalf_of, proposal_id);
