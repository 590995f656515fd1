package kek

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"sync"

	"palyra/internal/core/reason"
	"palyra/internal/core/statedir"
	"palyra/internal/core/statedir/keyfile"
	"palyra/internal/vault/passphrase"
)

// fileFormat is the format of the backend "file".
const fileFormat = "palyra vault.kek v1"

// entry is a key in a file.
type entry struct {
	ID  string `json:"id"`
	Key []byte `json:"key"`
}

// keyFile is the content of vault.kek and vault.dpapi: the keys, or the list of them (JSON) in
// encrypted form.
type keyFile struct {
	Format  string  `json:"format"`
	Gateway string  `json:"gateway"`
	Keys    []entry `json:"keys,omitempty"`
	// Sealed is encrypted with a passphrase, with format and gateway as associated data.
	Sealed *passphrase.Sealed `json:"sealed,omitempty"`
	// Protected is the output of CryptProtectData of Windows.
	Protected []byte `json:"protected,omitempty"`
}

// about returns the associated data of a cover.
func (f *keyFile) about() []byte { return []byte(f.Format + "\x00" + f.Gateway) }

// cover encrypts the keys of a file.
type cover interface {
	// on encrypts the list of keys. was is the existing file, nil for none.
	on(f *keyFile, list []byte, was *keyFile) error
	// off decrypts the list of keys.
	off(f *keyFile) ([]byte, error)
}

// file is a backend that stores all keys in one file of the state directory.
type file struct {
	name, path, format, gateway string
	cover                       cover

	mu sync.Mutex
	// seen is the digest of the text whose keys are cached in entries. They are cached because
	// deriving a key from a passphrase is slow.
	seen    [sha256.Size]byte
	entries []entry
}

// newFile returns the backend "file" of a gateway.
func newFile(stateDir, gateway string, phrase func() ([]byte, error)) *file {
	return &file{name: InFile, path: statedir.VaultKey(stateDir), format: fileFormat, gateway: gateway, cover: &phrased{configured: phrase}}
}

func (f *file) Name() string { return f.name }

// Get returns a key of the file.
func (f *file) Get(_ context.Context, id string) ([]byte, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	_, entries, err := f.read()
	if err != nil {
		return nil, err
	}
	if i := slices.IndexFunc(entries, func(e entry) bool { return e.ID == id }); i >= 0 {
		return bytes.Clone(entries[i].Key), nil
	}
	return nil, fmt.Errorf("looking for %s in %s: %w", id, f.path, ErrNoKey)
}

// Put adds a key, or replaces it.
func (f *file) Put(_ context.Context, id string, key []byte) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	was, entries, err := f.read()
	if err != nil {
		return err
	}
	return f.write(was, append(without(entries, id), entry{id, bytes.Clone(key)}))
}

// Delete deletes a key; with the last key it deletes the file.
func (f *file) Delete(_ context.Context, id string) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	was, entries, err := f.read()
	if err != nil {
		return err
	}
	if err := f.sweep(); err != nil {
		return err
	}
	left := without(entries, id)
	switch {
	case len(left) == len(entries):
		return nil
	case len(left) > 0:
		return f.write(was, left)
	}
	return f.remove()
}

// erase removes the file with all keys that are in it.
func (f *file) erase() error {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.remove()
}

func (f *file) remove() error {
	f.seen, f.entries = [sha256.Size]byte{}, nil
	if err := errors.Join(f.sweep(), ifThere(os.Remove(f.path))); err != nil {
		return err
	}
	return keyfile.SyncDir(filepath.Dir(f.path))
}

// sweep removes the temporary files of interrupted writes, which contain the same keys.
func (f *file) sweep() error {
	half, err := filepath.Glob(filepath.Join(filepath.Dir(f.path), "."+filepath.Base(f.path)+".*"))
	if err != nil {
		return err
	}
	for _, path := range half {
		if err := ifThere(os.Remove(path)); err != nil {
			return err
		}
	}
	return nil
}

// ifThere returns the error of a removal, nil for a missing file.
func ifThere(err error) error {
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}

func without(entries []entry, id string) []entry {
	return slices.DeleteFunc(slices.Clone(entries), func(e entry) bool { return e.ID == id })
}

// held returns the ids of the keys in the file, in the order of creation.
func (f *file) held(context.Context) (ids []string, err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	_, entries, err := f.read()
	for _, e := range entries {
		ids = append(ids, e.ID)
	}
	return ids, err
}

// read returns the file and its keys; nil for a missing file.
func (f *file) read() (*keyFile, []entry, error) {
	text, err := keyfile.ReadOwn(f.path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil, nil
	}
	if err != nil {
		return nil, nil, err
	}
	k := &keyFile{}
	if err := decode(text, k); err != nil || k.Format != f.format {
		return nil, nil, f.damaged("is not in palyrad's format")
	}
	if k.Gateway != f.gateway {
		return nil, nil, f.damaged("belongs to the gateway " + k.Gateway)
	}
	if digest := sha256.Sum256(text); digest != f.seen {
		entries, err := f.uncover(k)
		if err != nil {
			return nil, nil, err
		}
		f.seen, f.entries = digest, entries
	}
	return k, f.entries, nil
}

func (f *file) uncover(k *keyFile) ([]entry, error) {
	list, err := f.cover.off(k)
	if errors.Is(err, passphrase.ErrForm) {
		return nil, f.damaged("is not sealed in palyrad's format")
	}
	if err != nil {
		return nil, err
	}
	defer clear(list)
	var entries []entry
	if err := decode(list, &entries); err != nil {
		return nil, f.damaged("does not contain keys")
	}
	for _, e := range entries {
		if e.ID == "" || len(e.Key) != keySize {
			return nil, f.damaged("contains an invalid key")
		}
	}
	return entries, nil
}

func (f *file) write(was *keyFile, entries []entry) error {
	text, err := f.text(was, entries)
	if err != nil {
		return err
	}
	defer clear(text)
	if err := f.sweep(); err != nil {
		return err
	}
	if err := keyfile.Write(f.path, text); err != nil {
		return err
	}
	f.seen, f.entries = sha256.Sum256(text), entries
	return nil
}

// text returns the content of a file with these keys.
func (f *file) text(was *keyFile, entries []entry) ([]byte, error) {
	list, err := json.Marshal(entries)
	if err != nil {
		return nil, err
	}
	defer clear(list)
	k := &keyFile{Format: f.format, Gateway: f.gateway}
	if err := f.cover.on(k, list, was); err != nil {
		return nil, err
	}
	text, err := json.MarshalIndent(k, "", "  ")
	return append(text, '\n'), err
}

func (f *file) damaged(how string) error {
	return reason.Errorf(reason.SecretUnreadable, "%s %s", f.path, how).
		WithRemedy("Restore %s from a backup of the state directory.", filepath.Base(f.path))
}

func (f *file) unlock(phrase []byte) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	p, ok := f.cover.(*phrased)
	if !ok {
		return untaken(f.name)
	}
	return p.try(f, phrase)
}

// decode decodes JSON with exactly one value and no unknown members.
func decode(text []byte, into any) error {
	dec := json.NewDecoder(bytes.NewReader(text))
	dec.DisallowUnknownFields()
	if err := dec.Decode(into); err != nil {
		return err
	}
	if dec.More() {
		return errors.New("unexpected data after the value")
	}
	return nil
}
