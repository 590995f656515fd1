package sqlite

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"strings"

	"palyra/internal/reason"
	"palyra/internal/toolcall"
)

// MaxBlob is the largest blob in bytes, 16 MiB.
const MaxBlob = toolcall.MaxBlob

const digestPrefix = "sha256:"

// PutBlob keeps data under its digest, "sha256:" and lower-case hex, and
// returns the digest. Data that is there already is not written again.
func (tx *Tx) PutBlob(data []byte) (digest string, err error) {
	if len(data) > MaxBlob {
		return "", reason.Errorf(reason.InputTooLarge, "a blob of %d bytes is larger than %d", len(data), MaxBlob)
	}
	sum := sha256.Sum256(data)
	if data == nil {
		data = []byte{}
	}
	_, err = tx.Exec("INSERT INTO blobs (digest, data) VALUES (?1, ?2) ON CONFLICT DO NOTHING", sum[:], data)
	if err != nil {
		return "", fmt.Errorf("storing a blob: %w", err)
	}
	return digestPrefix + hex.EncodeToString(sum[:]), nil
}

// Blob returns the data with a digest. It is reason.NotFound when there is
// none, and reason.VerificationFailed when the data no longer has the digest.
func (db *DB) Blob(ctx context.Context, digest string) (data []byte, err error) {
	err = db.Read(ctx, func(c *Conn) error {
		data, err = c.Blob(digest)
		return err
	})
	return data, err
}

// Blob is DB.Blob within a transaction.
func (c *Conn) Blob(digest string) (data []byte, err error) {
	text, ok := strings.CutPrefix(digest, digestPrefix)
	sum, err := hex.DecodeString(text)
	if !ok || err != nil || len(sum) != sha256.Size {
		return nil, reason.Errorf(reason.InvalidInput, "%q is not a digest: want sha256: and 64 hex digits", digest)
	}
	found, err := c.QueryRow("SELECT data FROM blobs WHERE digest = ?1", func(r *Row) error { data = r.Bytes(0); return nil }, sum)
	switch {
	case err != nil:
		return nil, fmt.Errorf("reading blob %s: %w", digest, err)
	case !found:
		return nil, reason.Errorf(reason.NotFound, "there is no blob %s", digest)
	case sha256.Sum256(data) != [32]byte(sum):
		return nil, reason.Errorf(reason.VerificationFailed, "blob %s does not have the content of its digest", digest)
	}
	return data, nil
}
