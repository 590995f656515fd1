package identity

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"palyra/internal/core/canonical"
	"palyra/internal/core/statedir/keyfile"
	"palyra/internal/identity/keptkey"
)

// The files of presence keys in a bundle: the registered key, and a key whose registration is
// pending. An interruption may leave both files.
const (
	presenceFile     = "presence.kept"
	nextPresenceFile = "presence.next"
)

// Presence returns the location of the bundle's presence key with a public key digest
// ("sha256:" and hex); nil if the bundle has no such key.
func Presence(dir, sha256 string) (*keptkey.Kept, error) {
	for _, name := range []string{presenceFile, nextPresenceFile} {
		k, err := readPresence(dir, name)
		if err != nil {
			return nil, err
		}
		if k == nil || canonical.Digest(k.PublicKey) != sha256 {
			continue
		}
		if name == nextPresenceFile { // interrupted after the gateway registered it
			err = settlePresence(dir)
		}
		return k, err
	}
	return nil, nil
}

// settlePresence makes the next presence key the bundle's presence key.
func settlePresence(dir string) error {
	if err := os.Rename(filepath.Join(dir, nextPresenceFile), filepath.Join(dir, presenceFile)); err != nil {
		return fmt.Errorf("keeping the presence key: %w", err)
	}
	return keyfile.SyncDir(dir)
}

// PresenceKept returns the location of a bundle's newest presence key, or nil.
func PresenceKept(dir string) (*keptkey.Kept, error) { return readPresence(dir, presenceFile) }

func readPresence(dir, name string) (*keptkey.Kept, error) {
	text, err := keyfile.Read(filepath.Join(dir, name))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("reading where the presence key is kept: %w", err)
	}
	return keptkey.Read(text)
}

// KeepPresence records the location of a new presence key. The record becomes permanent after
// register has registered the key at the gateway; the previous key remains until then.
func KeepPresence(dir string, k *keptkey.Kept, register func() error) error {
	text, err := k.Text()
	if err != nil {
		return fmt.Errorf("noting where the presence key is kept: %w", err)
	}
	if err := keyfile.Write(filepath.Join(dir, nextPresenceFile), text); err != nil {
		return err
	}
	if err := register(); err != nil {
		return err
	}
	return settlePresence(dir)
}
