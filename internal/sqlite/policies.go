package sqlite

import (
	"context"
	"fmt"

	"palyra/internal/event"
	"palyra/internal/reason"
)

// PolicySet is what is kept of a set that came into force.
type PolicySet struct {
	Version string
	// Sources is the JSON of the policy files.
	Sources        []byte
	SnapshotDigest string
	// Snapshot is canonical JSON; SnapshotDigest is its SHA-256.
	Snapshot []byte
}

// PutPolicySet keeps a policy set and its snapshot, with the event that says
// that it came into force.
func (db *DB) PutPolicySet(ctx context.Context, p PolicySet, loaded event.Draft) error {
	_, err := db.Commit(ctx, Unit{
		Check: func(tx *Tx) error {
			if _, err := tx.Exec("INSERT INTO policy_versions (version, sources, at) VALUES (?1, ?2, ?3) ON CONFLICT DO NOTHING",
				p.Version, p.Sources, tx.Now()); err != nil {
				return fmt.Errorf("keeping policy version %s: %w", p.Version, err)
			}
			if _, err := tx.Exec("INSERT INTO snapshots (digest, content, at) VALUES (?1, ?2, ?3) ON CONFLICT DO NOTHING",
				p.SnapshotDigest, p.Snapshot, tx.Now()); err != nil {
				return fmt.Errorf("keeping policy snapshot %s: %w", p.SnapshotDigest, err)
			}
			return nil
		},
		Events: []event.Draft{loaded},
	})
	return err
}

// Snapshot returns the content behind a snapshot digest.
func (db *DB) Snapshot(ctx context.Context, digest string) (content []byte, err error) {
	err = db.Read(ctx, func(c *Conn) error {
		found, err := c.QueryRow("SELECT content FROM snapshots WHERE digest = ?1",
			func(r *Row) error { content = r.Bytes(0); return nil }, digest)
		if err == nil && !found {
			return reason.Errorf(reason.NotFound, "no policy snapshot has the digest %s", digest)
		}
		return err
	})
	return content, err
}
