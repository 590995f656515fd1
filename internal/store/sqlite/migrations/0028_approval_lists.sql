-- What lists of approvals are filtered and counted by. The columns stand at the end of
-- rows that may be large, so that the indexes hold all that a filter looks at.
ALTER TABLE approvals ADD COLUMN severity TEXT NOT NULL DEFAULT '';
ALTER TABLE approvals ADD COLUMN session TEXT NOT NULL DEFAULT '';
ALTER TABLE approvals ADD COLUMN subject TEXT NOT NULL DEFAULT '';
ALTER TABLE approvals ADD COLUMN call_digest TEXT NOT NULL DEFAULT '';

-- Damage of before stays damage, and does not stop the start.
UPDATE approvals SET
    severity = coalesce(json_extract(CAST(body AS TEXT), '$.severity'), ''),
    session = coalesce(json_extract(CAST(body AS TEXT), '$.session'), ''),
    subject = coalesce(json_extract(CAST(body AS TEXT), '$.subject'), ''),
    call_digest = coalesce(json_extract(CAST(body AS TEXT), '$.call_digest'), '')
WHERE json_valid(CAST(body AS TEXT));

DROP INDEX approvals_state;
CREATE INDEX approvals_of_state ON approvals (state, id, severity, subject_type, tool, requested_by, on_behalf_of, created_at);
CREATE INDEX approvals_chosen ON approvals (id, state, severity, subject_type, tool, requested_by, on_behalf_of, created_at);
CREATE INDEX approvals_lately ON approvals (requested_by, on_behalf_of, tool, created_at, subject, call_digest, session);
