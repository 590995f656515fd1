package vaulttest

import (
	"context"
	"crypto/rand"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"

	"palyra/internal/core/access"
	"palyra/internal/core/reason"
	"palyra/internal/vault"
	"palyra/internal/vault/aead"
	"palyra/internal/vault/kek"
)

// Keys are key-encryption keys in memory.
type Keys struct {
	mu      sync.Mutex
	keys    map[string][]byte
	current string
	// made counts the keys, including dropped ones.
	made   int
	locked bool
}

var _ vault.Keys = (*Keys)(nil)

// NewKeys returns keys of which one is current.
func NewKeys() *Keys {
	k := &Keys{keys: map[string][]byte{}}
	_, _ = k.Rotate(context.Background())
	return k
}

// Lock locks the keys until Unlock.
func (k *Keys) Lock() {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.locked = true
}

// Unlock implements vault.Keys; the passphrase is "open sesame".
func (k *Keys) Unlock(_ context.Context, passphrase []byte) error {
	k.mu.Lock()
	defer k.mu.Unlock()
	if string(passphrase) != "open sesame" {
		return reason.Errorf(reason.VaultLocked, "the passphrase is wrong")
	}
	k.locked = false
	return nil
}

func (k *Keys) ready() error {
	if k.locked {
		return reason.Errorf(reason.VaultLocked, "the vault is locked")
	}
	return nil
}

// Wrap implements vault.Keys.
func (k *Keys) Wrap(_ context.Context, about string, key []byte) (id string, box []byte, err error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if err := k.ready(); err != nil {
		return "", nil, err
	}
	box, err = aead.Seal(k.keys[k.current], key, []byte(about))
	return k.current, box, err
}

// Unwrap implements vault.Keys.
func (k *Keys) Unwrap(_ context.Context, about, id string, box []byte) ([]byte, error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if err := k.ready(); err != nil {
		return nil, err
	}
	kek, ok := k.keys[id]
	if !ok {
		return nil, reason.Errorf(reason.VaultKeyMissing, "key %s not found", id)
	}
	key, err := aead.Open(kek, box, []byte(about))
	if err != nil {
		return nil, reason.Errorf(reason.SecretUnreadable, "unwrapping a key with %s: %w", id, err)
	}
	return key, nil
}

// Current implements vault.Keys.
func (k *Keys) Current(context.Context) (string, error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.current, k.ready()
}

// IDs implements vault.Keys.
func (k *Keys) IDs(context.Context) ([]string, error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	return slices.Sorted(maps.Keys(k.keys)), nil
}

// Rotate implements vault.Keys.
func (k *Keys) Rotate(context.Context) (string, error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if err := k.ready(); err != nil {
		return "", err
	}
	key := make([]byte, aead.KeySize)
	_, _ = rand.Read(key)
	// The id of a dropped key is never used again, as with the real keys.
	k.made++
	k.current = fmt.Sprintf("kek-%d", k.made)
	k.keys[k.current] = key
	return k.current, nil
}

// Export implements vault.Keys.
func (k *Keys) Export(context.Context) (list []kek.Exported, err error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if err := k.ready(); err != nil {
		return nil, err
	}
	for id, key := range k.keys {
		if id != k.current {
			list = append(list, kek.Exported{ID: id, Key: slices.Clone(key)})
		}
	}
	return append(list, kek.Exported{ID: k.current, Key: slices.Clone(k.keys[k.current])}), nil
}

// Status implements vault.Keys.
func (k *Keys) Status(context.Context) kek.Status {
	k.mu.Lock()
	defer k.mu.Unlock()
	return kek.Status{Backend: "memory", ID: k.current, Older: len(k.keys) - 1, Locked: k.locked}
}

// Drop implements vault.Keys.
func (k *Keys) Drop(_ context.Context, ids ...string) error {
	k.mu.Lock()
	defer k.mu.Unlock()
	if slices.Contains(ids, k.current) {
		return reason.Errorf(reason.InvalidInput, "the current key is not dropped")
	}
	for _, id := range ids {
		delete(k.keys, id)
	}
	return nil
}

// Judge allows principals the listed permissions, and nothing else.
type Judge map[access.Principal][]access.Permission

// Permit implements vault.Judge. Scopes of users are for that user alone, and scopes of skills
// for their guests.
func (j Judge) Permit(b vault.Borrower, p access.Permission, ref vault.Ref) error {
	owner := ref.Principal()
	if of, is := strings.CutPrefix(ref.Scope, string(vault.Skill)+":"); is && p == access.PermSecretLease && of != b.Skill {
		return reason.Errorf(reason.PermissionDenied, "%s is for guests of its skill", ref)
	}
	if slices.Contains(j[b.Principal], p) && (owner.IsZero() || owner == b.Principal) {
		return nil
	}
	return reason.Errorf(reason.PermissionDenied, "%s may not %s", b.Principal, p)
}
