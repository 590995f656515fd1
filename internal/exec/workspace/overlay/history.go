package overlay

import (
	"encoding/hex"
	"encoding/json"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"palyra/internal/core/lazyregexp"
	"palyra/internal/core/reason"
)

// Limits of the history of one workspace: the last change sets are kept, the oldest are dropped
// first.
const (
	keptSets  = 20
	keptBytes = 1 << 30
)

// diffBytes is the maximum size of the diff that is stored with a change set.
const diffBytes = 64 << 10

// History is the directory of committed change sets and the content that they replaced. It is
// used to undo them, and by Recover to complete or roll back a commit after a crash. The files of
// a change set are <workspace>/<id>/{manifest.json,prepared.json,content,diff.txt,state}.
type History struct {
	// Dir is absolute, belongs to the daemon, and has mode 0700.
	Dir string
}

// RecordState is the progress of a change set.
type RecordState string

// The states, in order. Only the last two are final.
const (
	recordPreparing RecordState = "preparing" // temporary files are being written
	recordPrepared  RecordState = "prepared"  // all exist, and may be in place
	recordDecided   RecordState = "decided"   // all are in place; old files may still exist under temporary names
	// RecordCommitted is a change set in the workspace.
	RecordCommitted RecordState = "committed"
	// RecordUndone is a change set that was undone.
	RecordUndone RecordState = "undone"
)

// Summary describes a recorded change set.
type Summary struct {
	ID        string    `json:"id"`
	Workspace string    `json:"workspace"`
	At        time.Time `json:"at"`
	// CallID and Principal name the call that made the changes and the principal behind it.
	// Undoes is the change set that this one undid, "" for none.
	CallID    string `json:"call_id,omitempty"`
	Principal string `json:"principal,omitempty"`
	Undoes    string `json:"undoes,omitempty"`
	// Root is the digest of the change set.
	Root      string   `json:"root"`
	Added     int      `json:"added"`
	Modified  int      `json:"modified"`
	Deleted   int      `json:"deleted"`
	Bytes     int64    `json:"bytes"`
	Protected []string `json:"protected,omitempty"`
	Classes   []string `json:"classes,omitempty"`
	// Kept is the size of the replaced content in bytes; -1 if it exceeded the limit, so that the
	// change set cannot be undone.
	Kept  int64       `json:"kept"`
	State RecordState `json:"-"`
}

// Undoable reports whether the change set is in the workspace and its replaced content is kept.
func (s Summary) Undoable() bool { return s.State == RecordCommitted && s.Kept >= 0 }

// Detail is a recorded change set with all its changes.
type Detail struct {
	Summary
	Changes []Change
	// Diff is the displayed diff, truncated after 64 KiB.
	Diff string
}

// manifest is the content of manifest.json.
type manifest struct {
	Version int `json:"version"`
	Summary
	Entries []entry `json:"entries"`
	// Replacements are the renames that put the change set in place.
	Replacements []replacement `json:"units"`
	// Offsets are the positions in content of the replaced content of each entry; -1 for an entry
	// without one.
	Offsets []int64 `json:"offsets"`
}

const manifestVersion = 1

var idForm = lazyregexp.New(`^[A-Za-z0-9][A-Za-z0-9._-]{0,127}$`)

// dir returns the directory of a change set; invalid names are refused.
func (h History) dir(workspace, id string) (string, error) {
	if !idForm.MatchString(workspace) || !idForm.MatchString(id) {
		return "", notKept(workspace, id)
	}
	return filepath.Join(h.Dir, workspace, id), nil
}

func notKept(workspace, id string) error {
	return reason.Errorf(reason.NotFound, "the change set %s of workspace %s does not exist", quote(id), quote(workspace)).
		WithRemedy("List the change sets with `palyra workspace changes`; the last %d of each workspace are kept.", keptSets)
}

// List returns the change sets of a workspace, the latest first. It omits change sets that a
// crash interrupted and that Recover has not handled yet.
func (h History) List(workspace string) ([]Summary, error) {
	if !idForm.MatchString(workspace) {
		return nil, nil
	}
	all, err := h.all(workspace)
	if err != nil {
		return nil, err
	}
	all = slices.DeleteFunc(all, func(s Summary) bool {
		return s.State != RecordCommitted && s.State != RecordUndone && s.State != recordDecided
	})
	for i := range all {
		if all[i].State == recordDecided {
			all[i].State = RecordCommitted
		}
	}
	return all, nil
}

