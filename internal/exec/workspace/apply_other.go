//go:build !linux

package workspace

import (
	"context"
	"crypto/rand"
	"errors"
	"io/fs"
	"os"
	"path"
	"path/filepath"

	"palyra/internal/core/canonical"
	"palyra/internal/core/reason"
)

// stage is one change in progress. Without renameat2(2), two names cannot be exchanged in one
// step. The old content therefore gets a second link first, and a change of the file between the
// last check and the rename is not detected.
type stage struct {
	root      *Root
	path      string
	was, is   string
	remove    bool
	temporary string
	aside     string
	committed bool
}

// madeDir is a directory that was created for a new file.
type madeDir struct{ name string }

func (t *transaction) stage(ctx context.Context, real string, c Change) (*stage, error) {
	s := &stage{root: t.root, path: real, was: c.Was, remove: c.Delete}
	info, err := s.check(ctx)
	if err != nil || c.Delete {
		return s, err
	}
	if err := t.makeParents(path.Dir(real)); err != nil {
		return nil, err
	}
	s.is = canonical.Digest(c.Content)
	if err := s.write(c, info); err != nil {
		return nil, errors.Join(failure("writing", real, err), s.undo())
	}
	return s, nil
}

// check compares the existing file with the expected state.
func (s *stage) check(ctx context.Context) (*Info, error) {
	content, err := s.root.ReadFile(ctx, s.path, 0, 0)
	switch {
	case reason.Of(err) == reason.FileNotFound && s.was == "" && !s.remove:
		return nil, nil
	case reason.Of(err) == reason.FileNotFound && s.was != "":
		return nil, conflict(s.path, s.was, "")
	case err != nil:
		return nil, err
	case content.SHA256 != s.was:
		return nil, conflict(s.path, s.was, content.SHA256)
	case content.Info.Links > 1:
		return nil, reason.Errorf(reason.WorkspaceScope, "%s has %d hard links, so it may also be a file outside the workspace", quote(s.path), content.Info.Links).
			WithRemedy("Break the link first: copy the file and rename the copy over it.")
	}
	return &content.Info, nil
}

func (s *stage) sibling() string {
	return filepath.FromSlash(join(path.Dir(s.path), TemporaryPrefix+rand.Text()+".tmp"))
}

func (s *stage) write(c Change, info *Info) error {
	if int64(len(c.Content)) > MaxFile {
		return tooLarge(int64(len(c.Content)))
	}
	name := s.sibling()
	file, err := s.root.dir.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	s.temporary = name
	mode := newMode(0, false, c.Executable)
	if info != nil {
		mode = newMode(info.Mode, true, c.Executable)
	}
	_, err = file.Write(c.Content)
	return errors.Join(err, chmod(file, mode), file.Sync(), file.Close())
}

func (s *stage) commit() error {
	if _, err := s.check(context.Background()); err != nil {
		return err
	}
	name := filepath.FromSlash(s.path)
	if s.was != "" {
		aside := s.sibling()
		if err := s.root.dir.Rename(name, aside); err != nil {
			return failure("writing", s.path, err)
		}
		s.aside = aside
	}
	s.committed = true
	if s.remove {
		return nil
	}
	if _, err := s.root.dir.Lstat(name); !errors.Is(err, fs.ErrNotExist) {
		s.committed = false
		return errors.Join(conflict(s.path, "", "unknown"), s.restore())
	}
	if err := s.root.dir.Rename(s.temporary, name); err != nil {
		s.committed = false
		return errors.Join(failure("writing", s.path, err), s.restore())
	}
	s.temporary = ""
	return nil
}

// restore puts the old content back if no other file took its place.
func (s *stage) restore() error {
	if s.aside == "" {
		return nil
	}
	name := filepath.FromSlash(s.path)
	if _, err := s.root.dir.Lstat(name); !errors.Is(err, fs.ErrNotExist) {
		return reason.Errorf(reason.PatchConflict, "%s was replaced while the change was undone; its earlier content is kept as %s", quote(s.path), quote(s.aside))
	}
	if err := s.root.dir.Rename(s.aside, name); err != nil {
		return failure("restoring", s.path, err)
	}
	s.aside = ""
	return nil
}

func (s *stage) undo() error {
	var failed error
	if s.committed && !s.remove {
		failed = s.root.dir.Remove(filepath.FromSlash(s.path))
	}
	if s.committed {
		failed = errors.Join(failed, s.restore())
	}
	s.committed = false
	if s.temporary != "" {
		failed = errors.Join(failed, s.root.dir.Remove(s.temporary))
		s.temporary = ""
	}
	if failed != nil {
		return failure("restoring", s.path, failed)
	}
	return nil
}

func (t *transaction) finish() error {
	var failed []error
	for _, s := range t.stages {
		if s.aside != "" {
			failed = append(failed, s.root.dir.Remove(s.aside))
		}
	}
	return errors.Join(failed...)
}

func (t *transaction) close() {}

func (t *transaction) makeParents(dir string) error {
	if dir == "." {
		return nil
	}
	if _, err := t.root.dir.Lstat(filepath.FromSlash(dir)); err == nil {
		return nil
	}
	if err := t.makeParents(path.Dir(dir)); err != nil {
		return err
	}
	if err := t.root.dir.Mkdir(filepath.FromSlash(dir), 0o755); err != nil {
		return failure("making", dir, err)
	}
	t.made = append(t.made, madeDir{name: dir})
	return nil
}

func (t *transaction) removeMade() {
	for i := len(t.made) - 1; i >= 0; i-- {
		_ = t.root.dir.Remove(filepath.FromSlash(t.made[i].name))
	}
}
