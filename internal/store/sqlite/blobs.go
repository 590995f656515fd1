package sqlite

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"strings"
	"time"

	"palyra/internal/call"
	"palyra/internal/core/reason"
	"palyra/internal/vault/atrest"
)

// MaxBlob is the largest blob in bytes, 16 MiB.
const MaxBlob = call.MaxBlob

const digestPrefix = "sha256:"

// keptAgain is the age from which storing a result again renews its retention period. A smaller
// value would cost a write for every repetition.
const keptAgain = time.Hour

// resultPlace returns the place of a result.
func resultPlace(digest [32]byte) atrest.Place { return atrest.Place{Table: "results", Digest: digest} }

// sealedBlob is a blob that is ready to be stored.
type sealedBlob struct {
	digest [32]byte
	key    string
	box    []byte
}

// sealBlobs seals blobs before the unit that stores them, so that no other unit waits for the
// encryption. reason.VaultLocked means that blobs cannot be stored.
func (db *DB) sealBlobs(ctx context.Context, blobs [][]byte) (list []sealedBlob, err error) {
	if len(blobs) == 0 {
		return nil, nil
	}
	if err := db.keys.Ready(ctx); err != nil {
		return nil, err
	}
	list = make([]sealedBlob, len(blobs))
	for i, data := range blobs {
		if len(data) > MaxBlob {
			return nil, reason.Errorf(reason.InputTooLarge, "a blob of %d bytes is larger than %d", len(data), MaxBlob)
		}
		b := &list[i]
		b.digest = sha256.Sum256(data)
		if b.key, b.box, err = db.keys.Seal(resultPlace(b.digest), data); err != nil {
			return nil, err
		}
	}
	return list, nil
}

// putBlobs stores blobs under their digests. A blob that already exists is written again only if it
// has expired or was stored more than keptAgain ago.
func (tx *Tx) putBlobs(blobs []sealedBlob) error {
	const put = `INSERT INTO results (digest, kept_at, key, box) VALUES (?1, ?2, ?3, ?4)
 ON CONFLICT (digest) DO UPDATE SET kept_at = ?2, key = ?3, box = ?4, expired_at = NULL WHERE expired_at IS NOT NULL OR kept_at < ?5`
	for i := range blobs {
		b := &blobs[i]
		if _, err := tx.Exec(put, b.digest[:], tx.Now(), b.key, b.box, tx.Now().Add(-keptAgain)); err != nil {
			return fmt.Errorf("storing a blob: %w", err)
		}
	}
	return nil
}

// Blob returns the data with a digest ("sha256:" and lower-case hex). It returns reason.NotFound
// for an unknown digest, reason.ResultExpired when only the digest is left, reason.VaultLocked
// while the data cannot be opened, and reason.VerificationFailed when the data does not match the
// digest.
func (db *DB) Blob(ctx context.Context, digest string) (data []byte, err error) {
	sum, err := parseDigest(digest)
	if err != nil {
		return nil, err
	}
	var key string
	var expired time.Time
	var found bool
	err = db.Read(ctx, func(c *Conn) error {
		found, err = c.QueryRow("SELECT key, box, expired_at FROM results WHERE digest = ?1", func(r *Row) error {
			key, data, expired = r.Text(0), r.Bytes(1), r.Time(2)
			return nil
		}, sum[:])
		return err
	})
	switch {
	case err != nil:
		return nil, fmt.Errorf("reading blob %s: %w", digest, err)
	case !found:
		return nil, reason.Errorf(reason.NotFound, "blob %s not found", digest)
	case !expired.IsZero():
		return nil, expiredError(digest, expired)
	}
	if data, err = db.keys.Open(ctx, resultPlace(sum), key, data); err != nil {
		return nil, err
	}
	if sha256.Sum256(data) != sum {
		return nil, reason.Errorf(reason.VerificationFailed, "blob %s does not have the content of its digest", digest)
	}
	return data, nil
}

func parseDigest(digest string) (sum [32]byte, err error) {
	text, ok := strings.CutPrefix(digest, digestPrefix)
	raw, err := hex.DecodeString(text)
	if !ok || err != nil || len(raw) != sha256.Size {
		return sum, reason.Errorf(reason.InvalidInput, "%q is not a digest: want sha256: and 64 hex digits", digest)
	}
	return [32]byte(raw), nil
}

// expiredError returns the error for data whose retention period is over.
func expiredError(what string, at time.Time) error {
	return reason.Errorf(reason.ResultExpired, "%s expired at %s: only its digest is kept", what, at.Format(time.RFC3339))
}
