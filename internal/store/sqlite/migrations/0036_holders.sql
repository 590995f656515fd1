-- Whom the secrets of an agent or a skill belong to that were put by a release that did not
-- record it: whoever owns the agent, and whose key signed the skill, at the upgrade. "" is
-- nobody. Secrets that were put since have their holder in the sealed metadata.
ALTER TABLE secrets ADD COLUMN held_by TEXT NOT NULL DEFAULT '';
UPDATE secrets SET held_by = coalesce((SELECT owner FROM members WHERE principal = scope AND removed_at IS NULL), '')
 WHERE scope LIKE 'agent:%';
UPDATE secrets SET held_by = coalesce((SELECT key_id FROM skills WHERE skill = substr(scope, length('skill:') + 1) AND current), '')
 WHERE scope LIKE 'skill:%';

-- The event that ends a secret is one of those that say how it is.
DROP INDEX events_secrets;
CREATE INDEX events_secrets ON events (subject) WHERE code = 'PAL-S200' OR code = 'PAL-S204' OR code = 'PAL-S208';

-- A user of a chat votes once the member has consented. Those that were mapped before wait.
ALTER TABLE chat_users ADD COLUMN consented_at INTEGER;
