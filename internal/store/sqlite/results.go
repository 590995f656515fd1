package sqlite

import (
	"context"
	"crypto/sha256"
	"fmt"
	"time"

	zs "zombiezen.com/go/sqlite"

	"palyra/internal/call/approval"
	"palyra/internal/core/reason"
	"palyra/internal/vault"
	"palyra/internal/vault/atrest"
)

// Limits of one background batch in rows and (roughly) bytes, so that concurrent commits wait only
// briefly.
const (
	batchRows  = 64
	batchBytes = 1 << 20
)

// Results are the results of calls in the embedded store, and the keys that seal them.
type Results struct{ db *DB }

var (
	_ atrest.Store = Results{}
	_ vault.Boxes  = Results{}
)

// NewResults returns the results in db.
func NewResults(db *DB) Results { return Results{db} }

// ResultsKey implements atrest.Store.
func (s Results) ResultsKey(ctx context.Context, id string) (w atrest.Wrapped, err error) {
	err = s.db.Read(ctx, func(c *Conn) error {
		_, err := c.QueryRow("SELECT id, wrapped_by, box FROM results_keys WHERE ?1 = '' OR id = ?1 ORDER BY id DESC LIMIT 1",
			func(r *Row) error { w = scanWrapped(r); return nil }, id)
		return err
	})
	return w, err
}

func scanWrapped(r *Row) atrest.Wrapped {
	return atrest.Wrapped{ID: r.Text(0), By: r.Text(1), Box: r.Bytes(2)}
}

// AddResultsKey implements atrest.Store.
func (s Results) AddResultsKey(ctx context.Context, w atrest.Wrapped) error {
	_, err := s.db.Commit(ctx, Unit{Check: func(tx *Tx) error {
		_, err := tx.Exec("INSERT INTO results_keys (id, wrapped_by, box, made_at) VALUES (?1, ?2, ?3, ?4)", w.ID, w.By, w.Box, tx.Now())
		return err
	}})
	return err
}

// StaleBoxes lists the keys of results that are not wrapped by the vault's current key.
func (s Results) StaleBoxes(ctx context.Context, current string, after vault.Box, limit int) ([]vault.Box, error) {
	return list(ctx, s.db, "listing the keys of results", func(r *Row) (vault.Box, error) {
		w := scanWrapped(r)
		return vault.Box{About: w.About(), KEK: w.By, Key: w.Box}, nil
	}, "SELECT id, wrapped_by, box FROM results_keys WHERE wrapped_by <> ?1 AND id > ?2 ORDER BY id LIMIT ?3",
		current, atrest.IDOf(after.About), limit)
}

// ReplaceBoxes stores the keys of results, wrapped by another key of the vault.
func (s Results) ReplaceBoxes(ctx context.Context, old, fresh []vault.Box) error {
	_, err := s.db.Commit(ctx, Unit{Check: func(tx *Tx) error {
		for i, b := range fresh {
			if _, err := tx.Exec("UPDATE results_keys SET wrapped_by = ?1, box = ?2 WHERE id = ?3 AND wrapped_by = ?4 AND box = ?5",
				b.KEK, b.Key, atrest.IDOf(b.About), old[i].KEK, old[i].Key); err != nil {
				return fmt.Errorf("replacing the key of %s: %w", b.About, err)
			}
		}
		return nil
	}})
	return err
}

// UseVault sets the key wrapping for results if Options did not.
func (s Results) UseVault(ring atrest.Ring) { s.db.keys.Use(ring) }

// KeepsResults returns nil if results of calls can be stored now. ResultsProblem returns the
// error of the last attempt, or nil if it succeeded.
func (s Results) KeepsResults(ctx context.Context) error { return s.db.keys.Ready(ctx) }

// ResultsProblem is described at KeepsResults.
func (s Results) ResultsProblem() error { return s.db.keys.Problem() }

// Seal seals a value for its place with the key of results; Unseal opens it.
func (s Results) Seal(ctx context.Context, at atrest.Place, plain []byte) (key string, box []byte, err error) {
	if err := s.db.keys.Ready(ctx); err != nil {
		return "", nil, err
	}
	return s.db.keys.Seal(at, plain)
}

// Unseal is described at Seal.
func (s Results) Unseal(ctx context.Context, at atrest.Place, key string, box []byte) ([]byte, error) {
	return s.db.keys.Open(ctx, at, key, box)
}

// ResultsOpened returns a channel that is closed once results can be stored.
func (s Results) ResultsOpened() <-chan struct{} { return s.db.keys.Opened() }

