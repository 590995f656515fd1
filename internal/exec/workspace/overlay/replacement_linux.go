package overlay

import (
	"context"
	"errors"
	"io/fs"

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

// replacer moves replacements into place in a workspace, and back.
type replacer struct {
	dirs         dirCache
	replacements []replacement
}

// open opens the workspace until done is called.
func (rp *replacer) open(root int) (done func(), err error) {
	low, err := open(root, ".", readDir, 0)
	if err != nil {
		return nil, err
	}
	rp.dirs = dirCache{root: low, fd: -1}
	return func() { rp.dirs.close(); unix.Close(low) }, nil
}

// locate splits the path of a replacement into its open directory and its name there.
func (rp *replacer) locate(r *replacement) (dir int, base string, err error) {
	parent, base := split(string(r.Path))
	dir, err = rp.dirs.at(parent)
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
func (rp *replacer) install(_ context.Context, r *replacement) error {
	dir, base, err := rp.locate(r)
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
func (rp *replacer) isInstalled(r *replacement) (bool, error) {
	dir, base, err := rp.locate(r)
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
func (rp *replacer) revert(r *replacement) error {
	done, err := rp.isInstalled(r)
	if err != nil {
		return err
	}
	dir, base, err := rp.locate(r)
	if err != nil {
		return err
	}
	if done {
		if err := uninstall(r, dir, base); err != nil {
			return err
		}
	}
	return rp.removeNew(r, dir)
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
func (rp *replacer) removeNew(r *replacement, dir int) error {
	st, err := statAt(dir, r.Temp)
	if missing(err) {
		return nil
	}
	if r.Fresh.untouched(st, err) {
		return failure("removing", r.Temp, removeTree(dir, r.Temp))
	}
	return reason.Errorf(reason.CommitConflict, "%s was changed while it was being written; the changed file is kept as %s", quote(string(r.Path)), quote(r.Temp))
}

// setMode changes the mode of a directory if it has the old mode. Set-ID and sticky bits stay
// unchanged.
func (rp *replacer) setMode(r *replacement, was, is fs.FileMode) error {
	return rp.withMode(r, func(fd int, st unix.Stat_t) error {
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
func (rp *replacer) restoreMode(r *replacement) error {
	err := rp.setMode(r, r.IsMode, r.WasMode)
	if reason.Of(err) == reason.CommitConflict {
		return nil
	}
	return err
}

// checkMode verifies that a directory still has its recorded mode.
func (rp *replacer) checkMode(r *replacement) error {
	return rp.withMode(r, func(_ int, st unix.Stat_t) error {
		if fileMode(st.Mode) != r.WasMode {
			return conflict(string(r.Path), "its mode was changed")
		}
		return nil
	})
}

// withMode opens the directory of a replacement and passes its state to do.
func (rp *replacer) withMode(r *replacement, do func(fd int, st unix.Stat_t) error) error {
	fd, err := open(rp.dirs.root, string(r.Path), unix.O_PATH|unix.O_DIRECTORY|unix.O_NOFOLLOW, 0)
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

// removeOld removes the replaced files.
func (rp *replacer) removeOld(r *replacement) error {
	if r.modeOnly() || r.Was == None {
		return nil
	}
	dir, _, err := rp.locate(r)
	if err != nil {
		return err
	}
	st, err := statAt(dir, r.Temp)
	if missing(err) || err == nil && !r.Old.is(st, err) {
		return nil
	}
	return failure("removing", r.Temp, removeTree(dir, r.Temp))
}

// discard removes the files that prepare made. None of them is in place yet, and only this change
// set uses names with its id.
func (rp *replacer) discard() error {
	return rp.backwards(func(r *replacement) error {
		dir, _, err := rp.locate(r)
		if reason.Of(err) == reason.CommitConflict {
			return nil // its directory is gone with its content
		}
		if err != nil {
			return err
		}
		return failure("removing", r.Temp, removeTree(dir, r.Temp))
	})
}

// rollback reverts apply and prepare of the transaction.
func (rp *replacer) rollback() error { return rp.backwards(rp.revert) }

// backwards undoes every replacement, the last first.
func (rp *replacer) backwards(undo func(r *replacement) error) error {
	var failed []error
	for i := len(rp.replacements) - 1; i >= 0; i-- {
		r := &rp.replacements[i]
		switch {
		case !r.modeOnly():
			failed = append(failed, undo(r))
		case r.widens():
			failed = append(failed, rp.restoreMode(r))
		}
	}
	return errors.Join(failed...)
}

// forward repeats the renames that a power failure reverted after the change set was decided.
func (rp *replacer) forward() error {
	for i := range rp.replacements {
		r := &rp.replacements[i]
		if r.modeOnly() {
			continue
		}
		dir, base, err := rp.locate(r)
		if err != nil {
			return err
		}
		st, statErr := statAt(dir, r.Temp)
		again := r.Fresh.untouched(st, statErr)
		if r.Is == None {
			st, statErr = statAt(dir, base)
			again = r.Old.untouched(st, statErr)
		}
		if again {
			if err := rp.install(context.Background(), r); err != nil {
				return err
			}
		}
	}
	return nil
}

func conflict(name, why string) error {
	return reason.Errorf(reason.CommitConflict, "%s changed in the workspace after the program read it: %s", quote(name), why).WithField("path", Display(name))
}
