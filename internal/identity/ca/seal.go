package ca

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"

	"palyra/internal/core/reason"
	"palyra/internal/core/statedir/keyfile"
)

// Keys are moved into a module in one step, so that a crash leaves them where they
// were or has moved them all: the new files are made in a directory beside the
// authority, which is renamed when it is complete. That is the point of no return.
// From then on the next Open, or Seal, moves each file over the old one.
const (
	sealingSuffix = ".sealing"
	sealedSuffix  = ".sealed"
)

// Seal moves the keys of an authority that exists into o.Module: the seeds of notary
// and journal are sealed, and the module makes a new issuing key. The root stays what
// it was, for a key that lay in a file is no better for being somewhere else as well.
// moved is false when they had been moved before.
func Seal(dir string, o Options) (moved bool, err error) {
	a, err := newAuthority(dir, o)
	if err != nil {
		return false, err
	}
	if err := endSeal(a.dir); err != nil {
		return false, fmt.Errorf("ending the move of keys: %w", err)
	}
	if empty, err := isEmpty(a.dir); err != nil {
		return false, err
	} else if empty {
		return false, reason.Errorf(reason.ConfigInvalid, "there are no keys in %s", a.dir).
			WithRemedy("Start palyrad: it makes the keys of a new gateway where keys.store says.")
	}
	if err := a.sweep(); err != nil {
		return false, fmt.Errorf("moving keys: %w", err)
	}
	a.sealing = true
	if err := a.load(); err != nil {
		return false, fmt.Errorf("opening certificate authority: %w", err)
	}
	if !a.plain {
		return false, nil
	}
	if err := a.module.Prove(); err != nil {
		return false, err
	}
	if err := a.sealInto(a.dir + sealingSuffix); err != nil {
		return false, errors.Join(fmt.Errorf("moving keys: %w", err), os.RemoveAll(a.dir+sealingSuffix))
	}
	return true, endSeal(a.dir)
}

// sealInto writes what the authority's files become, and renames the directory when
// it is complete.
func (a *Authority) sealInto(made string) error {
	if err := os.Mkdir(made, keyfile.DirMode); err != nil {
		return err
	}
	if _, inside := a.issuing.key.(moduleKey); !inside {
		if err := a.makeIssuing(made); err != nil {
			return err
		}
	}
	if err := a.writeKeyChain(filepath.Join(made, notaryFile), a.notary.Signer, a.notary.Chain...); err != nil {
		return err
	}
	if err := a.writeJournalKey(made, a.journal.signer, a.journal.verifier); err != nil {
		return err
	}
	if a.journal.next.Key.Verifier != "" {
		if err := a.writeNext(made, a.journal.next); err != nil {
			return err
		}
	}
	if err := os.Rename(made, a.dir+sealedSuffix); err != nil {
		return err
	}
	return keyfile.SyncDir(filepath.Dir(a.dir))
}

// endSeal ends a move of keys that was cut off, one way or the other.
func endSeal(dir string) error {
	if err := os.RemoveAll(dir + sealingSuffix); err != nil {
		return err
	}
	made := dir + sealedSuffix
	files, err := os.ReadDir(made)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	for _, f := range files {
		if err := os.Rename(filepath.Join(made, f.Name()), filepath.Join(dir, f.Name())); err != nil {
			return err
		}
	}
	if err := keyfile.SyncDir(dir); err != nil {
		return err
	}
	if err := os.Remove(made); err != nil {
		return err
	}
	return keyfile.SyncDir(filepath.Dir(dir))
}

// checkSealed refuses to read an authority in the middle of a move of its keys.
func checkSealed(dir string) error {
	if _, err := os.Lstat(dir + sealedSuffix); errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return reason.Errorf(reason.ConfigInvalid, "the move of keys in %s into a TPM was cut off", dir).
		WithRemedy("Start palyrad, or run `palyrad keys seal` again: either ends it.")
}

// The places of keys.
const (
	PlaceFile = "file"
	PlaceTPM  = "tpm"
)

// KeyPlace is where a key lives.
type KeyPlace struct {
	// Key is root, issuing, notary, journal or operator.
	Key string
	// Place is one of the places.
	Place string
	// Detail names the file (below the state directory) with its mode, or the TPM, and
	// says what is there.
	Detail string
}

// Places says where each key of the authority lives.
func (a *Authority) Places() []KeyPlace {
	a.mu.Lock()
	defer a.mu.Unlock()
	places := []KeyPlace{
		a.place("root", rootFile, a.root.key),
		a.place("issuing", issuingFile, a.issuing.key),
		a.place("notary", notaryFile, a.notary.Signer),
		a.place("journal", journalFile, nil),
	}
	return places
}

// place says where a key lives that is no key of a file's own: inside the module, or
// sealed for it. Only the root may be a file where there is a module.
func (a *Authority) place(name, file string, key any) KeyPlace {
	_, inside := key.(moduleKey)
	switch {
	case inside:
		return KeyPlace{name, PlaceTPM, fmt.Sprintf("%s, which it never leaves", a.module.Name())}
	case a.module != nil && file != rootFile:
		return KeyPlace{name, PlaceTPM, fmt.Sprintf("%s, sealed in %s", a.module.Name(), filepath.Join(filepath.Base(a.dir), file))}
	}
	return FilePlace(name, a.dir, file)
}

// FilePlace is the place of a key that lies in a file of a directory.
func FilePlace(name, dir, file string) KeyPlace {
	shown := filepath.Join(filepath.Base(dir), file)
	info, err := os.Stat(filepath.Join(dir, file))
	switch {
	case err != nil:
		shown += ", which cannot be looked at"
	case runtime.GOOS != "windows": // which has no modes
		shown += fmt.Sprintf(", mode %04o", info.Mode().Perm())
	}
	return KeyPlace{name, PlaceFile, shown}
}
