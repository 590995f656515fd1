package backup

import (
	"context"
	"path/filepath"

	"palyra/internal/core/statedir"
)

// Vault has the key of a vault for another machine, as files of a state directory.
type Vault struct {
	// Backend is where the key is on the machine of the backup.
	Backend string
	// Pin is vault.json, and Key is vault.kek. The backup clears Key.
	Pin, Key []byte
	// Missing says why the key cannot be had, and what to do.
	Missing string
}

// The names of these files in a backup, and what the manifest calls the key.
var (
	pinName       = inState + filepath.Base(statedir.VaultPin(""))
	keyName       = inState + filepath.Base(statedir.VaultKey(""))
	protectedName = inState + filepath.Base(statedir.VaultProtected(""))
)

const vaultKey = "vault"

// carryVault asks for the key of the vault as it is while the files are read.
func (s Source) carryVault(ctx context.Context) (*Vault, error) {
	if s.Vault == nil {
		return nil, nil
	}
	return s.Vault(ctx)
}

// addVault puts the key of the vault in the place of what only opens it on this machine.
func (c *collected) addVault() {
	if c.vault == nil || c.vault.Missing != "" {
		return
	}
	delete(c.small, protectedName)
	c.small[pinName], c.small[keyName] = c.vault.Pin, c.vault.Key
}

// clear takes the key of the vault out of memory.
func (c *collected) clear() {
	if c.vault != nil {
		clear(c.vault.Key)
	}
}

// outside says what is missing of the vault.
func (v *Vault) outside() []string {
	if v == nil || v.Missing == "" {
		return nil
	}
	return []string{"the key of the vault, without which the secrets and the results in the backup cannot be read: " + v.Missing +
		" Then make the backup again, or keep the file of `palyra vault export-recovery` beside it"}
}

// places says where the key of the vault is in the backup.
func (v *Vault) places() []Key {
	if v == nil || v.Missing != "" {
		return nil
	}
	return []Key{{vaultKey, v.Backend, "in the backup as a file"}}
}

// carried is the backend that the key of the vault was taken out of for the backup, ""
// when it was not.
func (m Manifest) carried() string {
	for _, k := range m.Keys {
		if k.Key == vaultKey {
			return k.Place
		}
	}
	return ""
}
