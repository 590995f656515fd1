-- One row, once a policy set was in force: the version that is, or was when
-- palyrad ran last.
CREATE TABLE policy_last (
    id      INTEGER PRIMARY KEY CHECK (id = 1),
    version TEXT NOT NULL REFERENCES policy_versions (version)
) STRICT;

INSERT INTO policy_last (id, version)
SELECT 1, v.version FROM events e JOIN policy_versions v ON v.version = json_extract(CAST(e.payload AS TEXT), '$.policy_version')
WHERE e.code = 'PAL-P100' AND e.payload IS NOT NULL
ORDER BY e.seq DESC LIMIT 1;