// all reads the summaries of a workspace, the latest first.
func (h History) all(workspace string) ([]Summary, error) {
	ids, err := os.ReadDir(filepath.Join(h.Dir, workspace))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, failure("listing the change sets of", workspace, err)
	}
	var all []Summary
	for _, e := range ids {
		if !e.IsDir() {
			continue
		}
		var s Summary
		if err := h.read(workspace, e.Name(), "summary.json", &s); err != nil {
			return nil, err
		}
		if s.State, err = h.state(workspace, e.Name()); err != nil {
			return nil, err
		}
		all = append(all, s)
	}
	slices.SortFunc(all, func(a, b Summary) int {
		if c := b.At.Compare(a.At); c != 0 {
			return c
		}
		return strings.Compare(b.ID, a.ID)
	})
	return all, nil
}

// Get returns one change set with its changes and diff.
func (h History) Get(workspace, id string) (Detail, error) {
	m, err := h.manifest(workspace, id)
	if err != nil {
		return Detail{}, err
	}
	changes, err := changesOf(m.Entries)
	if err != nil {
		return Detail{}, err
	}
	dir, err := h.dir(workspace, id)
	if err != nil {
		return Detail{}, err
	}
	diff, err := os.ReadFile(filepath.Join(dir, "diff.txt"))
	if err != nil {
		return Detail{}, failure("reading the diff of", id, err)
	}
	return Detail{Summary: m.Summary, Changes: changes, Diff: string(diff)}, nil
}

func (h History) manifest(workspace, id string) (manifest, error) {
	var m manifest
	if err := h.read(workspace, id, "manifest.json", &m); err != nil {
		return m, err
	}
	if m.Version != manifestVersion {
		return m, reason.Errorf(reason.Internal, "change set %s was written in version %d of the format; this daemon reads %d", quote(id), m.Version, manifestVersion)
	}
	var err error
	m.State, err = h.state(workspace, id)
	return m, err
}

func (h History) read(workspace, id, name string, v any) error {
	dir, err := h.dir(workspace, id)
	if err != nil {
		return err
	}
	text, err := os.ReadFile(filepath.Join(dir, name))
	if errors.Is(err, fs.ErrNotExist) {
		return notKept(workspace, id)
	}
	if err == nil {
		err = json.Unmarshal(text, v)
	}
	return failure("reading the record of", id, err)
}

func (h History) state(workspace, id string) (RecordState, error) {
	dir, err := h.dir(workspace, id)
	if err != nil {
		return "", err
	}
	text, err := os.ReadFile(filepath.Join(dir, "state"))
	if errors.Is(err, fs.ErrNotExist) {
		return recordPreparing, nil
	}
	return RecordState(text), failure("reading the state of", id, err)
}

// changesOf is the inverse of entries.
func changesOf(all []entry) ([]Change, error) {
	changes := make([]Change, 0, len(all))
	for _, e := range all {
		c := Change{
			Classes: e.Class,
			Was:     State{Type: e.WasType, Size: e.WasSize, SHA256: e.Was},
			Is:      State{Type: e.Type, Size: e.Size, SHA256: e.Is},
		}
		var err [5]error
		c.Path, err[0] = bytesOf(e.Path, e.PathHex)
		c.Is.Target, err[1] = bytesOf(e.Target, e.TargetHex)
		c.Was.Target, err[2] = bytesOf(e.WasTarget, e.WasTargetHex)
		c.Is.Mode, err[3] = modeOf(e.Mode)
		c.Was.Mode, err[4] = modeOf(e.WasMode)
		if err := errors.Join(err[:]...); err != nil {
			return nil, failure("reading the record of", c.Path, err)
		}
		changes = append(changes, c)
	}
	return changes, nil
}

func bytesOf(plain, hexadecimal string) (string, error) {
	if hexadecimal == "" {
		return plain, nil
	}
	raw, err := hex.DecodeString(hexadecimal)
	return string(raw), err
}

func modeOf(octal string) (fs.FileMode, error) {
	if octal == "" {
		return 0, nil
	}
	bits, err := strconv.ParseUint(octal, 8, 9)
	return fs.FileMode(bits), err
}
