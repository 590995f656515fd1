package overlay

import (
	"context"
	"errors"
	"io"
	"io/fs"
	"slices"
	"strings"

	"golang.org/x/sys/unix"

	"palyra/internal/core/reason"
)

// dirCache keeps the last opened directory, because changes are sorted.
type dirCache struct {
	root int
	path string
	fd   int
}

// at opens the directory of a path, beneath the workspace and without following links.
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

// locate splits the path of a replacement into its open directory and its name there.
func (t *transaction) locate(r *replacement) (dir int, base string, err error) {
	parent, base := split(string(r.Path))
	dir, err = t.dirs.at(parent)
	if missing(err) || errors.Is(err, unix.ELOOP) || errors.Is(err, unix.EXDEV) {
		err = conflict(string(r.Path), "its directory no longer exists")
	}
	return dir, base, failure("opening the directory of", string(r.Path), err)
}

// is reports whether a name is the recorded file, even if it was written since.
func (f fingerprint) is(st unix.Stat_t, err error) bool {
	return err == nil && f.Ino != 0 && st.Ino == f.Ino
}

// untouched also compares the attributes that change with the content of a file.
func (f fingerprint) untouched(st unix.Stat_t, err error) bool {
	return f.is(st, err) && (typeOf(st.Mode) == Dir || st.Size == f.Size && st.Mtim.Nano() == f.Mtime)
}

func fingerprintOf(st unix.Stat_t) fingerprint {
	return fingerprint{Ino: st.Ino, Size: st.Size, Mtime: st.Mtim.Nano()}
}

// install moves a replacement into place with one rename.
func (t *transaction) install(_ context.Context, r *replacement) error {
	dir, base, err := t.locate(r)
	if err != nil {
		return err
	}
	flags := uint(unix.RENAME_NOREPLACE)
	from, to := r.Temp, base
	switch {
	case r.Is == None:
		from, to = base, r.Temp
	case r.Was != None:
		flags = unix.RENAME_EXCHANGE
	}
	err = unix.Renameat2(dir, from, dir, to, flags)
	switch {
	case errors.Is(err, unix.EEXIST):
		return conflict(string(r.Path), "it already exists")
	case errors.Is(err, unix.ENOENT):
		return conflict(string(r.Path), "it no longer exists")
	case errors.Is(err, unix.EINVAL), errors.Is(err, unix.ENOSYS):
		return reason.Errorf(reason.ToolFailed, "writing %s: the file system cannot exchange two names (renameat2): %w", quote(string(r.Path)), err).
			WithRemedy("Move the workspace to a local file system such as ext4, xfs, btrfs or tmpfs.")
	}
	return failure("writing", string(r.Path), err)
}

// isInstalled reports whether a replacement is in place. A deletion is in place if its temporary
// name exists: only this transaction uses that name, so the entry was moved there from the path.
func (t *transaction) isInstalled(r *replacement) (bool, error) {
	dir, base, err := t.locate(r)
	if err != nil {
		return false, err
	}
	if r.Is == None {
		_, err := statAt(dir, r.Temp)
		return err == nil, nil
	}
	st, err := statAt(dir, base)
	return r.Fresh.is(st, err), nil
}

// revert undoes install, and removes the files built for the replacement. A file with another
// fingerprint belongs to another process and stays.
func (t *transaction) revert(r *replacement) error {
	done, err := t.isInstalled(r)
	if err != nil {
		return err
	}
	dir, base, err := t.locate(r)
	if err != nil {
		return err
	}
	if done {
		if err := uninstall(r, dir, base); err != nil {
			return err
		}
	}
	return t.removeNew(r, dir)
}

// uninstall is the inverse of install.
func uninstall(r *replacement, dir int, base string) error {
	from, to, flags := base, r.Temp, uint(unix.RENAME_NOREPLACE)
	switch {
	case r.Is == None:
		from, to = to, from
	case r.Was != None:
		flags = unix.RENAME_EXCHANGE
	}
	return failure("restoring", string(r.Path), unix.Renameat2(dir, from, dir, to, flags))
}

