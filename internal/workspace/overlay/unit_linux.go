package overlay

import (
	"context"
	"errors"
	"io"
	"io/fs"
	"slices"
	"strings"

	"golang.org/x/sys/unix"

	"palyra/internal/reason"
)

// dirCache keeps the directory that was opened last: changes come sorted.
type dirCache struct {
	root int
	path string
	fd   int
}

// at opens the directory of a path, beneath the workspace and through no link.
func (d *dirCache) at(dir string) (int, error) {
	if dir == "" {
		return d.root, nil
	}
	if d.fd >= 0 && d.path == dir {
		return d.fd, nil
	}
	fd, err := open(d.root, dir, readDir, 0)
	if err != nil {
		return -1, err
	}
	d.close()
	d.path, d.fd = dir, fd
	return fd, nil
}

func (d *dirCache) close() {
	if d.fd >= 0 {
		unix.Close(d.fd)
	}
	d.fd = -1
}

// place splits the path of a unit into its open directory and its name there.
func (t *transaction) place(u *unit) (dir int, base string, err error) {
	parent, base := split(string(u.Path))
	dir, err = t.dirs.at(parent)
	if missing(err) || errors.Is(err, unix.ELOOP) || errors.Is(err, unix.EXDEV) {
		err = conflict(string(u.Path), "its directory is not there any more")
	}
	return dir, base, failure("opening the directory of", string(u.Path), err)
}

// is reports whether a name is the file that was written down, whatever
// somebody wrote to it since.
func (k kept) is(st unix.Stat_t, err error) bool { return err == nil && k.Ino != 0 && st.Ino == k.Ino }

// untouched also compares what changes with the content of a file.
func (k kept) untouched(st unix.Stat_t, err error) bool {
	return k.is(st, err) && (typeOf(st.Mode) == Dir || st.Size == k.Size && st.Mtim.Nano() == k.Mtime)
}

func keep(st unix.Stat_t) kept { return kept{Ino: st.Ino, Size: st.Size, Mtime: st.Mtim.Nano()} }

// put moves a unit into place with one rename.
func (t *transaction) put(_ context.Context, u *unit) error {
	dir, base, err := t.place(u)
	if err != nil {
		return err
	}
	flags := uint(unix.RENAME_NOREPLACE)
	from, to := u.Temp, base
	switch {
	case u.Is == None:
		from, to = base, u.Temp
	case u.Was != None:
		flags = unix.RENAME_EXCHANGE
	}
	err = unix.Renameat2(dir, from, dir, to, flags)
	switch {
	case errors.Is(err, unix.EEXIST):
		return conflict(string(u.Path), "it exists already")
	case errors.Is(err, unix.ENOENT):
		return conflict(string(u.Path), "it does not exist any more")
	case errors.Is(err, unix.EINVAL), errors.Is(err, unix.ENOSYS):
		return reason.Errorf(reason.ToolFailed, "writing %s: the file system cannot exchange two names (renameat2): %w", quote(string(u.Path)), err).
			WithRemedy("Put the workspace on a local file system such as ext4, xfs, btrfs or tmpfs.")
	}
	return failure("writing", string(u.Path), err)
}

// isPut reports whether a unit is in place. Its temporary name is nobody
// else's, so what lies there was taken out of the way, whether it is what the
// change set was made from or what somebody put there meanwhile.
func (t *transaction) isPut(u *unit) (bool, error) {
	dir, base, err := t.place(u)
	if err != nil {
		return false, err
	}
	if u.Is == None {
		_, err := statAt(dir, u.Temp)
		return err == nil, nil
	}
	st, err := statAt(dir, base)
	return u.Fresh.is(st, err), nil
}

// takeBack undoes put, and removes what was made for the unit. What is not what
// was written down is somebody else's and stays.
func (t *transaction) takeBack(u *unit) error {
	done, err := t.isPut(u)
	if err != nil {
		return err
	}
	dir, base, err := t.place(u)
	if err != nil {
		return err
	}
	if done {
		if err := unput(u, dir, base); err != nil {
			return err
		}
	}
	return t.dropFresh(u, dir)
}

// unput is the reverse of put.
func unput(u *unit, dir int, base string) error {
	from, to, flags := base, u.Temp, uint(unix.RENAME_NOREPLACE)
	switch {
	case u.Is == None:
		from, to = to, from
	case u.Was != None:
		flags = unix.RENAME_EXCHANGE
	}
	return failure("restoring", string(u.Path), unix.Renameat2(dir, from, dir, to, flags))
}

