package workspace

import (
	"context"
	"errors"
	"io/fs"
	"path"
	"slices"
	"strings"

	"palyra/internal/core/reason"
)

// Change is one file to write, create or delete.
type Change struct {
	// Path is relative to the workspace, as resolved by Target. If a link on the path now leads
	// elsewhere, Apply refuses the change.
	Path string
	// Was is the digest, "sha256:<hex>", that the file must currently have, "" if it must not
	// exist.
	Was string
	// Content is the new content; it is ignored with Delete.
	Content []byte
	Delete  bool
	// Executable sets or clears the execute bits of the file. nil keeps the mode; a new file gets
	// 0644.
	Executable *bool
}

// Applied is an applied change.
type Applied struct {
	// Path is the path of the file after resolving all links.
	Path string
	// Was and Is are "sha256:<hex>", "" for no file.
	Was string
	Is  string
}

// TemporaryPrefix is the name prefix of files that exist only during a change.
const TemporaryPrefix = ".palyra-"

// Apply makes all changes or none. It replaces each file as a whole by a rename, and only if it
// still has the digest Was. The digest is checked again on the file that the rename moved away: a
// concurrent edit results in reason.PatchConflict and is kept. New files and their new
// directories are synced to disk before Apply returns. Files that are not regular, have other
// hard links, or are protected are refused, and so is a read-only workspace.
func (r *Root) Apply(ctx context.Context, changes []Change) ([]Applied, error) {
	if r.ReadOnly() {
		return nil, reason.Errorf(reason.WorkspaceScope, "workspace %q is read-only", r.Name()).
			WithRemedy("Ask the operator to declare it without read_only.")
	}
	t := &transaction{root: r}
	defer t.close()
	if err := t.prepare(ctx, changes); err != nil {
		return nil, joinRollback(err, t.rollback())
	}
	for _, s := range t.stages {
		if err := s.commit(); err != nil {
			return nil, joinRollback(err, t.rollback())
		}
	}
	applied := make([]Applied, 0, len(t.stages))
	for _, s := range t.stages {
		applied = append(applied, Applied{Path: s.path, Was: s.was, Is: s.is})
	}
	return applied, t.finish()
}

// joinRollback adds a rollback error to the original error and keeps the original reason.
func joinRollback(err, undo error) error {
	if undo == nil {
		return err
	}
	return reason.Errorf(reason.Of(err), "%w; undoing the other changes failed as well: %w", err, undo).
		WithRemedy("Inspect the named files: parts of the change may be in place, and earlier content is kept in files that begin with %s.", TemporaryPrefix)
}

// transaction is a set of changes in progress.
type transaction struct {
	root   *Root
	stages []*stage
	made   []madeDir
}

func (t *transaction) prepare(ctx context.Context, changes []Change) error {
	seen := map[string]bool{}
	resolved := slices.Clone(changes)
	for i, c := range changes {
		if err := ctx.Err(); err != nil {
			return failure("writing", c.Path, err)
		}
		real, err := t.root.Target(c.Path)
		if err != nil {
			return err
		}
		if real != path.Clean(c.Path) {
			return reason.Errorf(reason.PatchConflict, "%s now leads to %s", quote(c.Path), quote(real))
		}
		if seen[real] {
			return reason.Errorf(reason.InvalidInput, "%s is changed twice", quote(real))
		}
		seen[real] = true
		resolved[i].Path = real
	}
	if err := t.root.Judge(resolved); err != nil {
		return err
	}
	for _, c := range resolved {
		s, err := t.stage(ctx, c.Path, c)
		if err != nil {
			return err
		}
		t.stages = append(t.stages, s)
	}
	return nil
}

// Target resolves the path of a file to write. It refuses misleading names, protected paths, and
// the temporary files of this package.
func (r *Root) Target(name string) (string, error) {
	if err := checkPath(name); err != nil {
		return "", err
	}
	if err := checkNewName(name); err != nil {
		return "", err
	}
	real, err := r.Resolve(name)
	if err != nil {
		return "", err
	}
	if err := checkNewName(real); err != nil {
		return "", err
	}
	if ProtectedForWriting(real) || ProtectedForWriting(name) {
		return "", reason.Errorf(reason.ProtectedPath, "%s is protected", quote(real)).WithField("path", real)
	}
	if strings.HasPrefix(path.Base(real), TemporaryPrefix) {
		return "", reason.Errorf(reason.InvalidInput, "names that begin with %s are reserved for temporary files", TemporaryPrefix)
	}
	return real, nil
}

// rollback undoes the stages in reverse order and removes the directories that were made.
func (t *transaction) rollback() error {
	var failed []error
	for i := len(t.stages) - 1; i >= 0; i-- {
		failed = append(failed, t.stages[i].undo())
	}
	t.removeMade()
	return errors.Join(failed...)
}

// conflict returns the error for a file that differs from the expected state.
func conflict(name, was, is string) error {
	e := reason.Errorf(reason.PatchConflict, "%s has changed: its digest is not the expected one", quote(name))
	switch {
	case was == "":
		e = reason.Errorf(reason.PatchConflict, "%s already exists", quote(name))
	case is == "":
		e = reason.Errorf(reason.PatchConflict, "%s no longer exists", quote(name))
	}
	return e.WithField("expected_sha256", was).WithField("found_sha256", is)
}

func newMode(old fs.FileMode, exists bool, executable *bool) fs.FileMode {
	mode := fs.FileMode(0o644)
	if exists {
		mode = old & 0o777
	}
	if executable != nil {
		mode &^= 0o111
		if *executable {
			mode |= (mode & 0o444) >> 2
		}
	}
	return mode
}
