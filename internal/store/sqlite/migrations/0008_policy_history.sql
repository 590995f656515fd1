-- What a policy set was built from, beside its snapshot, so that a decision can
-- be explained under exactly the policies that made it. NULL for snapshots that
-- were kept before this version.
ALTER TABLE snapshots ADD COLUMN inputs BLOB;

-- Who loaded a version first, and how many policies it has.
ALTER TABLE policy_versions ADD COLUMN loaded_by TEXT NOT NULL DEFAULT '';
ALTER TABLE policy_versions ADD COLUMN policies INTEGER NOT NULL DEFAULT 0;

UPDATE policy_versions SET (loaded_by, policies) = (
    SELECT e.actor, coalesce(json_extract(CAST(e.payload AS TEXT), '$.policies'), 0) FROM events e
    WHERE e.code = 'PAL-P100' AND e.payload IS NOT NULL
        AND json_extract(CAST(e.payload AS TEXT), '$.policy_version') = policy_versions.version
    ORDER BY e.seq LIMIT 1
)
WHERE EXISTS (
    SELECT 1 FROM events e WHERE e.code = 'PAL-P100' AND e.payload IS NOT NULL
        AND json_extract(CAST(e.payload AS TEXT), '$.policy_version') = policy_versions.version
);

-- At most one row: the version that an operator activated. It is in force in
-- place of the policy directory.
CREATE TABLE policy_activation (
    id      INTEGER PRIMARY KEY CHECK (id = 1),
    version TEXT NOT NULL REFERENCES policy_versions (version)
) STRICT;
