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

// The files of a presence key in a bundle: that which the gateway knows, and one that it
// is being told of. Whoever is interrupted in between has both.
const (
	presenceFile     = "presence.kept"
	nextPresenceFile = "presence.next"
)

// Presence says where the presence key of a bundle is kept whose public half has a
// digest ("sha256:" and hex); nil when the bundle has no such key.
func Presence(dir, sha256 string) (*keptkey.Kept, error) {
	for _, name := range []string{presenceFile, nextPresenceFile} {
		k, err := readPresence(dir, name)
		if err != nil {
			return nil, err
		}
		if k == nil || canonical.Digest(k.PublicKey) != sha256 {
			continue
		}
		if name == nextPresenceFile { // somebody was interrupted after the gateway had it
			err = settlePresence(dir)
		}
		return k, err
	}
	return nil, nil
}

// settlePresence makes the next presence key that of the bundle.
func settlePresence(dir string) error {
	if err := os.Rename(filepath.Join(dir, nextPresenceFile), filepath.Join(dir, presenceFile)); err != nil {
		return fmt.Errorf("keeping the presence key: %w", err)
	}
	return keyfile.SyncDir(dir)
}

// PresenceKept says where the newest presence key of a bundle is kept; nil when it has
// none.
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

// KeepPresence notes where a new presence key is kept, and keeps it for good once
// register has told the gateway of it. The one before stays until then.
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
