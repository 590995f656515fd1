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

// One batch of the background is at most so many rows and about so many bytes, so
// that whoever commits meanwhile waits for little.
const (
	tendedRows  = 64
	tendedBytes = 1 << 20
	// pageSize is that of the file. Rows of the table probe above firstWipe are there
	// to fill free pages.
	pageSize  = 4096
	firstWipe = 1 << 20
)

// ResultsKey implements atrest.Store.
func (db *DB) ResultsKey(ctx context.Context, id string) (w atrest.Wrapped, err error) {
	err = db.Read(ctx, func(c *Conn) error {
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
func (db *DB) AddResultsKey(ctx context.Context, w atrest.Wrapped) error {
	_, err := db.Commit(ctx, Unit{Check: func(tx *Tx) error {
		_, err := tx.Exec("INSERT INTO results_keys (id, wrapped_by, box, made_at) VALUES (?1, ?2, ?3, ?4)", w.ID, w.By, w.Box, tx.Now())
		return err
	}})
	return err
}

// ResultsKeys are the keys of results for who replaces the key that wraps them.
type ResultsKeys struct{ db *DB }

var _ vault.Boxes = ResultsKeys{}

// ResultsKeys returns the keys of results.
func (db *DB) ResultsKeys() ResultsKeys { return ResultsKeys{db} }

// StaleBoxes lists the keys of results that another of the vault's keys wraps.
func (s ResultsKeys) StaleBoxes(ctx context.Context, current string, after vault.Box, limit int) ([]vault.Box, error) {
	return list(ctx, s.db, "listing the keys of results", func(r *Row) (vault.Box, error) {
		w := scanWrapped(r)
		return vault.Box{About: w.About(), KEK: w.By, Key: w.Box}, nil
	}, "SELECT id, wrapped_by, box FROM results_keys WHERE wrapped_by <> ?1 AND id > ?2 ORDER BY id LIMIT ?3",
		current, atrest.IDOf(after.About), limit)
}

// ReplaceBoxes keeps the keys of results as another of the vault's keys wraps them.
func (s ResultsKeys) ReplaceBoxes(ctx context.Context, old, fresh []vault.Box) error {
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

// UseVault gives what wraps the keys of results, where Options could not.
func (db *DB) UseVault(ring atrest.Ring) { db.keys.Use(ring) }

// KeepsResults reports whether what calls leave behind can be kept now, and
// ResultsProblem why not at the last try, nil when that was well.
func (db *DB) KeepsResults(ctx context.Context) error { return db.keys.Ready(ctx) }

// ResultsProblem is described at KeepsResults.
func (db *DB) ResultsProblem() error { return db.keys.Problem() }

// Seal seals a value in its place, as what calls leave behind is, and Unseal opens it.
func (db *DB) Seal(ctx context.Context, at atrest.Place, plain []byte) (key string, box []byte, err error) {
	if err := db.keys.Ready(ctx); err != nil {
		return "", nil, err
	}
	return db.keys.Seal(at, plain)
}

// Unseal is described at Seal.
func (db *DB) Unseal(ctx context.Context, at atrest.Place, key string, box []byte) ([]byte, error) {
	return db.keys.Open(ctx, at, key, box)
}

// ResultsOpened is closed once results can be kept.
func (db *DB) ResultsOpened() <-chan struct{} { return db.keys.Opened() }

// SealOlder seals some of what an older palyrad stored in plain, and reports whether
// there may be more. Each row goes in one transaction from there to here. KeepsResults
// has to have succeeded.
func (db *DB) SealOlder(ctx context.Context) (more bool, err error) {
	for _, part := range []func(context.Context) (bool, error){db.wipeFreePages, db.sealOlderBlobs, db.sealOlderApprovals, db.renewBlobs} {
		if more, err := part(ctx); err != nil || more {
			return more, err
		}
	}
	return false, nil
}

func (db *DB) sealOlderBlobs(ctx context.Context) (any bool, err error) {
	var plain [][]byte
	var digests [][]byte
	size := 0
	err = db.Read(ctx, func(c *Conn) error {
		return c.Query("SELECT digest, data FROM blobs LIMIT ?1", func(r *Row) error {
			if size < tendedBytes {
				digests, plain = append(digests, r.Bytes(0)), append(plain, r.Bytes(1))
			}
			size += r.s.ColumnLen(1)
			return nil
		}, tendedRows)
	})
	if err != nil || len(plain) == 0 {
		return false, err
	}
	db.tended("read")
	sealed := make([]sealedBlob, len(plain))
	for i, data := range plain {
		b := &sealed[i]
		// It goes under the digest that it had: one that does not fit is damage of
		// before, and stays damage.
		copy(b.digest[:], digests[i])
		if b.key, b.box, err = db.keys.Seal(resultPlace(b.digest), data); err != nil {
			return false, err
		}
	}
	db.tended("sealed")
	_, err = db.Commit(ctx, Unit{Check: func(tx *Tx) error {
		if err := tx.putBlobs(sealed); err != nil {
			return err
		}
		db.tended("stored")
		for _, digest := range digests {
			if _, err := tx.Exec("DELETE FROM blobs WHERE digest = ?1", digest); err != nil {
				return fmt.Errorf("removing a plain blob: %w", err)
			}
		}
		db.tended("removed")
		return nil
	}})
	db.tended("committed")
	return true, err
}

func (db *DB) sealOlderApprovals(ctx context.Context) (any bool, err error) {
	var rows []storedApproval
	err = db.Read(ctx, func(c *Conn) error {
		rows, err = c.storedApprovals("SELECT " + approvalColumns + ", request FROM approvals WHERE payload_key IS NULL LIMIT 16")
		return err
	})
	if err != nil || len(rows) == 0 {
		return false, err
	}
	_, err = db.Commit(ctx, Unit{Check: func(tx *Tx) error {
		for i := range rows {
			if err := db.sealOlderApproval(tx, &rows[i]); err != nil {
				return err
			}
			db.tended("approval stored")
		}
		return nil
	}})
	db.tended("approvals committed")
	return true, err
}

// tended tells a test how far the background is.
func (db *DB) tended(step string) {
	if db.onTended != nil {
		db.onTended(step)
	}
}

// sealOlderApproval does nothing when the row has changed since it was read.
func (db *DB) sealOlderApproval(tx *Tx, s *storedApproval) error {
	rec, err := approval.DecodeRecord(s.body, s.request)
	sealed, body := sealedApproval{}, s.body
	switch {
	case err != nil: // damage of before: it is sealed as it is, and stays damage
		body = []byte("{}")
		sealed, err = db.sealBytes(s.id, s.body, s.request)
	case rec.Sealed():
		if body, err = approval.EncodeOutline(rec); err == nil {
			sealed, err = db.sealApproval(&rec)
		}
	}
	if err != nil {
		return err
	}
	// It moves to the table's end: a page that all rows have left is overwritten as a
	// whole, with the traces that rows have left in it since long.
	_, err = tx.Exec(`UPDATE approvals SET rowid = (SELECT max(rowid) FROM approvals) + 1, body = ?1, request = ?2, payload = ?3, payload_digest = ?4, payload_key = ?5
 WHERE id = ?6 AND payload_key IS NULL AND body = ?7 AND request IS ?8`,
		body, sealed.requestOr(s.request), sealed.payload, sealed.digest, sealed.key, s.id, s.body, s.request)
	return err
}

// wipeFreePages overwrites pages that were freed before the store overwrote what it
// frees: it takes them into use, filled with zeros, and frees them again.
func (db *DB) wipeFreePages(ctx context.Context) (more bool, err error) {
	return db.once(ctx, "free pages", func(tx *Tx) (done bool, err error) {
		var free int64
		if _, err := tx.QueryRow("PRAGMA freelist_count", func(r *Row) error { free = r.Int64(0); return nil }); err != nil {
			return false, err
		}
		if free > 0 {
			_, err = tx.Exec("INSERT INTO probe (id, pad) SELECT max(coalesce(max(id), 0), ?1) + 1, zeroblob(?2) FROM probe", firstWipe, min(free*pageSize, tendedBytes))
			return false, err
		}
		_, err = tx.Exec("DELETE FROM probe WHERE id > ?1", firstWipe)
		return true, err
	})
}

// renewBlobs makes the table anew from which all has gone.
func (db *DB) renewBlobs(ctx context.Context) (more bool, err error) {
	return db.once(ctx, "blobs", func(tx *Tx) (done bool, err error) {
		if left, err := tx.QueryRow("SELECT 1 FROM blobs LIMIT 1", func(*Row) error { return nil }); err != nil || left {
			return false, err
		}
		for _, sql := range []string{"DROP TABLE blobs", "CREATE TABLE blobs (digest BLOB PRIMARY KEY, data BLOB NOT NULL) STRICT"} {
			if _, err := tx.Exec(sql); err != nil {
				return false, err
			}
		}
		return true, nil
	})
}

// once has something done until it is, over as many units as that takes. more is
// false when it was done before.
func (db *DB) once(ctx context.Context, what string, do func(*Tx) (done bool, err error)) (more bool, err error) {
	_, err = db.Commit(ctx, Unit{Check: func(tx *Tx) error {
		more, err = tx.QueryRow("SELECT 1 FROM untended WHERE what = ?1", func(*Row) error { return nil }, what)
		if err != nil || !more {
			return err
		}
		done, err := do(tx)
		if err == nil && done {
			_, err = tx.Exec("DELETE FROM untended WHERE what = ?1", what)
		}
		return err
	}})
	return more && err == nil, err
}

// ExpireResults takes the bytes of some of what was kept before a time, and reports
// whether there may be more. Digests stay, and so does what an approval needs that can
// still be answered or used.
func (db *DB) ExpireResults(ctx context.Context, before time.Time) (more bool, err error) {
	before = before.Add(-keptAgain) // storing it once more may not have been noted
	var old [][]byte
	var ids []string
	size := 0
	err = db.Read(ctx, func(c *Conn) error {
		err := c.Query("SELECT digest, length(box) FROM results WHERE expired_at IS NULL AND kept_at < ?1 ORDER BY kept_at LIMIT ?2", func(r *Row) error {
			if size < tendedBytes {
				old = append(old, r.Bytes(0))
			}
			size += r.Int(1)
			return nil
		}, before, tendedRows)
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
	_, err = db.Commit(ctx, Unit{Check: func(tx *Tx) error {
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

// Scrub takes out of the WAL what is no longer in the tables: it moves the WAL into the
// file and empties it. done is false when readers were in the way; it waits for none,
// since writers would wait with it.
func (db *DB) Scrub() (done bool, err error) {
	w := db.writer
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

// approvalColumns are what storedApprovals reads, before the request or NULL.
const approvalColumns = "id, body, payload, payload_digest, coalesce(payload_key, '')"

// storedApproval is a row before what is sealed of it was opened.
type storedApproval struct {
	id                             string
	body, payload, digest, request []byte
	// key is "" when nothing is sealed.
	key string
}

func scanApproval(r *Row) storedApproval {
	return storedApproval{id: r.Text(0), body: r.Bytes(1), payload: r.Bytes(2), digest: r.Bytes(3), key: r.Text(4), request: r.Bytes(5)}
}

// opener opens what was sealed; a writer's unit, which may not wait, has another.
type opener func(at atrest.Place, key string, box []byte) ([]byte, error)

func (a *Approvals) opener(ctx context.Context) opener {
	return func(at atrest.Place, key string, box []byte) ([]byte, error) {
		return a.db.keys.Open(ctx, at, key, box)
	}
}

// record decodes the row. What cannot be opened is withheld: a page has its other rows,
// and a record its state.
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
		return reason.Errorf(reason.ResultExpired, "what approval %s showed is not kept any more", s.id)
	}
	if len(s.digest) != sha256.Size {
		return reason.Errorf(reason.VerificationFailed, "approval %s is damaged: the digest of what it showed is none", s.id)
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

// sealedApproval is what of an approval is stored sealed.
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

// sealApproval seals what people are shown of r.
func (db *DB) sealApproval(r *approval.Record) (sealedApproval, error) {
	plain, err := approval.EncodePayload(*r)
	if err != nil {
		return sealedApproval{}, err
	}
	return db.sealBytes(r.ID, plain, r.Request)
}

func (db *DB) sealBytes(id string, plain, request []byte) (s sealedApproval, err error) {
	digest := sha256.Sum256(plain)
	s.digest = digest[:]
	if s.key, s.payload, err = db.keys.Seal(payloadPlace(id, digest), plain); err != nil || len(request) == 0 {
		return s, err
	}
	_, s.request, err = db.keys.Seal(requestPlace(id, digest), request)
	return s, err
}

// payloadPlace and requestPlace are where the sealed parts of an approval stand. Both
// are bound to the digest of the payload.
func payloadPlace(id string, digest [32]byte) atrest.Place {
	return atrest.Place{Table: "approvals.payload", Row: id, Digest: digest}
}

func requestPlace(id string, digest [32]byte) atrest.Place {
	return atrest.Place{Table: "approvals.request", Row: id, Digest: digest}
}
