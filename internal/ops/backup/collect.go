package backup

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"palyra/internal/core/filelock"
	"palyra/internal/core/reason"
	"palyra/internal/core/statedir"
	"palyra/internal/core/statedir/keyfile"
	"palyra/internal/evidence/journal"
	"palyra/internal/identity/ca"
)

// Source is the gateway to back up, running or not.
type Source struct {
	// StateDir is read with its CA; PolicyDir and ConfigFile are read if they exist.
	StateDir, PolicyDir, ConfigFile string
	// Release is the build that creates the backup.
	Release string
	// Snapshot copies the store atomically into a new file.
	Snapshot func(ctx context.Context, into string) error
	// SignHead signs the head of the journal in a store.
	SignHead func(ctx context.Context, store string, key *journal.Key) (journal.Checkpoint, error)
	// Authority reads the CA without changing it, Keys returns the locations of the keys.
	Authority func() (*ca.Authority, error)
	Keys      func(*ca.Authority) []ca.KeyPlace
	// Vault returns the vault's key if it is not a file of the state directory. A nil function or
	// a nil result means that nothing is to be added.
	Vault func(ctx context.Context) (*Vault, error)
	// Outside are referenced files that no backup contains.
	Outside []string
}

// tries is how often files are read again if they change while the store is copied.
const tries = 5

// collected is the content of a backup, from one moment.
type collected struct {
	// small are all files except the store and the packages of skills, by their names in the
	// backup.
	small map[string][]byte
	// packages are the paths of the packages of skills by their names in the backup.
	packages map[string]string
	// store is the path of the store's copy.
	store     string
	authority *ca.Authority
	// vault is the vault's key if it is not a file, nil otherwise.
	vault *Vault
	// left are unexpected files that are not in the backup.
	left []string
}

// collect reads the files and the store as of one moment: the keys of the CA and the journal must
// match. If files change meanwhile, they are read again.
func (s Source) collect(ctx context.Context, scratch string) (c collected, err error) {
	c.store = filepath.Join(scratch, filepath.Base(statedir.Store("")))
	for range tries {
		if c.small, c.left, err = s.smallFiles(); err != nil {
			return c, err
		}
		if c.vault, err = s.carryVault(ctx); err != nil {
			return c, err
		}
		packages, err := s.packages()
		if err != nil {
			return c, err
		}
		if c.packages, err = s.linkPackages(packages, filepath.Join(scratch, "skills")); err != nil {
			return c, err
		}
		if err := errors.Join(removed(c.store), removed(c.store+headSuffix)); err != nil {
			return c, err
		}
		if err := s.Snapshot(ctx, c.store); err != nil {
			return c, err
		}
		if c.authority, err = s.Authority(); err != nil {
			return c, err
		}
		again, _, err := s.smallFiles()
		if err != nil {
			return c, err
		}
		still, err := s.packages()
		if err != nil {
			return c, err
		}
		if maps.EqualFunc(c.small, again, bytes.Equal) && slices.Equal(packages, still) && len(c.packages) == len(packages) {
			c.addVault()
			c.small[storeName+headSuffix], err = os.ReadFile(c.store + headSuffix)
			return c, err
		}
	}
	return c, reason.Errorf(reason.ConfigInvalid, "the files of the state directory or of the policy directory keep changing").
		WithRemedy("Repeat the backup while no keys are replaced, no policies edited and no skills installed.")
}

// headSuffix is added to the name of the store for its head file.
const headSuffix = "-head"

func removed(path string) error {
	if err := os.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}

// smallFiles reads all files of a backup except the store.
func (s Source) smallFiles() (files map[string][]byte, left []string, err error) {
	files = make(map[string][]byte)
	entries, err := os.ReadDir(s.StateDir)
	if err != nil {
		return nil, nil, fmt.Errorf("reading the state directory: %w", err)
	}
	for _, e := range entries {
		name := e.Name()
		switch {
		case inState+name == storeName, inState+name == storeName+headSuffix, inState+name+"/" == inSkills: // they are copied separately
		case statedir.Kept(name):
			if err := addTree(files, filepath.Join(s.StateDir, name), inState+name, statedir.Kept); err != nil {
				return nil, nil, err
			}
		case !statedir.Known(name):
			left = append(left, filepath.Join(s.StateDir, name))
		}
	}
	if err := s.addSettings(files); err != nil {
		return nil, nil, err
	}
	return files, left, checkSizes(files)
}

