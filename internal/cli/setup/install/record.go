// Package install changes the files of agents and of the user's service manager, and reverts the
// changes. Each change is recorded before it is made, so that it can be reverted even after an
// interruption. A file that has not changed since then is restored byte for byte; from a file that
// has changed, only the added entries are removed.
package install

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"time"

	"palyra/internal/agent/edit"
	"palyra/internal/agent/files"
	"palyra/internal/core/filelock"
	"palyra/internal/core/reason"
	"palyra/internal/core/statedir/keyfile"
)

// recordFormat is the version of Record.
const recordFormat = 1

// Record lists Palyra's changes on this machine, for one user.
type Record struct {
	Format int `json:"format"`
	// Files are the changes of files, in order.
	Files []Change `json:"files,omitempty"`
	// Dirs are the created directories, the outermost first.
	Dirs []string `json:"dirs,omitempty"`
	// Hooks are the installed hooks, and the hooks whose installation has begun.
	Hooks []Hook `json:"hooks,omitempty"`
	// Service is the service of palyrad; nil if `palyra up` did not create it.
	Service *Service `json:"service,omitempty"`
}

// Hook is a hook of an agent.
type Hook struct {
	Agent files.Agent `json:"agent"`
	Scope files.Scope `json:"scope"`
	// Project is the directory of a hook of scope project.
	Project string `json:"project,omitempty"`
	// Transport is TransportHTTP or TransportCommand.
	Transport string `json:"transport"`
	// Token is the name of the hook's token at the gateway; "" for none.
	Token string `json:"token,omitempty"`
	// OldTokens are previous tokens to be revoked.
	OldTokens []string `json:"old_tokens,omitempty"`
	// Installation is the id under which palyrad watches the hook.
	Installation string `json:"installation"`
	// Address is the address of the hook's endpoint.
	Address string `json:"address,omitempty"`
}

// The transports by which a hook sends requests to palyrad.
const (
	TransportHTTP    = "http"
	TransportCommand = "command"
)

// Owner returns the owner name of a hook's file changes.
func (h Hook) Owner() string {
	return "hook/" + string(h.Agent) + "/" + string(h.Scope) + "/" + h.Project
}

// Service describes how palyrad was started.
type Service struct {
	// Manager is "systemd", "launchd" or "detached".
	Manager string `json:"manager"`
	// Program is the palyrad that is started.
	Program string `json:"program"`
	// Run is the directory of the pid file and the log of a detached palyrad.
	Run string `json:"run,omitempty"`
}

// Change is a change of a file.
type Change struct {
	edit.Original
	// Owner is the purpose of the change.
	Owner string `json:"owner"`
	// Edited is true if another program changed the file between two of Palyra's changes. Such a
	// file is then not restored byte for byte.
	Edited bool `json:"edited,omitempty"`
	// Whole is true if only Palyra uses the file.
	Whole bool `json:"whole,omitempty"`
	// Entries are the added entries.
	Entries []Entry `json:"entries,omitempty"`
}

// Entry is one entry that was added to a file.
type Entry struct {
	Format files.Format `json:"format"`
	// Keys are the path of the value or, if List is true, of the list that contains it.
	Keys []string `json:"keys"`
	List bool     `json:"list,omitempty"`
	// Digest is the digest of the value in canonical JSON.
	Digest string `json:"digest"`
	// Mark is a text in the value that identifies it after a modification.
	Mark string `json:"mark,omitempty"`
	// Made is the number of Keys that existed before. The other keys are removed when empty.
	Made int `json:"made"`
	// Old is the replaced value, as JSON; "" for none.
	Old string `json:"old,omitempty"`
}

// Book is the record on disk, locked by one process at a time.
type Book struct {
	Record
	dir  string
	lock *os.File
	// Reached is set by tests.
	Reached edit.Steps
}

// name is the name of the record's file.
const name = "installed.json"

func lockPath(dir string) string { return filepath.Join(dir, "installed.lock") }

