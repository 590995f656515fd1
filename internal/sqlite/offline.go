package sqlite

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"os"

	"golang.org/x/mod/sumdb/note"

	zs "zombiezen.com/go/sqlite"

	"palyra/internal/journal"
	"palyra/internal/reason"
)

// OpenReadOnly opens an existing store for reading: with no daemon, or beside
// one. Nothing is verified, migrated or written; Commit refuses. Head is the
// one at the time of opening.
func OpenReadOnly(ctx context.Context, path string) (*DB, error) {
	if _, err := os.Stat(path); err != nil {
		return nil, openError(path, err)
	}
	if err := checkSchema(path); err != nil {
		return nil, err
	}
	pool, err := openReaders(path)
	if err != nil {
		return nil, err
	}
	db := &DB{path: path, pool: pool, log: journal.NewFeed()}
	head, err := db.storedHead(ctx)
	if err != nil {
		return nil, errors.Join(fmt.Errorf("reading the journal's head: %w", err), pool.Close())
	}
	db.log.Publish(head, nil)
	return db, nil
}

func checkSchema(path string) error {
	list, err := listMigrations()
	if err != nil {
		return err
	}
	conn, err := zs.OpenConn(path, zs.OpenReadOnly)
	if err != nil {
		return openError(path, err)
	}
	conn.SetBusyTimeout(busyTimeout)
	version, err := schemaVersion(conn, list[len(list)-1].version)
	if err == nil && version == 0 {
		err = reason.Errorf(reason.NotFound, "%s holds no journal", path)
	}
	return errors.Join(err, conn.Close())
}

// Verify verifies the store at path without a daemon and without changing it:
// the whole journal as journal.VerifyAll does, against the checkpoints that
// the caller remembers, and the content of every blob. Damage of the journal
// is a journal.CorruptError, of a blob reason.VerificationFailed.
func Verify(ctx context.Context, path, gateway string, known note.Verifiers, remembered ...journal.Checkpoint) (sum journal.Summary, err error) {
	db, err := OpenReadOnly(ctx, path)
	if err != nil {
		return journal.Summary{}, err
	}
	defer func() { err = errors.Join(err, db.Close(ctx)) }()
	if sum, err = journal.VerifyAll(ctx, db, gateway, known, remembered...); err != nil {
		return sum, err
	}
	return sum, db.verifyBlobs(ctx)
}

func (db *DB) verifyBlobs(ctx context.Context) error {
	return db.Read(ctx, func(c *Conn) error {
		return c.Query("SELECT digest, data FROM blobs", func(r *Row) error {
			want, got := r.Bytes(0), sha256.Sum256(r.Bytes(1))
			if string(want) != string(got[:]) {
				return reason.Errorf(reason.VerificationFailed, "blob %s%s does not have the content of its digest", digestPrefix, hex.EncodeToString(want))
			}
			return nil
		})
	})
}
