package sqlite

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"palyra/internal/call/policyadmin"
	"palyra/internal/call/record"
	"palyra/internal/core/event"
	"palyra/internal/core/reason"
)

// Policies is the policyadmin.Store of the embedded store.
type Policies struct{ db *DB }

var _ policyadmin.Store = Policies{}

// NewPolicies returns the policy sets in db.
func NewPolicies(db *DB) Policies { return Policies{db} }

// PutPolicySet stores a policy set and its snapshot, with the event of its activation.
func (s Policies) PutPolicySet(ctx context.Context, p policyadmin.KeptSet, loaded event.Draft) error {
	_, err := s.db.Commit(ctx, Unit{
		Check:  func(tx *Tx) error { return putPolicySet(tx, p) },
		Events: []event.Draft{loaded},
	})
	return err
}

func putPolicySet(tx *Tx, p policyadmin.KeptSet) error {
	if _, err := tx.Exec("INSERT INTO policy_versions (version, sources, at, loaded_by, policies) VALUES (?1, ?2, ?3, ?4, ?5) ON CONFLICT DO NOTHING",
		p.Version, p.Sources, tx.Now(), p.LoadedBy, p.Policies); err != nil {
		return fmt.Errorf("keeping policy version %s: %w", p.Version, err)
	}
	if _, err := tx.Exec(`INSERT INTO snapshots (digest, content, at, inputs) VALUES (?1, ?2, ?3, ?4)
		ON CONFLICT DO UPDATE SET inputs = ?4 WHERE inputs IS NULL`,
		p.SnapshotDigest, p.Snapshot, tx.Now(), p.Inputs); err != nil {
		return fmt.Errorf("keeping policy snapshot %s: %w", p.SnapshotDigest, err)
	}
	if _, err := tx.Exec("INSERT INTO policy_last (id, version) VALUES (1, ?1) ON CONFLICT DO UPDATE SET version = ?1", p.Version); err != nil {
		return fmt.Errorf("noting that policy version %s is in force: %w", p.Version, err)
	}
	if _, err := tx.Exec("DELETE FROM policy_activation"); err != nil {
		return fmt.Errorf("ending the activation of a policy version: %w", err)
	}
	if !p.Activated {
		return nil
	}
	if _, err := tx.Exec("INSERT INTO policy_activation (id, version) VALUES (1, ?1)", p.Version); err != nil {
		return fmt.Errorf("activating policy version %s: %w", p.Version, err)
	}
	return nil
}

// Snapshot returns the content behind a snapshot digest.
func (s Policies) Snapshot(ctx context.Context, digest string) (content []byte, err error) {
	content, _, err = s.snapshot(ctx, digest)
	return content, err
}

// SnapshotInputs returns the inputs of the policy set behind a snapshot digest, or nil if the
// snapshot was stored without them by an older release.
func (s Policies) SnapshotInputs(ctx context.Context, digest string) (inputs []byte, err error) {
	_, inputs, err = s.snapshot(ctx, digest)
	return inputs, err
}

func (s Policies) snapshot(ctx context.Context, digest string) (content, inputs []byte, err error) {
	err = s.db.Read(ctx, func(c *Conn) error {
		found, err := c.QueryRow("SELECT content, inputs FROM snapshots WHERE digest = ?1",
			func(r *Row) error {
				content = r.Bytes(0)
				if !r.IsNull(1) {
					inputs = r.Bytes(1)
				}
				return nil
			}, digest)
		if err == nil && !found {
			return reason.Errorf(reason.NotFound, "no policy snapshot has the digest %s", digest)
		}
		return err
	})
	return content, inputs, err
}

const policyVersionColumns = "rowid, version, sources, at, loaded_by, policies"

func scanPolicyVersion(r *Row) (policyadmin.KeptVersion, error) {
	return policyadmin.KeptVersion{
		Position: r.Int64(0), Version: r.Text(1), Sources: r.Bytes(2), At: r.Time(3), LoadedBy: r.Text(4), Policies: int(r.Int64(5)),
	}, nil
}

