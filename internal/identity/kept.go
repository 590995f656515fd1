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

	"palyra/internal/core/reason"
	"palyra/internal/core/statedir/keyfile"
	"palyra/internal/identity/keptkey"
)

// keptFile replaces key.pem in a bundle whose key is stored elsewhere. If both exist, the change
// was interrupted, and key.pem is valid.
const keptFile = "key.kept"

// lockedKey is the locked key of a bundle: its public key is known, and it cannot sign.
type lockedKey struct{ kept *keptkey.Kept }

// Public implements crypto.Signer.
func (k lockedKey) Public() crypto.PublicKey { return k.kept.Public() }

// Sign implements crypto.Signer.
func (k lockedKey) Sign(io.Reader, []byte, crypto.SignerOpts) ([]byte, error) {
	return nil, reason.Errorf(reason.NotConnected, "the key of the credential bundle is locked (%s)", k.kept.Place)
}

// readKept returns the location of a bundle's key; fs.ErrNotExist if it is not recorded.
func readKept(dir string) (*keptkey.Kept, error) {
	text, err := keyfile.Read(filepath.Join(dir, keptFile))
	if err != nil {
		return nil, err
	}
	return keptkey.Read(text)
}

// KeptIn returns the location of a bundle's key; nil if the key is in a file of the bundle, or
// missing.
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

// holdsKey reports whether a PEM file contains a private key.
func holdsKey(text []byte) bool {
	for block, rest := pem.Decode(text); block != nil; block, rest = pem.Decode(rest) {
		if block.Type == keyfile.KeyBlock {
			return true
		}
	}
	return false
}

// Keep removes the key from a bundle. The caller MUST have verified that the key is stored
// elsewhere. The bundle then records the location, and none of its files contains the key.
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

// Unkeep stores the key in its bundle as a file again.
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
