package workspace

import (
	"context"
	"crypto/rand"
	"errors"
	"io"
	"io/fs"
	"os"
	"path"
	"strings"

	"golang.org/x/sys/unix"

	"palyra/internal/core/canonical"
	"palyra/internal/core/reason"
)

// stage is one change in progress: the directory is open, and the new content is in the same
// directory under a temporary name.
type stage struct {
	path, base string
	was, is    string
	remove     bool
	dir        *os.File
	// temporary is the second name in dir: it holds the new content before commit, and the old
	// content afterwards. "" means that it does not exist.
	temporary string
	// old is the checked file; it keeps its identity when it is moved.
	old *os.File
	// fresh is the file with the new content.
	fresh     *os.File
	committed bool
}

// madeDir is a directory that was created for a new file.
type madeDir struct {
	parent *os.File
	name   string
}

func (t *transaction) stage(ctx context.Context, real string, c Change) (*stage, error) {
	dir, err := t.openParent(real)
	if err != nil {
		return nil, err
	}
	s := &stage{path: real, base: path.Base(real), was: c.Was, remove: c.Delete, dir: dir}
	if err := s.prepare(ctx, c); err != nil {
		undo := s.undo()
		s.close()
		return nil, joinRollback(err, undo)
	}
	return s, nil
}

func (s *stage) prepare(ctx context.Context, c Change) error {
	st, err := s.judge(ctx)
	if err != nil {
		return err
	}
	name := TemporaryPrefix + rand.Text() + ".tmp"
	if s.remove {
		s.temporary = name
		return nil
	}
	if int64(len(c.Content)) > MaxFile {
		return tooLarge(int64(len(c.Content)))
	}
	s.is = canonical.Digest(c.Content)
	fd, err := openat(s.dir, name, unix.O_WRONLY|unix.O_CREAT|unix.O_EXCL|unix.O_NOFOLLOW, 0o600)
	if err != nil {
		return failure("writing", s.path, err)
	}
	s.temporary, s.fresh = name, os.NewFile(uintptr(fd), name)
	return failureOrNil("writing", s.path, s.fill(c, st))
}

func failureOrNil(doing, name string, err error) error {
	if err == nil {
		return nil
	}
	return failure(doing, name, err)
}

func (s *stage) fill(c Change, st *unix.Stat_t) error {
	if _, err := s.fresh.Write(c.Content); err != nil {
		return err
	}
	if err := s.own(st); err != nil {
		return err
	}
	// The mode is set after chown, which clears bits. Setuid and setgid bits are never carried
	// over.
	mode := newMode(0, false, c.Executable)
	if st != nil {
		mode = newMode(fs.FileMode(st.Mode&0o777), true, c.Executable)
	}
	if err := s.fresh.Chmod(mode); err != nil {
		return err
	}
	return s.fresh.Sync()
}

// own assigns the file to the owner of the file that it replaces, or of the directory, if the
// daemon runs as root.
func (s *stage) own(st *unix.Stat_t) error {
	if os.Geteuid() != 0 {
		return nil
	}
	if st == nil {
		parent, err := fstat(s.dir)
		if err != nil {
			return err
		}
		st = &parent
	}
	return s.fresh.Chown(int(st.Uid), int(st.Gid))
}

// judge opens the existing file and compares it with the expected state. It returns nil if the
// file does not exist, as expected.
func (s *stage) judge(ctx context.Context) (*unix.Stat_t, error) {
	fd, err := openat(s.dir, s.base, unix.O_PATH|unix.O_NOFOLLOW, 0)
	if errors.Is(err, unix.ENOENT) {
		if s.was != "" {
			return nil, conflict(s.path, s.was, "")
		}
		if s.remove {
			return nil, reason.Errorf(reason.FileNotFound, "%s does not exist", quote(s.path))
		}
		return nil, nil
	}
	if err != nil {
		return nil, failure("opening", s.path, err)
	}
	seen := os.NewFile(uintptr(fd), s.path)
	defer seen.Close()
	st, err := fstat(seen)
	if err != nil {
		return nil, failure("opening", s.path, err)
	}
	if err := refuseSpecial(s.path, &st); err != nil {
		return nil, err
	}
	return &st, s.compare(ctx, &st)
}

func refuseSpecial(name string, st *unix.Stat_t) error {
	if kind := kindOf(st.Mode); kind != File {
		return notRegular(name, kind)
	}
	if st.Nlink > 1 {
		return reason.Errorf(reason.WorkspaceScope, "%s has %d hard links, so it may also be a file outside the workspace", quote(name), st.Nlink).
			WithRemedy("Break the link first: copy the file and rename the copy over it.")
	}
	return nil
}

