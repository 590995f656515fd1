package identity

import (
	"context"
	"crypto"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"

	"palyra/internal/core/canonical"
	"palyra/internal/core/reason"
	"palyra/internal/core/statedir/keyfile"
	"palyra/internal/identity/keptkey"
)

// keptFile stands in a bundle in place of key.pem when the key is kept elsewhere.
// Where both are there, somebody was interrupted between the two, and key.pem counts.
const keptFile = "key.kept"

// lockedKey is the key of a bundle that nobody has unlocked: it is known whose it is,
// and it signs nothing.
type lockedKey struct{ kept *keptkey.Kept }

// Public implements crypto.Signer.
func (k lockedKey) Public() crypto.PublicKey { return k.kept.Public() }

// Sign implements crypto.Signer.
func (k lockedKey) Sign(io.Reader, []byte, crypto.SignerOpts) ([]byte, error) {
	return nil, reason.Errorf(reason.NotConnected, "the key of the credential bundle is locked (%s)", k.kept.Place)
}

// readKept says where the key of a bundle is kept; fs.ErrNotExist when no file says so.
func readKept(dir string) (*keptkey.Kept, error) {
	text, err := keyfile.Read(filepath.Join(dir, keptFile))
	if err != nil {
		return nil, err
	}
	return keptkey.Read(text)
}

// KeptIn says where the key of a bundle is kept; nil when it lies there in a file, or
// there is none.
func KeptIn(dir string) (*keptkey.Kept, error) {
	for _, name := range []string{keyName, certFile} {
		text, err := os.ReadFile(filepath.Join(dir, name))
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return nil, err
		}
		if holdsKey(text) {
			return nil, nil
		}
	}
	k, err := readKept(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	return k, err
}

// holdsKey reports whether there is a private key in a PEM file.
func holdsKey(text []byte) bool {
	for block, rest := pem.Decode(text); block != nil; block, rest = pem.Decode(rest) {
		if block.Type == keyfile.KeyBlock {
			return true
		}
	}
	return false
}

// Keep takes the key out of a bundle once it is kept elsewhere, which the caller has
// tried: from now on the bundle says where, and no file of it has the key.
func Keep(ctx context.Context, dir string, k *keptkey.Kept) (err error) {
	release, err := lockBundle(ctx, dir, true)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, release()) }()
	b, err := ReadBundle(dir)
	if err != nil {
		return err
	}
	if !isOf(b.Chain[0], lockedKey{k}) {
		return reason.Errorf(reason.InvalidInput, "the credential bundle got another key meanwhile").WithRemedy("Try again.")
	}
	text, err := k.Text()
	if err != nil {
		return fmt.Errorf("noting where the key is kept: %w", err)
	}
	if err := keyfile.Write(filepath.Join(dir, keptFile), text); err != nil {
		return err
	}
	if err := keyfile.Write(filepath.Join(dir, certFile), certificates(b.Chain...)); err != nil {
		return err
	}
	// A write that was killed may have left the key in a file of another name.
	if err := keyfile.Sweep(dir, keyName, certFile); err != nil {
		return err
	}
	return withoutFile(dir, keyName)
}

// Unkeep puts the key back into its bundle as a file.
func Unkeep(ctx context.Context, dir string, key crypto.Signer) (err error) {
	release, err := lockBundle(ctx, dir, true)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, release()) }()
	b, err := ReadBundle(dir)
	if err != nil {
		return err
	}
	b.Key, b.Kept = key, nil
	if err := WriteBundle(dir, b); err != nil {
		return err
	}
	return withoutFile(dir, keptFile)
}

func withoutFile(dir, name string) error {
	if err := os.Remove(filepath.Join(dir, name)); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("removing %s from the credential bundle: %w", name, err)
	}
	return keyfile.SyncDir(dir)
}

// startKept reissues the certificate of the local device for the key that it has, whose
// private half palyrad does not see. It makes no other key: whoever put the key
// elsewhere does not want it as a file.
func (s *Service) startKept(ctx context.Context, c LocalConfig, dev Device, kept *keptkey.Kept) (Device, bool, error) {
	if kept == nil || dev.ID == "" || dev.KeySHA256 != canonical.Digest(kept.PublicKey) {
		return dev, false, nil
	}
	cert, err := s.authority.ReissueDevice(kept.Public(), dev.ID)
	if err == nil {
		cert, err = s.recertified(ctx, dev, cert)
	}
	if err != nil {
		return Device{}, false, err
	}
	dev, _ = s.Device(dev.ID)
	return dev, true, WriteBundle(c.Dir, Bundle{
		Root: s.authority.Root(), Chain: cert.Chain, Kept: kept, Address: c.Address, ServerName: c.ServerName,
	})
}
