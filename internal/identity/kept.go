package identity

import (
	"context"
	"crypto"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"

	"palyra/internal/canonical"
	"palyra/internal/identity/keptkey"
	"palyra/internal/identity/keyfile"
	"palyra/internal/reason"
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

// KeptIn says where the key of a bundle is kept; nil when it lies there as a file, or
// there is none.
func KeptIn(dir string) (*keptkey.Kept, error) {
	if _, err := os.Lstat(filepath.Join(dir, keyName)); err == nil {
		return nil, nil
	}
	k, err := readKept(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	return k, err
}

// Keep takes the key out of a bundle once it is kept elsewhere, which the caller has
// tried: from now on the bundle says where.
func Keep(dir string, k *keptkey.Kept) error {
	text, err := k.Text()
	if err != nil {
		return fmt.Errorf("noting where the key is kept: %w", err)
	}
	if err := keyfile.Write(filepath.Join(dir, keptFile), text); err != nil {
		return err
	}
	if err := os.Remove(filepath.Join(dir, keyName)); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("removing the key's file: %w", err)
	}
	return keyfile.SyncDir(dir)
}

// Unkeep puts the key back into its bundle as a file.
func Unkeep(dir string, key crypto.Signer) error {
	text, err := keyText(key)
	if err != nil {
		return err
	}
	if err := keyfile.Write(filepath.Join(dir, keyName), text); err != nil {
		return err
	}
	if err := os.Remove(filepath.Join(dir, keptFile)); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("removing the note of where the key was kept: %w", err)
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

// keyText is the form of key.pem.
func keyText(key crypto.Signer) ([]byte, error) {
	der, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		return nil, fmt.Errorf("writing the key: %w", err)
	}
	return pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: der}), nil
}