func (s Source) addSettings(files map[string][]byte) error {
	if s.PolicyDir != "" {
		if err := addTree(files, s.PolicyDir, strings.TrimSuffix(inPolicy, "/"), nil); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
	if s.ConfigFile == "" {
		return nil
	}
	text, err := os.ReadFile(s.ConfigFile)
	if err == nil {
		files[inConfig] = text
	}
	if errors.Is(err, fs.ErrNotExist) {
		err = nil
	}
	return err
}

// addTree adds a file, or all files below a directory. kept selects files of the state directory;
// nil selects all but hidden ones.
func addTree(files map[string][]byte, path, name string, kept func(string) bool) error {
	info, err := os.Stat(path)
	if err != nil {
		return err
	}
	if info.Mode().IsRegular() {
		if info.Size() > maxFile {
			return reason.Errorf(reason.InputTooLarge, "%s has %d bytes, a file of a backup at most %d", path, info.Size(), maxFile)
		}
		files[name], err = os.ReadFile(path)
		return err
	}
	if !info.IsDir() {
		return nil // a socket or similar file of a process
	}
	if len(files) > maxFiles { // links may form a loop
		return reason.Errorf(reason.InputTooLarge, "%s contains more than %d files, or a loop of links", path, maxFiles)
	}
	entries, err := os.ReadDir(path)
	if err != nil {
		return err
	}
	for _, e := range entries {
		below := name + "/" + e.Name()
		switch {
		case strings.HasPrefix(e.Name(), "."):
		case kept != nil && !kept(strings.TrimPrefix(below, inState)):
		default:
			if err := addTree(files, filepath.Join(path, e.Name()), below, kept); err != nil && !errors.Is(err, fs.ErrNotExist) {
				return err
			}
		}
	}
	return nil
}

// checkSizes refuses files that a restore would refuse.
func checkSizes(files map[string][]byte) error {
	var sum int
	for name, data := range files {
		if sum += len(data); checkName(name) != nil {
			return reason.Errorf(reason.ConfigInvalid, "the name of the file %q is not supported in a backup", name).
				WithRemedy("Rename the file: names must not contain backslashes, colons or control characters.")
		}
	}
	if sum > maxFile || len(files) > maxSmall {
		return reason.Errorf(reason.InputTooLarge, "keys, policies and settings are %d files of %d bytes, in a backup at most %d of %d", len(files), sum, maxSmall, maxFile).
			WithRemedy("Remove files that are not policies from the policy directory.")
	}
	return nil
}

// list returns the files for the manifest: the store first, because it is the largest.
func (c collected) list() ([]File, error) {
	store, err := describe(storeName, c.store)
	if err != nil {
		return nil, err
	}
	files := []File{store}
	for name, data := range c.small {
		sum := sha256.Sum256(data)
		files = append(files, File{name, int64(len(data)), hex.EncodeToString(sum[:])})
	}
	for name, path := range c.packages {
		f, err := describe(name, path)
		if err != nil {
			return nil, err
		}
		files = append(files, f)
	}
	slices.SortFunc(files[1:], func(a, b File) int { return strings.Compare(a.Name, b.Name) })
	return files, nil
}

// scratch is a directory for the unencrypted copy of the store: inside the state directory, and
// locked while in use.
type scratch struct {
	dir  string
	lock *os.File
}

func takeScratch(stateDir string) (*scratch, error) {
	if err := keyfile.CheckDir(stateDir); err != nil {
		return nil, err
	}
	s := &scratch{dir: statedir.Scratch(stateDir)}
	if err := keyfile.MakeDir(s.dir); err != nil {
		return nil, err
	}
	lock, err := os.OpenFile(filepath.Join(s.dir, "lock"), os.O_RDWR|os.O_CREATE, keyfile.FileMode)
	if err != nil {
		return nil, err
	}
	if err := filelock.Try(lock); err != nil {
		if errors.Is(err, filelock.ErrHeld) {
			err = reason.Errorf(reason.AlreadyExists, "another backup of %s is being made", stateDir).WithRemedy("Wait for its end.")
		}
		return nil, errors.Join(err, lock.Close())
	}
	s.lock = lock
	return s, nil
}

func (s *scratch) remove() error { return errors.Join(os.RemoveAll(s.dir), s.lock.Close()) }