// Open opens the record in a directory, which it creates with private permissions. Close releases
// it.
func Open(dir string) (*Book, error) {
	var made []string
	if err := makeDirs(dir, &made); err != nil {
		return nil, err
	}
	lock, err := os.OpenFile(lockPath(dir), os.O_RDWR|os.O_CREATE, keyfile.FileMode)
	if err != nil {
		return nil, fmt.Errorf("opening the record's lock: %w", err)
	}
	if err := hold(lock); err != nil {
		return nil, errors.Join(reason.Errorf(reason.FactsChanged, "another palyra is installing or uninstalling").WithRemedy("Wait for it to end."), lock.Close())
	}
	b := &Book{dir: dir, lock: lock}
	if b.Record, err = Read(dir); err != nil {
		return nil, errors.Join(err, lock.Close())
	}
	for _, d := range made {
		b.addDir(d)
	}
	return b, nil
}

// holdTime is the timeout for the lock. A child of a killed process keeps the lock until it
// executes its program.
const holdTime = 5 * time.Second

func hold(lock *os.File) error {
	for deadline := time.Now().Add(holdTime); ; time.Sleep(20 * time.Millisecond) {
		if err := filelock.Try(lock); err == nil || time.Now().After(deadline) {
			return err
		}
	}
}

// Read reads the record of a directory; an empty one if it does not exist.
func Read(dir string) (Record, error) {
	r := Record{Format: recordFormat}
	if _, err := edit.ReadRecord(filepath.Join(dir, name), recordFormat, &r); err != nil {
		return Record{}, reason.Errorf(reason.ConfigInvalid, "reading the record of installations, %s: %w", filepath.Join(dir, name), err).
			WithRemedy("Repair the file. Or remove all entries of Palyra from the agents' settings by hand, and delete the file.")
	}
	return r, nil
}

func makeDirs(dir string, made *[]string) error {
	if _, err := os.Stat(dir); err == nil {
		return nil
	}
	if parent := filepath.Dir(dir); parent != dir {
		if err := makeDirs(parent, made); err != nil {
			return err
		}
	}
	if err := os.Mkdir(dir, keyfile.DirMode); err != nil && !errors.Is(err, fs.ErrExist) {
		return reason.Errorf(reason.ConfigInvalid, "making %s: %w", dir, err)
	}
	*made = append(*made, dir)
	return nil
}

// Save writes the record.
func (b *Book) Save() error { return edit.WriteRecord(filepath.Join(b.dir, name), b.Record) }

// Close releases the record. An empty one is removed, with the directories that were created for
// it.
func (b *Book) Close() error {
	var err error
	if len(b.Files) == 0 && len(b.Hooks) == 0 && b.Service == nil {
		err = b.forget()
	}
	return errors.Join(err, b.lock.Close())
}

func (b *Book) forget() error {
	// Temporary files of an interrupted write are removed too.
	left, _ := filepath.Glob(filepath.Join(b.dir, "."+name+".*"))
	for _, path := range append(left, filepath.Join(b.dir, name), lockPath(b.dir)) {
		if err := os.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
	// Directories with other files stay. The record's own directory may have been created by a
	// process that was killed before it could record that.
	_ = os.Remove(b.dir)
	for _, dir := range slices.Backward(b.Dirs) {
		_ = os.Remove(dir)
	}
	return nil
}

func (b *Book) addDir(dir string) {
	if !slices.Contains(b.Dirs, dir) {
		b.Dirs = append(b.Dirs, dir)
	}
}

// Hook returns the installed hook of an agent and a scope; nil for none.
func (r *Record) Hook(a files.Agent, s files.Scope, project string) *Hook {
	for i, h := range r.Hooks {
		if h.Agent == a && h.Scope == s && h.Project == project {
			return &r.Hooks[i]
		}
	}
	return nil
}

// AddHook records a hook that is about to be installed.
func (b *Book) AddHook(h Hook) error {
	if have := b.Hook(h.Agent, h.Scope, h.Project); have != nil {
		*have = h
	} else {
		b.Hooks = append(b.Hooks, h)
	}
	return b.Step("noted "+h.Owner(), b.Save)
}

// DropHook removes a hook from the record.
func (b *Book) DropHook(h Hook) error {
	b.Hooks = slices.DeleteFunc(b.Hooks, func(o Hook) bool { return o.Owner() == h.Owner() })
	return b.Step("forgot "+h.Owner(), b.Save)
}

// Step runs do and calls Reached.
func (b *Book) Step(step string, do func() error) error {
	if err := do(); err != nil {
		return err
	}
	return b.Reached.At(step)
}