// dropFresh removes the temporary name when it holds what was made for a unit.
func (t *transaction) dropFresh(u *unit, dir int) error {
	st, err := statAt(dir, u.Temp)
	if missing(err) {
		return nil
	}
	if u.Fresh.untouched(st, err) {
		return failure("removing", u.Temp, removeTree(dir, u.Temp))
	}
	return reason.Errorf(reason.CommitConflict, "%s was changed while it was being written; what was there is kept as %s", quote(string(u.Path)), quote(u.Temp))
}

// prove looks at what a unit took out of the way: it must be what the change
// set was made from, to the last byte and name.
func (t *transaction) prove(ctx context.Context, u *unit) error {
	if u.Was == None {
		return nil
	}
	dir, _, err := t.place(u)
	if err != nil {
		return err
	}
	for _, i := range u.changes {
		c := &t.changes[i]
		if c.Was.Type == None {
			continue
		}
		name := u.Temp + strings.TrimPrefix(c.Path, string(u.Path))
		if err := t.proveOne(ctx, dir, name, c, u.children[c.Path]); err != nil {
			return failure("reading", c.Path, err)
		}
	}
	return nil
}

func (t *transaction) proveOne(ctx context.Context, dir int, name string, c *Change, children []string) error {
	at, err := open(dir, name, unix.O_PATH|unix.O_NOFOLLOW, 0)
	if err != nil {
		return err
	}
	defer unix.Close(at)
	st, err := fstat(at)
	if err != nil {
		return err
	}
	if typeOf(st.Mode) != c.Was.Type || c.Was.Type != Symlink && fileMode(st.Mode) != c.Was.Mode {
		return conflict(c.Path, "it is not what it was")
	}
	switch c.Was.Type {
	case Dir:
		return t.proveNames(dir, name, c.Path, children)
	case Symlink:
		l, err := link(at, "")
		if err == nil && l.Target != c.Was.Target {
			err = conflict(c.Path, "it points elsewhere")
		}
		return err
	}
	fd, err := open(dir, name, readFile, 0)
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	sum, _, err := digest(ctx, reader(fd), t.buffer, io.Discard)
	if err == nil && sum != c.Was.SHA256 {
		err = conflict(c.Path, "its content is another")
	}
	return err
}

// proveNames compares the names of a directory with those that were seen.
func (t *transaction) proveNames(dir int, name, path string, children []string) error {
	fd, err := open(dir, name, readDir, 0)
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	found, err := listed(fd)
	if err == nil && !slices.Equal(found, children) {
		err = conflict(path, "files were added to it or removed from it")
	}
	return err
}

// setMode gives a directory its new mode, when it has the old one. Set-ID and
// sticky bits stay as they are.
func (t *transaction) setMode(u *unit, was, is fs.FileMode) error {
	return t.withMode(u, func(fd int, st unix.Stat_t) error {
		switch fileMode(st.Mode) {
		case is:
			return nil
		case was:
			return unix.Chmod(magic(fd), uint32(is)|st.Mode&extraBits)
		}
		return conflict(string(u.Path), "its mode is another")
	})
}

// restoreMode takes setMode back. A mode that is neither is somebody else's.
func (t *transaction) restoreMode(u *unit) error {
	err := t.setMode(u, u.IsMode, u.WasMode)
	if reason.Of(err) == reason.CommitConflict {
		return nil
	}
	return err
}

// checkMode proves that a directory has the mode that it had.
func (t *transaction) checkMode(u *unit) error {
	return t.withMode(u, func(_ int, st unix.Stat_t) error {
		if fileMode(st.Mode) != u.WasMode {
			return conflict(string(u.Path), "its mode is another")
		}
		return nil
	})
}

// withMode opens the directory of a unit and looks at it.
func (t *transaction) withMode(u *unit, do func(fd int, st unix.Stat_t) error) error {
	fd, err := open(t.dirs.root, string(u.Path), unix.O_PATH|unix.O_DIRECTORY|unix.O_NOFOLLOW, 0)
	if missing(err) || errors.Is(err, unix.ELOOP) {
		return conflict(string(u.Path), "it does not exist any more")
	}
	if err != nil {
		return failure("opening", string(u.Path), err)
	}
	defer unix.Close(fd)
	st, err := fstat(fd)
	if err == nil {
		err = do(fd, st)
	}
	return failure("changing the mode of", string(u.Path), err)
}

func conflict(name, why string) error {
	return reason.Errorf(reason.CommitConflict, "%s changed in the workspace meanwhile: %s", quote(name), why).WithField("path", Display(name))
}
