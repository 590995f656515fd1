package overlay

import (
	"context"
	"errors"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"palyra/internal/core/reason"
)

// finish cleans up after a change set is in place: it removes the replaced files, sets the modes
// of directories, and marks the change set that it undid.
func (h History) finish(root int, m *manifest) error {
	rp := &replacer{replacements: m.Replacements}
	done, err := rp.open(root)
	if err != nil {
		return err
	}
	defer done()
	var failed []error
	for i := range rp.replacements {
		failed = append(failed, rp.removeOld(&rp.replacements[i]))
	}
	for i := range rp.replacements {
		if r := &rp.replacements[i]; r.modeOnly() && !r.widens() {
			failed = append(failed, rp.setMode(r, r.WasMode, r.IsMode))
		}
	}
	if m.Undoes != "" {
		failed = append(failed, h.mark(m.Workspace, m.Undoes, RecordUndone))
	}
	if err := errors.Join(failed...); err != nil {
		return err
	}
	return h.mark(m.Workspace, m.ID, RecordCommitted)
}

func (h History) mark(workspace, id string, s RecordState) error {
	dir, err := h.dir(workspace, id)
	if err != nil {
		return err
	}
	if _, err := os.Stat(dir); errors.Is(err, os.ErrNotExist) {
		return nil // it was pruned in the meantime
	}
	return setState(dir, s)
}

// Undo reverts a committed change set, either completely or not at all: every path must still be
// as the change set left it, otherwise the error is reason.CommitConflict. root is the canonical
// path of the workspace. The reversal is a separate change set with the id of o, which can be
// undone as well.
func (h History) Undo(ctx context.Context, root, workspace, id string, o Options) (Applied, error) {
	m, set, err := h.reversal(workspace, id, o.Protected)
	if err != nil {
		return Applied{}, err
	}
	content, err := h.replaced(m)
	if err != nil {
		return Applied{}, err
	}
	defer content.Close()
	lower, err := openRoot(root)
	if err != nil {
		return Applied{}, err
	}
	defer lower.Close()
	s := set.summary(o)
	s.Undoes = id
	from := func(i int, c *Change) (io.Reader, func(), error) {
		return io.NewSectionReader(content, m.Offsets[i], c.Is.Size), func() {}, nil
	}
	return commit(ctx, lower, set.Changes, from, s, "# takes back "+id+"\n", h)
}

// Reversal returns the change set that would undo another one. Its Diff is empty. Its changes
// have the classes of the undone changes and the classes of the restored entries, by the
// operator's current patterns.
func (h History) Reversal(workspace, id string, protected []string) (Set, error) {
	_, set, err := h.reversal(workspace, id, protected)
	return set, err
}

func (h History) reversal(workspace, id string, protected []string) (manifest, Set, error) {
	m, err := h.manifest(workspace, id)
	if err != nil {
		return m, Set{}, err
	}
	if err := m.refuseUndo(); err != nil {
		return m, Set{}, err
	}
	changes, err := changesOf(m.Entries)
	if err != nil {
		return m, Set{}, err
	}
	for i := range changes {
		c := &changes[i]
		c.Was, c.Is = c.Is, c.Was
		c.Classes = append(slices.Clone(c.Classes), Returning(c.Path, c.Is, protected)...)
		slices.Sort(c.Classes)
		c.Classes = slices.Compact(c.Classes)
	}
	set, err := NewSet(workspace, changes)
	return m, set, err
}

func (m manifest) refuseUndo() error {
	switch {
	case m.State == RecordUndone:
		return reason.Errorf(reason.AlreadyExists, "change set %s is already undone", quote(m.ID))
	case m.State != RecordCommitted:
		return reason.Errorf(reason.CommitConflict, "change set %s is not finished", quote(m.ID)).WithRemedy("Restart the daemon to finish it.")
	case m.Kept < 0:
		return reason.Errorf(reason.CommitConflict, "change set %s replaced %d bytes, which is more than the limit for keeping them", quote(m.ID), int64(keptBytes)).
			WithRemedy("Restore the files from version control or a backup.")
	}
	return nil
}

// Recover completes or rolls back the commits and undos that a crash interrupted. roots are the
// canonical paths of the declared workspaces by name; change sets of other workspaces are left
// unchanged. It must be called before the first commit of a daemon.
func (h History) Recover(roots map[string]string) ([]Recovered, error) {
	var done []Recovered
	var failed []error
	for workspace, root := range roots {
		r, err := h.recoverOne(workspace, root)
		done, failed = append(done, r...), append(failed, err)
	}
	return done, errors.Join(failed...)
}

func (h History) recoverOne(workspace, root string) ([]Recovered, error) {
	parent := filepath.Join(h.Dir, workspace)
	ids, err := os.ReadDir(parent)
	if errors.Is(err, os.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, failure("listing the change sets of", workspace, err)
	}
	unlock, err := h.lock(workspace)
	if err != nil {
		return nil, err
	}
	defer unlock()
	lower, err := openRoot(root)
	if err != nil {
		return nil, err
	}
	defer lower.Close()
	var done []Recovered
	var failed []error
	for _, e := range ids {
		if strings.HasPrefix(e.Name(), ".new-") {
			failed = append(failed, os.RemoveAll(filepath.Join(parent, e.Name())))
			continue
		}
		err := control(lower, func(fd int) error {
			r, err := h.recover(fd, workspace, e.Name())
			if r != nil {
				done = append(done, *r)
			}
			return err
		})
		failed = append(failed, err)
	}
	return done, errors.Join(failed...)
}

// recover handles one change set; nil means that it was already complete.
func (h History) recover(root int, workspace, id string) (*Recovered, error) {
	state, err := h.state(workspace, id)
	if err != nil || state == RecordCommitted || state == RecordUndone {
		return nil, err
	}
	m, err := h.manifest(workspace, id)
	if err != nil {
		return nil, err
	}
	if state != recordPreparing {
		if err := h.read(workspace, id, "prepared.json", &m.Replacements); err != nil {
			return nil, err
		}
	}
	rp := &replacer{replacements: m.Replacements}
	done, err := rp.open(root)
	if err != nil {
		return nil, err
	}
	defer done()
	back := rp.rollback
	switch state {
	case recordDecided:
		if err := rp.forward(); err != nil {
			return nil, err
		}
		return &Recovered{workspace, id, true}, h.finish(root, &m)
	case recordPreparing:
		back = rp.discard
	}
	if err := back(); err != nil {
		return nil, err
	}
	dir, err := h.dir(workspace, id)
	if err == nil {
		err = os.RemoveAll(dir)
	}
	return &Recovered{workspace, id, false}, err
}
