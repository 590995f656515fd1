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

// Source is the gateway that a backup is made of, whether it runs or not.
type Source struct {
	// StateDir is read with its CA, PolicyDir and ConfigFile when they are there.
	StateDir, PolicyDir, ConfigFile string
	// Release is the build that makes the backup.
	Release string
	// Snapshot copies the store at one moment into a new file.
	Snapshot func(ctx context.Context, into string) error
	// SignHead signs the head of the journal in a store.
	SignHead func(ctx context.Context, store string, key *journal.Key) (journal.Checkpoint, error)
	// Authority reads the CA and changes nothing, Keys says where the keys live.
	Authority func() (*ca.Authority, error)
	Keys      func(*ca.Authority) []ca.KeyPlace
	// Vault returns the vault's key where no file of the state directory is that key;
	// nil, and a nil result, is that there is nothing to add.
	Vault func(ctx context.Context) (*Vault, error)
	// Outside is what the settings name and no backup holds.
	Outside []string
}

// tries is how often files are read that change while the store is copied.
const tries = 5

// collected is what goes into a backup, from one moment.
type collected struct {
	// small are all files but the store and the packages of skills, by their names in the
	// backup.
	small map[string][]byte
	// packages are the paths of the packages of skills by their names in the backup.
	packages map[string]string
	// store is the copy of the store.
	store     string
	authority *ca.Authority
	// vault is the vault's key where it is no file, nil otherwise.
	vault *Vault
	// left are files that are not in the backup, and that nobody would expect.
	left []string
}

// collect reads files and store as they were at one moment: the keys of the CA and
// the journal have to fit. What changes is read again.
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
	return c, reason.Errorf(reason.ConfigInvalid, "the files of the state directory or of the policy directory change all the time").
		WithRemedy("Repeat it when nobody replaces keys, edits policies or installs skills.")
}

// headSuffix is added to the name of the store for its head file.
const headSuffix = "-head"

func removed(path string) error {
	if err := os.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}

// smallFiles reads all that a backup holds beside the store.
func (s Source) smallFiles() (files map[string][]byte, left []string, err error) {
	files = make(map[string][]byte)
	entries, err := os.ReadDir(s.StateDir)
	if err != nil {
		return nil, nil, fmt.Errorf("reading the state directory: %w", err)
	}
	for _, e := range entries {
		name := e.Name()
		switch {
		case inState+name == storeName, inState+name == storeName+headSuffix, inState+name+"/" == inSkills: // a copy is made of them
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

// addTree adds a file, or all files below a directory. kept chooses among those of
// the state directory; nil takes all but hidden ones.
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
		return nil // a socket or the like is of a process
	}
	if len(files) > maxFiles { // links may lead round in a circle
		return reason.Errorf(reason.InputTooLarge, "below %s are more than %d files, or links in a circle", path, maxFiles)
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

// checkSizes refuses what no restore would take.
func checkSizes(files map[string][]byte) error {
	var sum int
	for name, data := range files {
		if sum += len(data); checkName(name) != nil {
			return reason.Errorf(reason.ConfigInvalid, "%q has a name that cannot be in a backup", name).
				WithRemedy("Rename the file: names are without backslashes, colons and control characters.")
		}
	}
	if sum > maxFile || len(files) > maxSmall {
		return reason.Errorf(reason.InputTooLarge, "keys, policies and settings are %d files of %d bytes, in a backup at most %d of %d", len(files), sum, maxSmall, maxFile).
			WithRemedy("Take out of the policy directory what is no policy.")
	}
	return nil
}

// list describes the files for the manifest: the store first, as the largest.
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

// scratch is a directory for the copy of the store, which is not encrypted: inside
// the state directory, locked as long as it is used.
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