func (s *stage) compare(ctx context.Context, st *unix.Stat_t) error {
	fd, err := openat(s.dir, s.base, unix.O_RDONLY|unix.O_NOFOLLOW|unix.O_NONBLOCK|unix.O_NOCTTY, 0)
	if err != nil {
		return failure("opening", s.path, err)
	}
	s.old = os.NewFile(uintptr(fd), s.path)
	now, err := fstat(s.old)
	if err != nil {
		return failure("opening", s.path, err)
	}
	if !sameFile(st, &now) {
		return conflict(s.path, s.was, "unknown")
	}
	return s.compareOld(ctx)
}

// compareOld compares the content of the old file with the expected digest.
func (s *stage) compareOld(ctx context.Context) error {
	_, is, err := readPart(ctx, s.old, 0, 0)
	if err != nil {
		return failure("reading", s.path, err)
	}
	if is != s.was {
		return conflict(s.path, s.was, is)
	}
	return nil
}

// commit puts the change in place with one rename, and reverts it immediately if the file that
// the rename moved away is not the checked one.
func (s *stage) commit() error {
	var err error
	switch {
	case s.remove:
		err = renameat2(s.dir, s.base, s.temporary, unix.RENAME_NOREPLACE)
	case s.old == nil:
		err = renameat2(s.dir, s.temporary, s.base, unix.RENAME_NOREPLACE)
	default:
		err = renameat2(s.dir, s.temporary, s.base, unix.RENAME_EXCHANGE)
	}
	switch {
	case errors.Is(err, unix.EEXIST):
		return conflict(s.path, "", "unknown")
	case errors.Is(err, unix.ENOENT):
		return conflict(s.path, s.was, "")
	case errors.Is(err, unix.EINVAL), errors.Is(err, unix.ENOSYS):
		return reason.Errorf(reason.ToolFailed, "writing %s: the file system cannot exchange two names (renameat2): %w", quote(s.path), err).
			WithRemedy("Move the workspace to a local file system such as ext4, xfs, btrfs or tmpfs.")
	case err != nil:
		return failure("writing", s.path, err)
	}
	s.committed = true
	if s.old == nil {
		s.temporary = ""
		return nil
	}
	return s.proveOld()
}

// proveOld verifies that the temporary name now holds the checked file with the checked content.
func (s *stage) proveOld() error {
	var moved unix.Stat_t
	if err := statAt(s.dir, s.temporary, &moved); err != nil {
		return failure("writing", s.path, err)
	}
	judged, err := fstat(s.old)
	if err != nil {
		return failure("writing", s.path, err)
	}
	if !sameFile(&moved, &judged) {
		return conflict(s.path, s.was, "unknown")
	}
	if moved.Nlink > 1 {
		return refuseSpecial(s.path, &moved)
	}
	if _, err := s.old.Seek(0, io.SeekStart); err != nil {
		return failure("reading", s.path, err)
	}
	return s.compareOld(context.Background())
}

// undo reverts the change. If it cannot revert, it keeps the old content under the temporary
// name.
func (s *stage) undo() error {
	if !s.committed {
		return s.dropTemporary()
	}
	s.committed = false
	switch {
	case s.remove:
		if err := renameat2(s.dir, s.temporary, s.base, unix.RENAME_NOREPLACE); err != nil {
			return failure("restoring", s.path, err)
		}
		s.temporary = ""
		return nil
	case s.old == nil:
		return s.undoCreate()
	}
	if err := renameat2(s.dir, s.temporary, s.base, unix.RENAME_EXCHANGE); err != nil {
		return failure("restoring", s.path, err)
	}
	return s.dropTemporary()
}

// undoCreate moves the new file away and deletes it only if it is the one that commit put there.
func (s *stage) undoCreate() error {
	name := TemporaryPrefix + rand.Text() + ".tmp"
	if err := renameat2(s.dir, s.base, name, unix.RENAME_NOREPLACE); err != nil {
		return failure("removing", s.path, err)
	}
	s.temporary = name
	return s.dropTemporary()
}

// dropTemporary deletes the temporary name if it holds the file made here.
func (s *stage) dropTemporary() error {
	if s.temporary == "" || s.fresh == nil {
		return nil
	}
	var st unix.Stat_t
	if err := statAt(s.dir, s.temporary, &st); err != nil {
		if errors.Is(err, unix.ENOENT) {
			return nil
		}
		return failure("removing", s.temporary, err)
	}
	ours, err := fstat(s.fresh)
	if err != nil {
		return failure("removing", s.temporary, err)
	}
	if !sameFile(&st, &ours) {
		return reason.Errorf(reason.PatchConflict, "%s was replaced while the change was undone; the replacement is kept as %s",
			quote(s.path), quote(s.temporary))
	}
	return failureOrNil("removing", s.temporary, unlinkat(s.dir, s.temporary))
}