// PolicyVersions lists at most limit versions, newest first by the time of the first load. before
// is the position of the last version of the previous page, 0 for the first page.
func (s Policies) PolicyVersions(ctx context.Context, before int64, limit int) ([]policyadmin.KeptVersion, error) {
	return list(ctx, s.db, "reading the policy versions", scanPolicyVersion,
		"SELECT "+policyVersionColumns+" FROM policy_versions WHERE ?1 = 0 OR rowid < ?1 ORDER BY rowid DESC LIMIT ?2", before, limit)
}

// PolicyVersion finds a version by its digest, "sha256:<hex>", or by a prefix of it, with or
// without "sha256:".
func (s Policies) PolicyVersion(ctx context.Context, beginning string) (policyadmin.KeptVersion, error) {
	beginning = digestPrefix + strings.TrimPrefix(beginning, digestPrefix)
	found, err := list(ctx, s.db, "reading policy version "+beginning, scanPolicyVersion,
		"SELECT "+policyVersionColumns+" FROM policy_versions WHERE substr(version, 1, ?1) = ?2 LIMIT 2", len(beginning), beginning)
	switch {
	case err != nil:
		return policyadmin.KeptVersion{}, err
	case len(found) == 0:
		return policyadmin.KeptVersion{}, reason.Errorf(reason.NotFound, "no policy version begins with %s", beginning).
			WithRemedy("`palyra policy versions` lists them.")
	case len(found) > 1:
		return policyadmin.KeptVersion{}, reason.Errorf(reason.InvalidInput, "several policy versions begin with %s", beginning).
			WithRemedy("Write more of the digest; `palyra policy versions -o wide` shows all of it.")
	}
	return found[0], nil
}

// ActivatedPolicy returns the version that an operator activated. found is false if the policy
// directory applies.
func (s Policies) ActivatedPolicy(ctx context.Context) (v policyadmin.KeptVersion, found bool, err error) {
	return s.onePolicy(ctx, "reading which policy version is activated", "SELECT version FROM policy_activation")
}

// LastPolicy returns the most recently activated version; found is false if no version was ever
// active.
func (s Policies) LastPolicy(ctx context.Context) (v policyadmin.KeptVersion, found bool, err error) {
	return s.onePolicy(ctx, "reading which policy version was in force last", "SELECT version FROM policy_last")
}

// onePolicy returns the version that a query selects.
func (s Policies) onePolicy(ctx context.Context, what, query string) (v policyadmin.KeptVersion, found bool, err error) {
	err = s.db.Read(ctx, func(c *Conn) error {
		found, err = c.QueryRow("SELECT "+policyVersionColumns+" FROM policy_versions WHERE version = ("+query+")",
			func(r *Row) error { v, err = scanPolicyVersion(r); return err })
		return err
	})
	if err != nil {
		return policyadmin.KeptVersion{}, false, fmt.Errorf("%s: %w", what, err)
	}
	return v, found, nil
}

// ResetPolicy deletes the activated and the most recent version, so that the policy directory
// applies, and records the event.
func (s Policies) ResetPolicy(ctx context.Context, reset event.Draft) error {
	_, err := s.db.Commit(ctx, Unit{
		Check: func(tx *Tx) error {
			for _, table := range []string{"policy_activation", "policy_last"} {
				if _, err := tx.Exec("DELETE FROM " + table); err != nil {
					return fmt.Errorf("forgetting which policy version counts: %w", err)
				}
			}
			return nil
		},
		Events: []event.Draft{reset},
	})
	return err
}

// errFound ends a search.
var errFound = errors.New("found")

