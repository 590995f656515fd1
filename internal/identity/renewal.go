package identity

import (
	"context"
	"crypto"
	"crypto/x509"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"palyra/internal/core/filelock"
	"palyra/internal/core/reason"
	"palyra/internal/core/statedir/keyfile"
)

// lockFile is locked while a bundle is renewed.
const lockFile = ".lock"

// ErrRenewing means that another process renews the bundle.
var ErrRenewing = errors.New("another process renews the credential bundle")

// lockPoll is the interval between attempts to acquire a lock held by another process.
const lockPoll = 20 * time.Millisecond

// Renewal configures the renewal of a bundle's key.
type Renewal struct {
	Dir string
	// Due reports whether the bundle, as read under the lock, needs renewal: another process may
	// have renewed it meanwhile.
	Due func(Bundle) bool
	// Wait makes the renewal wait for another process that renews; otherwise the error is
	// ErrRenewing.
	Wait bool
	// Certify gets a certificate for a request (PKCS #10, PEM), with the current bundle.
	Certify func(ctx context.Context, b Bundle, csr []byte) ([]*x509.Certificate, error)
	// reached is called at each step, by tests.
	reached func(step string)
}

// RenewBundle creates and certifies a new key for a bundle, and returns the bundle. The old key
// is valid until the new one is used, so that an interruption at the gateway or here leaves a
// working bundle.
func RenewBundle(ctx context.Context, r Renewal) (b Bundle, err error) {
	if r.reached == nil {
		r.reached = func(string) {}
	}
	release, err := lockBundle(ctx, r.Dir, r.Wait)
	if err != nil {
		return Bundle{}, fmt.Errorf("renewing credential bundle: %w", err)
	}
	defer func() { err = errors.Join(err, release()) }()
	r.reached("locked")
	if b, err = ReadBundle(r.Dir); err != nil || !r.Due(b) {
		return b, err
	}
	next := b
	if next.Key, err = NewKey(); err != nil {
		return b, err
	}
	csr, err := Request(next.Key)
	if err != nil {
		return b, err
	}
	r.reached("asking")
	if next.Chain, err = r.Certify(ctx, b, csr); err != nil {
		return b, err
	}
	r.reached("certified")
	if !isOf(next.Chain[0], next.Key) {
		return b, reason.Errorf(reason.VerificationFailed, "the gateway's new certificate is for another key")
	}
	if err := writeBundle(r.Dir, next, r.reached); err != nil {
		return b, err
	}
	return ReadBundle(r.Dir)
}

// isOf reports whether a certificate is for a key.
func isOf(c *x509.Certificate, key crypto.Signer) bool {
	pub, ok := key.Public().(interface{ Equal(crypto.PublicKey) bool })
	return ok && pub.Equal(c.PublicKey)
}

// lockBundle takes the lock of a bundle's directory.
func lockBundle(ctx context.Context, dir string, wait bool) (release func() error, err error) {
	if err := keyfile.CheckDir(dir); err != nil {
		return nil, err
	}
	f, err := os.OpenFile(filepath.Join(dir, lockFile), os.O_RDWR|os.O_CREATE, keyfile.FileMode)
	if err != nil {
		return nil, err
	}
	for {
		err := filelock.Try(f)
		if err == nil {
			return func() error { return errors.Join(filelock.Release(f), f.Close()) }, nil
		}
		if !errors.Is(err, filelock.ErrHeld) {
			return nil, errors.Join(err, f.Close())
		}
		if !wait {
			return nil, errors.Join(ErrRenewing, f.Close())
		}
		select {
		case <-ctx.Done():
			return nil, errors.Join(ctx.Err(), f.Close())
		case <-time.After(lockPoll):
		}
	}
}