// removeNew removes the temporary name if it holds the file built for a replacement.
func (t *transaction) removeNew(r *replacement, dir int) error {
	st, err := statAt(dir, r.Temp)
	if missing(err) {
		return nil
	}
	if r.Fresh.untouched(st, err) {
		return failure("removing", r.Temp, removeTree(dir, r.Temp))
	}
	return reason.Errorf(reason.CommitConflict, "%s was changed while it was being written; the changed file is kept as %s", quote(string(r.Path)), quote(r.Temp))
}

// verify checks that the replaced entries are identical to the entries from which the change
// set was made.
func (t *transaction) verify(ctx context.Context, r *replacement) error {
	if r.Was == None {
		return nil
	}
	dir, _, err := t.locate(r)
	if err != nil {
		return err
	}
	for _, i := range r.changes {
		c := &t.changes[i]
		if c.Was.Type == None {
			continue
		}
		name := r.Temp + strings.TrimPrefix(c.Path, string(r.Path))
		if err := t.verifyOne(ctx, dir, name, c, r.children[c.Path]); err != nil {
			return failure("reading", c.Path, err)
		}
	}
	return nil
}

func (t *transaction) verifyOne(ctx context.Context, dir int, name string, c *Change, children []string) error {
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
		return conflict(c.Path, "it was changed")
	}
	switch c.Was.Type {
	case Dir:
		return t.verifyNames(dir, name, c.Path, children)
	case Symlink:
		l, err := link(at, "")
		if err == nil && l.Target != c.Was.Target {
			err = conflict(c.Path, "its link target was changed")
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
		err = conflict(c.Path, "its content was changed")
	}
	return err
}

// verifyNames compares the names in a directory with the recorded names.
func (t *transaction) verifyNames(dir int, name, path string, children []string) error {
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

// setMode changes the mode of a directory if it has the old mode. Set-ID and sticky bits stay
// unchanged.
func (t *transaction) setMode(r *replacement, was, is fs.FileMode) error {
	return t.withMode(r, func(fd int, st unix.Stat_t) error {
		switch fileMode(st.Mode) {
		case is:
			return nil
		case was:
			return unix.Chmod(magicLink(fd), uint32(is)|st.Mode&extraBits)
		}
		return conflict(string(r.Path), "its mode was changed")
	})
}

// restoreMode undoes setMode. A directory with a third mode was changed by another process and
// stays.
func (t *transaction) restoreMode(r *replacement) error {
	err := t.setMode(r, r.IsMode, r.WasMode)
	if reason.Of(err) == reason.CommitConflict {
		return nil
	}
	return err
}

// checkMode verifies that a directory still has its recorded mode.
func (t *transaction) checkMode(r *replacement) error {
	return t.withMode(r, func(_ int, st unix.Stat_t) error {
		if fileMode(st.Mode) != r.WasMode {
			return conflict(string(r.Path), "its mode was changed")
		}
		return nil
	})
}

// withMode opens the directory of a replacement and passes its state to do.
func (t *transaction) withMode(r *replacement, do func(fd int, st unix.Stat_t) error) error {
	fd, err := open(t.dirs.root, string(r.Path), unix.O_PATH|unix.O_DIRECTORY|unix.O_NOFOLLOW, 0)
	if missing(err) || errors.Is(err, unix.ELOOP) {
		return conflict(string(r.Path), "it no longer exists")
	}
	if err != nil {
		return failure("opening", string(r.Path), err)
	}
	defer unix.Close(fd)
	st, err := fstat(fd)
	if err == nil {
		err = do(fd, st)
	}
	return failure("changing the mode of", string(r.Path), err)
}

func conflict(name, why string) error {
	return reason.Errorf(reason.CommitConflict, "%s changed in the workspace after the program read it: %s", quote(name), why).WithField("path", Display(name))
}