// ExpireResults deletes the bytes of some results stored before a time, and reports whether more
// may remain. It keeps the digests, and the data of approvals that can still be answered or used.
func (s Results) ExpireResults(ctx context.Context, before time.Time) (more bool, err error) {
	before = before.Add(-keptAgain) // storing it once more may not have been noted
	var old [][]byte
	var ids []string
	size := 0
	err = s.db.Read(ctx, func(c *Conn) error {
		err := c.Query("SELECT digest, length(box) FROM results WHERE expired_at IS NULL AND kept_at < ?1 ORDER BY kept_at LIMIT ?2", func(r *Row) error {
			if size < batchBytes {
				old = append(old, r.Bytes(0))
			}
			size += r.Int(1)
			return nil
		}, before, batchRows)
		if err != nil {
			return err
		}
		return c.Query(`SELECT id FROM approvals WHERE payload_key <> '' AND length(payload) > 0 AND created_at < ?1
 AND state NOT IN ('pending', 'allowed') ORDER BY created_at LIMIT 16`,
			func(r *Row) error { ids = append(ids, r.Text(0)); return nil }, before)
	})
	if err != nil || len(old)+len(ids) == 0 {
		return false, err
	}
	_, err = s.db.Commit(ctx, Unit{Check: func(tx *Tx) error {
		for _, digest := range old {
			if _, err := tx.Exec("UPDATE results SET box = x'', expired_at = ?1 WHERE digest = ?2 AND kept_at < ?3", tx.Now(), digest, before); err != nil {
				return fmt.Errorf("expiring a result: %w", err)
			}
		}
		for _, id := range ids {
			if _, err := tx.Exec("UPDATE approvals SET payload = x'', request = NULL WHERE id = ?1", id); err != nil {
				return fmt.Errorf("expiring what an approval showed: %w", err)
			}
		}
		return nil
	}})
	return true, err
}

// Scrub removes deleted data from the WAL: it moves the WAL into the file and empties it. done is
// false if readers prevented it. Scrub does not wait for readers, because writers would wait too.
func (s Results) Scrub() (done bool, err error) {
	w := s.db.writer
	w.connMu.Lock()
	defer w.connMu.Unlock()
	w.conn.SetBusyTimeout(0)
	defer w.conn.SetBusyTimeout(busyTimeout)
	c := Conn{c: w.conn}
	err = c.Query("PRAGMA wal_checkpoint(TRUNCATE)", func(r *Row) error { done = r.Int(0) == 0; return nil })
	if zs.ErrCode(err).ToPrimary() == zs.ResultBusy {
		return false, nil
	}
	return done && err == nil, err
}

// approvalColumns are the columns that storedApprovals reads, followed by the request or NULL.
const approvalColumns = "id, body, payload, payload_digest, coalesce(payload_key, '')"

// storedApproval is a row whose sealed part has not been opened yet.
type storedApproval struct {
	id                             string
	body, payload, digest, request []byte
	// key is "" if the row has no sealed part.
	key string
}

func scanApproval(r *Row) storedApproval {
	return storedApproval{id: r.Text(0), body: r.Bytes(1), payload: r.Bytes(2), digest: r.Bytes(3), key: r.Text(4), request: r.Bytes(5)}
}

// opener opens sealed data. A writer's unit, which MUST NOT block, uses keys.OpenKnown.
type opener func(at atrest.Place, key string, box []byte) ([]byte, error)

func (a *Approvals) opener(ctx context.Context) opener {
	return func(at atrest.Place, key string, box []byte) ([]byte, error) {
		return a.db.keys.Open(ctx, at, key, box)
	}
}

// record decodes the row. Data that cannot be opened is withheld: a page still returns its other
// rows, and the record its state.
func (s *storedApproval) record(open opener) (approval.Record, error) {
	if s.key == "" {
		return approval.DecodeRecord(s.body, s.request)
	}
	rec, err := approval.DecodeRecord(s.body, nil)
	if err != nil {
		return rec, err
	}
	if err := s.complete(&rec, open); err != nil {
		if reason.Of(err) == reason.Internal {
			return rec, fmt.Errorf("reading approval %s: %w", s.id, err)
		}
		rec.Withhold(err)
	}
	return rec, nil
}

func (s *storedApproval) complete(rec *approval.Record, open opener) error {
	if len(s.payload) == 0 {
		return reason.Errorf(reason.ResultExpired, "the displayed content of approval %s is no longer stored", s.id)
	}
	if len(s.digest) != sha256.Size {
		return reason.Errorf(reason.VerificationFailed, "approval %s is damaged: the digest of its displayed text is invalid", s.id)
	}
	digest := [sha256.Size]byte(s.digest)
	plain, err := open(payloadPlace(s.id, digest), s.key, s.payload)
	if err == nil {
		err = rec.Complete(plain)
	}
	if err == nil && len(s.request) > 0 {
		rec.Request, err = open(requestPlace(s.id, digest), s.key, s.request)
	}
	return err
}

// sealedApproval is the sealed part of an approval.
type sealedApproval struct {
	payload, digest, request []byte
	key                      string
}

func (s *sealedApproval) requestOr(plain []byte) []byte {
	if s.key == "" {
		return plain
	}
	return s.request
}

// sealApproval seals the displayed text of r.
func sealApproval(keys *atrest.Keys, r *approval.Record) (sealedApproval, error) {
	plain, err := approval.EncodePayload(*r)
	if err != nil {
		return sealedApproval{}, err
	}
	return sealBytes(keys, r.ID, plain, r.Request)
}

func sealBytes(keys *atrest.Keys, id string, plain, request []byte) (s sealedApproval, err error) {
	digest := sha256.Sum256(plain)
	s.digest = digest[:]
	if s.key, s.payload, err = keys.Seal(payloadPlace(id, digest), plain); err != nil || len(request) == 0 {
		return s, err
	}
	_, s.request, err = keys.Seal(requestPlace(id, digest), request)
	return s, err
}

// payloadPlace and requestPlace return the places of the sealed parts of an approval. Both are
// bound to the digest of the payload.
func payloadPlace(id string, digest [32]byte) atrest.Place {
	return atrest.Place{Table: "approvals.payload", Row: id, Digest: digest}
}

func requestPlace(id string, digest [32]byte) atrest.Place {
	return atrest.Place{Table: "approvals.request", Row: id, Digest: digest}
}
