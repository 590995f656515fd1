package sqlite

import (
	"context"
	"fmt"
	"time"

	"palyra/internal/call"
	"palyra/internal/core/access"
	"palyra/internal/core/reason"
	"palyra/internal/evidence/attest"
	"palyra/internal/evidence/journal"
)

// Calls is the ledger of the pipeline: the journal with the rows that commit
// together with its events.
type Calls struct{ db *DB }

var _ call.Ledger = (*Calls)(nil)

// NewCalls returns the ledger over db.
func NewCalls(db *DB) *Calls { return &Calls{db: db} }

// Record makes the entry durable in one transaction and returns the sequence
// number of its last event.
func (s *Calls) Record(ctx context.Context, e call.Entry) (int64, error) {
	blobs, err := s.db.sealBlobs(ctx, e.Blobs)
	if err != nil {
		return 0, err
	}
	attestation := storedAttestation(e)
	events, err := s.db.Commit(ctx, Unit{
		Check:  func(tx *Tx) error { return writeEntry(tx, e, blobs, attestation) },
		Events: e.Drafts,
		Bytes:  sizeOf(e.Blobs, attestation),
	})
	if err != nil || len(events) == 0 {
		return 0, err
	}
	return events[len(events)-1].Seq, nil
}

// sizeOf returns the number of bytes an entry writes in addition to its events.
func sizeOf(blobs [][]byte, attestation *attest.Stored) (n int64) {
	for _, blob := range blobs {
		n += int64(len(blob))
	}
	if attestation != nil {
		n += int64(len(attestation.Envelope))
	}
	return n
}

func writeEntry(tx *Tx, e call.Entry, blobs []sealedBlob, attestation *attest.Stored) error {
	if e.Claim != nil {
		if err := takeClaim(tx, *e.Claim); err != nil {
			return err
		}
	}
	if e.Member != nil {
		if err := joinSession(tx, e.Member); err != nil {
			return err
		}
	}
	if err := tx.putBlobs(blobs); err != nil {
		return err
	}
	if attestation != nil {
		return putAttestation(tx, attestation)
	}
	return nil
}

// takeClaim reserves a key, after deleting expired keys.
func takeClaim(tx *Tx, c call.Claim) error {
	if _, err := tx.Exec("DELETE FROM claims WHERE at < ?1", tx.Now().Add(-call.ClaimLife)); err != nil {
		return fmt.Errorf("forgetting old idempotency keys: %w", err)
	}
	changed, err := tx.Exec(`INSERT INTO claims (principal, key, digest, proposal_id, at) VALUES (?1, ?2, ?3, ?4, ?5)
 ON CONFLICT DO UPDATE SET proposal_id = ?4, at = ?5 WHERE proposal_id = ?6 AND digest = ?3`,
		c.Principal.String(), c.Key, c.Digest, c.ProposalID, c.At, c.Replaces)
	if err != nil {
		return fmt.Errorf("claiming an idempotency key: %w", err)
	}
	if changed == 0 {
		return reason.Errorf(reason.IdempotencyMismatch, "idempotency key %q was claimed by another call", c.Key)
	}
	return nil
}

// Claimed returns the claim of a key that has not expired.
func (s *Calls) Claimed(ctx context.Context, p access.Principal, key string) (claim call.Claim, found bool, err error) {
	err = s.db.Read(ctx, func(c *Conn) error {
		found, err = c.QueryRow("SELECT digest, proposal_id, at FROM claims WHERE principal = ?1 AND key = ?2 AND at >= ?3",
			func(r *Row) error {
				claim = call.Claim{Principal: p, Key: key, Digest: r.Text(0), ProposalID: r.Text(1), At: r.Time(2)}
				return nil
			}, p.String(), key, time.Now().Add(-call.ClaimLife))
		return err
	})
	return claim, found, err
}

// Ready reports whether results of calls can be stored.
func (s *Calls) Ready(ctx context.Context) error { return s.db.keys.Ready(ctx) }

// Head returns the number and the hash of the newest durable event, from memory.
func (s *Calls) Head() (size int64, hash [32]byte) {
	head := s.db.Head()
	return head.Seq, head.Hash
}

// OpenCalls lists the calls that were decided and have not ended.
func (s *Calls) OpenCalls(ctx context.Context) (open []call.OpenCall, err error) {
	err = s.db.Read(ctx, func(c *Conn) error {
		return c.Query("SELECT proposal_id, session, run, actor FROM open_calls ORDER BY proposal_id", func(r *Row) error {
			open = append(open, call.OpenCall{ProposalID: r.Text(0), Session: r.Text(1), Run: r.Text(2), Actor: r.Text(3)})
			return nil
		})
	})
	return open, err
}

// Events returns a page of the events that match the filter.
func (s *Calls) Events(ctx context.Context, f journal.Filter) ([]journal.Event, error) {
	return s.db.Events(ctx, f)
}

// Blob returns the data with a digest.
func (s *Calls) Blob(ctx context.Context, digest string) ([]byte, error) {
	return s.db.Blob(ctx, digest)
}
