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

// Keys are moved into a module in one step, so that after a crash either all or none have
// moved. The new files are created in a sibling directory, which is renamed when it is
// complete. After this rename, the next Open or Seal moves each new file over the old one.
const (
	sealingSuffix = ".sealing"
	sealedSuffix  = ".sealed"
)

// Seal moves the keys of an existing authority into o.Module: it seals the seeds of notary and
// journal, and the module creates a new issuing key. The root stays unchanged, because sealing
// does not protect a key that was already in a file. moved is false if the keys had already
// been moved.
func Seal(dir string, o Options) (moved bool, err error) {
	a, err := newAuthority(dir, o)
	if err != nil {
		return false, err
	}
	if err := endSeal(a.keys.dir); err != nil {
		return false, fmt.Errorf("ending the move of keys: %w", err)
	}
	if empty, err := isEmpty(a.keys.dir); err != nil {
		return false, err
	} else if empty {
		return false, reason.Errorf(reason.ConfigInvalid, "%s contains no keys", a.keys.dir).
			WithRemedy("Start palyrad: it creates the keys of a new gateway as set in keys.store.")
	}
	if err := a.keys.sweep(); err != nil {
		return false, fmt.Errorf("moving keys: %w", err)
	}
	a.keys.sealing = true
	if err := a.load(); err != nil {
		return false, fmt.Errorf("opening certificate authority: %w", err)
	}
	if !a.keys.plain {
		return false, nil
	}
	if err := a.keys.module.Prove(); err != nil {
		return false, err
	}
	if err := a.sealInto(a.keys.dir + sealingSuffix); err != nil {
		return false, errors.Join(fmt.Errorf("moving keys: %w", err), os.RemoveAll(a.keys.dir+sealingSuffix))
	}
	return true, endSeal(a.keys.dir)
}

// sealInto writes the new files of the authority, and renames the directory when it is complete.
func (a *Authority) sealInto(made string) error {
	if err := os.Mkdir(made, keyfile.DirMode); err != nil {
		return err
	}
	if _, inside := a.Issuing.current.key.(moduleKey); !inside {
		if err := a.Issuing.make(made); err != nil {
			return err
		}
	}
	if err := a.keys.writeKeyChain(filepath.Join(made, notaryFile), a.Notary.current.Signer, a.Notary.current.Chain...); err != nil {
		return err
	}
	if err := a.Journal.write(made, a.Journal.signer, a.Journal.verifier); err != nil {
		return err
	}
	if a.Journal.next.Key.Verifier != "" {
		if err := a.Journal.writeNext(made, a.Journal.next); err != nil {
			return err
		}
	}
	if err := os.Rename(made, a.keys.dir+sealedSuffix); err != nil {
		return err
	}
	return keyfile.SyncDir(filepath.Dir(a.keys.dir))
}

// endSeal completes or reverts an interrupted move of keys.
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

// checkSealed refuses to read an authority whose keys are being moved.
func checkSealed(dir string) error {
	if _, err := os.Lstat(dir + sealedSuffix); errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return reason.Errorf(reason.ConfigInvalid, "the move of keys in %s into a TPM was interrupted", dir).
		WithRemedy("Start palyrad, or run `palyrad keys seal` again: either completes it.")
}

// The locations of keys.
const (
	PlaceFile = "file"
	PlaceTPM  = "tpm"
)

// KeyPlace is the location of a key.
type KeyPlace struct {
	// Key is root, issuing, notary, journal or operator.
	Key string
	// Place is PlaceFile or PlaceTPM.
	Place string
	// Detail names the file (below the state directory) with its mode, or the TPM, and describes
	// its content.
	Detail string
}

// Places returns the location of each key of the authority.
func (a *Authority) Places() []KeyPlace {
	a.Issuing.mu.Lock()
	issuing := a.Issuing.current.key
	a.Issuing.mu.Unlock()
	return []KeyPlace{
		a.keys.place("root", rootFile, a.root.key),
		a.keys.place("issuing", issuingFile, issuing),
		a.keys.place("notary", notaryFile, a.Notary.Key().Signer),
		a.keys.place("journal", journalFile, nil),
	}
}

// place describes the location of a key: inside the module, sealed for the module, or in a
// file. With a module, only the root may be in a file.
func (s *keyStore) place(name, file string, key any) KeyPlace {
	_, inside := key.(moduleKey)
	switch {
	case inside:
		return KeyPlace{name, PlaceTPM, fmt.Sprintf("%s, which it never leaves", s.module.Name())}
	case s.module != nil && file != rootFile:
		return KeyPlace{name, PlaceTPM, fmt.Sprintf("%s, sealed in %s", s.module.Name(), filepath.Join(filepath.Base(s.dir), file))}
	}
	return FilePlace(name, s.dir, file)
}

// FilePlace describes a key in a file of a directory.
func FilePlace(name, dir, file string) KeyPlace {
	shown := filepath.Join(filepath.Base(dir), file)
	info, err := os.Stat(filepath.Join(dir, file))
	switch {
	case err != nil:
		shown += ", which cannot be looked at"
	case runtime.GOOS != "windows": // Windows has no modes
		shown += fmt.Sprintf(", mode %04o", info.Mode().Perm())
	}
	return KeyPlace{name, PlaceFile, shown}
}
