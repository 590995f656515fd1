package backup

import (
	"context"
	"path/filepath"

	"palyra/internal/core/statedir"
)

// Vault contains the key of a vault for another machine, as files of a state directory.
type Vault struct {
	// Backend is the backend of the key on the original machine.
	Backend string
	// Pin is vault.json, and Key is vault.kek. The backup clears Key.
	Pin, Key []byte
	// Missing is why the key is not available, and the remedy.
	Missing string
}

// The names of these files in a backup, and the name of the key in the manifest.
var (
	pinName       = inState + filepath.Base(statedir.VaultPin(""))
	keyName       = inState + filepath.Base(statedir.VaultKey(""))
	protectedName = inState + filepath.Base(statedir.VaultProtected(""))
)

const vaultKey = "vault"

// carryVault gets the key of the vault at the time when the files are read.
func (s Source) carryVault(ctx context.Context) (*Vault, error) {
	if s.Vault == nil {
		return nil, nil
	}
	return s.Vault(ctx)
}

// addVault replaces files that are usable only on this machine with the key of the vault.
func (c *collected) addVault() {
	if c.vault == nil || c.vault.Missing != "" {
		return
	}
	delete(c.small, protectedName)
	c.small[pinName], c.small[keyName] = c.vault.Pin, c.vault.Key
}

// clear wipes the key of the vault.
func (c *collected) clear() {
	if c.vault != nil {
		clear(c.vault.Key)
	}
}

// outside returns the missing parts of the vault.
func (v *Vault) outside() []string {
	if v == nil || v.Missing == "" {
		return nil
	}
	return []string{"the key of the vault, without which the secrets and the results in the backup are unreadable: " + v.Missing +
		" Then repeat the backup, or store the file of `palyra vault export-recovery` with it"}
}

// places returns the location of the vault's key in the backup.
func (v *Vault) places() []Key {
	if v == nil || v.Missing != "" {
		return nil
	}
	return []Key{{vaultKey, v.Backend, "in the backup as a file"}}
}

// carried returns the backend that the vault's key was exported from, "" if it was not.
func (m Manifest) carried() string {
	for _, k := range m.Keys {
		if k.Key == vaultKey {
			return k.Place
		}
	}
	return ""
}