// finish deletes the old content and syncs the directories.
func (t *transaction) finish() error {
	var failed []error
	for _, s := range t.stages {
		if s.temporary != "" {
			failed = append(failed, failureOrNil("removing", s.temporary, unlinkat(s.dir, s.temporary)))
		}
		failed = append(failed, failureOrNil("syncing", path.Dir(s.path), s.dir.Sync()))
	}
	for _, m := range t.made {
		failed = append(failed, failureOrNil("syncing", m.name, m.parent.Sync()))
	}
	return errors.Join(failed...)
}

func (s *stage) close() {
	for _, f := range []*os.File{s.dir, s.old, s.fresh} {
		if f != nil {
			f.Close()
		}
	}
}

func (t *transaction) close() {
	for _, s := range t.stages {
		s.close()
	}
	for _, m := range t.made {
		m.parent.Close()
	}
}

// openParent opens the directory of a resolved path and creates missing directories. It returns a
// readable descriptor, which can be synced.
func (t *transaction) openParent(real string) (*os.File, error) {
	dir, err := t.root.dir.open(".", unix.O_RDONLY|unix.O_DIRECTORY, exact)
	if err != nil {
		return nil, failure("opening", real, err)
	}
	parent := path.Dir(real)
	if parent == "." {
		return dir, nil
	}
	for name := range strings.SplitSeq(parent, "/") {
		next, err := t.descend(dir, name)
		if err != nil {
			// A parent of a created directory stays open for the rollback.
			if len(t.made) == 0 || t.made[len(t.made)-1].parent != dir {
				dir.Close()
			}
			return nil, failure("opening the directory of", real, err)
		}
		dir = next
	}
	return dir, nil
}

// descend opens a directory in dir, creates it if it is missing, and takes ownership of dir.
func (t *transaction) descend(dir *os.File, name string) (*os.File, error) {
	const flags = unix.O_RDONLY | unix.O_DIRECTORY | unix.O_NOFOLLOW
	fd, err := openat(dir, name, flags, 0)
	if errors.Is(err, unix.ENOENT) {
		if err := mkdirat(dir, name); err != nil {
			return nil, err
		}
		t.made = append(t.made, madeDir{parent: dir, name: name})
		fd, err = openat(dir, name, flags, 0)
		if err == nil {
			err = ownLike(dir, fd)
		}
		return os.NewFile(uintptr(fd), name), err
	}
	if err != nil {
		return nil, err
	}
	dir.Close()
	return os.NewFile(uintptr(fd), name), nil
}

// ownLike assigns a new directory to the owner of its parent if the daemon runs as root.
func ownLike(parent *os.File, fd int) error {
	if os.Geteuid() != 0 {
		return nil
	}
	st, err := fstat(parent)
	if err != nil {
		return err
	}
	return unix.Fchown(fd, int(st.Uid), int(st.Gid))
}

// removeMade removes the created directories if they are empty.
func (t *transaction) removeMade() {
	for i := len(t.made) - 1; i >= 0; i-- {
		m := t.made[i]
		_ = control(m.parent, func(fd int) error { return unix.Unlinkat(fd, m.name, unix.AT_REMOVEDIR) })
	}
}

func control(f *os.File, do func(fd int) error) error {
	conn, err := f.SyscallConn()
	if err != nil {
		return err
	}
	var failed error
	err = conn.Control(func(fd uintptr) { failed = do(int(fd)) })
	return errors.Join(err, failed)
}

// openat opens one name in a directory. The name must not contain a slash, and every use sets
// O_NOFOLLOW or creates a new file.
func openat(dir *os.File, name string, flags int, mode uint32) (int, error) {
	fd := -1
	err := control(dir, func(at int) error {
		var err error
		fd, err = unix.Openat(at, name, flags|unix.O_CLOEXEC, mode)
		return err
	})
	return fd, err
}

func renameat2(dir *os.File, from, to string, flags uint) error {
	return control(dir, func(fd int) error { return unix.Renameat2(fd, from, fd, to, flags) })
}

func unlinkat(dir *os.File, name string) error {
	return control(dir, func(fd int) error { return unix.Unlinkat(fd, name, 0) })
}

func mkdirat(dir *os.File, name string) error {
	return control(dir, func(fd int) error { return unix.Mkdirat(fd, name, 0o755) })
}