// ProposalOf returns the id of the proposal of a decision; found is false if no decision has the
// id. It searches only events from the time before on. The caller derives that time from the id, a
// ULID created before the decision is journaled, and subtracts the possible clock difference.
func (s Policies) ProposalOf(ctx context.Context, decisionID string, before time.Time) (proposal string, found bool, err error) {
	err = s.db.Read(ctx, func(c *Conn) error {
		first, err := eventRows{c}.firstAt(before)
		if err != nil {
			return err
		}
		err = c.Query("SELECT payload, subject FROM events WHERE seq >= ?1 AND code = ?2 AND payload IS NOT NULL ORDER BY seq", func(r *Row) error {
			is, err := record.Decides(r.Bytes(0), decisionID)
			if err == nil && is {
				proposal, found, err = r.Text(1), true, errFound
			}
			return err
		}, first, event.Decided)
		if errors.Is(err, errFound) {
			err = nil
		}
		return err
	})
	if err != nil {
		return "", false, fmt.Errorf("looking for decision %s: %w", decisionID, err)
	}
	return proposal, found, nil
}

// Blob returns the data with a digest.
func (s Policies) Blob(ctx context.Context, digest string) ([]byte, error) {
	return s.db.Blob(ctx, digest)
}

// Ceilings lists the ceilings set by commands, by name.
func (s Policies) Ceilings(ctx context.Context) ([]policyadmin.Ceiling, error) {
	return list(ctx, s.db, "reading the ceilings", func(r *Row) (policyadmin.Ceiling, error) {
		c := policyadmin.Ceiling{Name: r.Text(0), Allowed: r.Bool(1), At: r.Time(3), Reason: r.Text(4)}
		return c, c.By.UnmarshalText(r.Bytes(2))
	}, "SELECT name, allowed, set_by, at, reason FROM ceilings ORDER BY name")
}

// PutCeiling stores a ceiling with its event and replaces the ceiling of the same name. The store
// sets At.
func (s Policies) PutCeiling(ctx context.Context, c policyadmin.Ceiling, e event.Draft) (policyadmin.Ceiling, error) {
	_, err := s.db.Commit(ctx, Unit{
		Check: func(tx *Tx) error {
			c.At = tx.Now()
			if _, err := tx.Exec(`INSERT INTO ceilings (name, allowed, set_by, at, reason) VALUES (?1, ?2, ?3, ?4, ?5)
				ON CONFLICT (name) DO UPDATE SET allowed = ?2, set_by = ?3, at = ?4, reason = ?5`,
				c.Name, c.Allowed, c.By.String(), c.At, c.Reason); err != nil {
				return fmt.Errorf("keeping the ceiling of %s: %w", c.Name, err)
			}
			return nil
		},
		Events: []event.Draft{e},
	})
	return c, err
}

// Pins lists the stored tool definitions by name.
func (s Policies) Pins(ctx context.Context) ([]policyadmin.Pin, error) {
	return list(ctx, s.db, "reading the pins of tool definitions", func(r *Row) (policyadmin.Pin, error) {
		return policyadmin.Pin{Tool: r.Text(0), Digest: r.Text(1), Definition: r.Bytes(2), Refused: r.Text(3), At: r.Time(4)}, nil
	}, "SELECT tool, digest, definition, refused, at FROM pins ORDER BY tool")
}

// PutPins stores pins with their events and replaces the pins of the same tools. The store sets At.
func (s Policies) PutPins(ctx context.Context, pins []policyadmin.Pin, events ...event.Draft) error {
	_, err := s.db.Commit(ctx, Unit{
		Check: func(tx *Tx) error {
			for _, p := range pins {
				if _, err := tx.Exec(`INSERT INTO pins (tool, digest, definition, refused, at) VALUES (?1, ?2, ?3, ?4, ?5)
					ON CONFLICT (tool) DO UPDATE SET digest = ?2, definition = ?3, refused = ?4, at = ?5`,
					p.Tool, p.Digest, p.Definition, p.Refused, tx.Now()); err != nil {
					return fmt.Errorf("pinning tool %s: %w", p.Tool, err)
				}
			}
			return nil
		},
		Events: events,
	})
	return err
}
