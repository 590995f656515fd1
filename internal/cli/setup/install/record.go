// Package install changes the files of agents and of the user's service manager, and
// takes that back. What is about to be done is written down before it is done, so that a
// stop at any point leaves nothing that cannot be undone: a file that nobody changed since
// is put back byte for byte, and from any other what was added is taken out.
package install

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"time"

	"palyra/internal/agent/files"
	"palyra/internal/core/filelock"
	"palyra/internal/core/reason"
	"palyra/internal/core/statedir/keyfile"
)

// recordFormat is the version of Record.
const recordFormat = 1

// Record is what stands on this machine because of Palyra, for one person.
type Record struct {
	Format int `json:"format"`
	// Files are the changes of files, in the order in which they were made.
	Files []Change `json:"files,omitempty"`
	// Dirs are the directories that were made, the outermost first.
	Dirs []string `json:"dirs,omitempty"`
	// Hooks are the hooks that are installed, or were about to be.
	Hooks []Hook `json:"hooks,omitempty"`
	// Service is palyrad as a service; nil where it is none of `palyra up`.
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
	// Token is the name of the hook's token, by which the gateway finds it; "" for none.
	Token string `json:"token,omitempty"`
	// OldTokens are those of before that are to be revoked.
	OldTokens []string `json:"old_tokens,omitempty"`
	// Installation is the id under which palyrad watches it.
	Installation string `json:"installation"`
	// Address is that of the hook's endpoint.
	Address string `json:"address,omitempty"`
}

// The ways by which a hook asks palyrad.
const (
	TransportHTTP    = "http"
	TransportCommand = "command"
)

// Owner is the name under which a hook's changes of files stand.
func (h Hook) Owner() string {
	return "hook/" + string(h.Agent) + "/" + string(h.Scope) + "/" + h.Project
}

// Service is palyrad as it was started.
type Service struct {
	// Manager is "systemd", "launchd" or "detached".
	Manager string `json:"manager"`
	// Program is the palyrad that is started.
	Program string `json:"program"`
	// Run is the directory of the pid file and the log of a detached one.
	Run string `json:"run,omitempty"`
}

// Change is a change of a file.
type Change struct {
	// Path is where the file really is; it belongs below Root.
	Path string `json:"path"`
	Root string `json:"root"`
	// Owner says what the change is for.
	Owner string `json:"owner"`
	// Existed is that there was a file, with these bytes and this mode.
	Existed bool        `json:"existed"`
	Before  []byte      `json:"before,omitempty"`
	Mode    fs.FileMode `json:"mode,omitempty"`
	// Was and Is are the digests of the file before and after; "" is no file.
	Was string `json:"was,omitempty"`
	Is  string `json:"is"`
	// Edited is that somebody else changed the file between two changes: it is not put
	// back whole any more.
	Edited bool `json:"edited,omitempty"`
	// Whole is that the file is Palyra's alone.
	Whole bool `json:"whole,omitempty"`
	// Entries are what was added.
	Entries []Entry `json:"entries,omitempty"`
}

// Entry is one thing that was added to a file.
type Entry struct {
	Format files.Format `json:"format"`
	// Keys lead to the value, or with List to the list that holds it.
	Keys []string `json:"keys"`
	List bool     `json:"list,omitempty"`
	// Digest is that of the value in canonical JSON.
	Digest string `json:"digest"`
	// Mark is a text in the value by which it is known when somebody changed it.
	Mark string `json:"mark,omitempty"`
	// Made is how many of Keys were there before: the rest goes when it is empty.
	Made int `json:"made"`
	// Old is the value that was replaced, as JSON; "" where there was none.
	Old string `json:"old,omitempty"`
}

// Book is the record on disk, held by one process at a time.
type Book struct {
	Record
	dir  string
	lock *os.File
	// Reached is told of each step; its error is a stop there. Tests set it.
	Reached func(step string) error
}

// name is that of the record's file.
const name = "installed.json"

func lockPath(dir string) string { return filepath.Join(dir, "installed.lock") }

// Open opens the record in a directory, which is made for the owner alone. Close gives it
// back.
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

// holdTime is how long another may hold the record: a child of one that was killed has it
// until it executes its program.
const holdTime = 5 * time.Second

func hold(lock *os.File) error {
	for deadline := time.Now().Add(holdTime); ; time.Sleep(20 * time.Millisecond) {
		if err := filelock.Try(lock); err == nil || time.Now().After(deadline) {
			return err
		}
	}
}

// Read reads the record of a directory; an empty one where there is none.
func Read(dir string) (Record, error) {
	text, err := keyfile.Read(filepath.Join(dir, name))
	if errors.Is(err, fs.ErrNotExist) {
		return Record{Format: recordFormat}, nil
	}
	var r Record
	if err == nil {
		err = json.Unmarshal(text, &r)
	}
	if err == nil && r.Format != recordFormat {
		err = fmt.Errorf("its format is %d", r.Format)
	}
	if err != nil {
		return Record{}, reason.Errorf(reason.ConfigInvalid, "the record of what is installed, %s, cannot be read: %w", filepath.Join(dir, name), err).
			WithRemedy("Mend it, or take what names Palyra out of the agents' settings by hand and remove the file.")
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
func (b *Book) Save() error {
	text, err := json.MarshalIndent(b.Record, "", "  ")
	if err != nil {
		return err
	}
	return keyfile.Write(filepath.Join(b.dir, name), append(text, '\n'))
}

// Close gives the record back. An empty one is removed, with the directories that were
// made for it.
func (b *Book) Close() error {
	var err error
	if len(b.Files) == 0 && len(b.Hooks) == 0 && b.Service == nil {
		err = b.forget()
	}
	return errors.Join(err, b.lock.Close())
}

func (b *Book) forget() error {
	// Also what a write of the record left that was cut off.
	left, _ := filepath.Glob(filepath.Join(b.dir, "."+name+".*"))
	for _, path := range append(left, filepath.Join(b.dir, name), lockPath(b.dir)) {
		if err := os.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
	// Those that somebody else put something into stay. Its own may have been made by one
	// that was killed before it could say so.
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

// Hook is the installed hook of an agent and a scope; nil where there is none.
func (r *Record) Hook(a files.Agent, s files.Scope, project string) *Hook {
	for i, h := range r.Hooks {
		if h.Agent == a && h.Scope == s && h.Project == project {
			return &r.Hooks[i]
		}
	}
	return nil
}

// AddHook writes a hook down that is about to be installed.
func (b *Book) AddHook(h Hook) error {
	if have := b.Hook(h.Agent, h.Scope, h.Project); have != nil {
		*have = h
	} else {
		b.Hooks = append(b.Hooks, h)
	}
	return b.Step("noted "+h.Owner(), b.Save)
}

// DropHook forgets a hook that is gone.
func (b *Book) DropHook(h Hook) error {
	b.Hooks = slices.DeleteFunc(b.Hooks, func(o Hook) bool { return o.Owner() == h.Owner() })
	return b.Step("forgot "+h.Owner(), b.Save)
}

// Step does something and tells Reached of it.
func (b *Book) Step(step string, do func() error) error {
	if err := do(); err != nil {
		return err
	}
	if b.Reached == nil {
		return nil
	}
	if err := b.Reached(step); err != nil {
		return fmt.Errorf("at the step %q: %w", step, err)
	}
	return nil
}
