package overlay

import (
	"context"
	"errors"
	"io"
	"os"
	"slices"
	"strings"

	"golang.org/x/sys/unix"

	"palyra/internal/core/reason"
)

// backUp checks the files to be replaced against the change set and copies them.
func (t *transaction) backUp(ctx context.Context, r *replacement) error {
	dir, base, err := t.locate(r)
	if err != nil {
		return err
	}
	st, err := statAt(dir, base)
	switch {
	case missing(err) && r.Was == None:
		return nil
	case missing(err):
		return conflict(string(r.Path), "it no longer exists")
	case err != nil:
		return failure("inspecting", string(r.Path), err)
	case r.Was == None:
		return conflict(string(r.Path), "it already exists")
	}
	r.Old = fingerprintOf(st)
	for _, i := range r.changes {
		if t.changes[i].Was.Type == None {
			continue
		}
		if err := t.backUpOne(ctx, i); err != nil {
			return failure("reading", t.changes[i].Path, err)
		}
	}
	return nil
}

func (t *transaction) backUpOne(ctx context.Context, i int) error {
	c := &t.changes[i]
	parent, base := split(c.Path)
	dir, err := t.dirs.at(parent)
	if err != nil {
		return conflict(c.Path, "its directory no longer exists")
	}
	st, err := statAt(dir, base)
	if err != nil || typeOf(st.Mode) != c.Was.Type || c.Was.Type != Symlink && fileMode(st.Mode) != c.Was.Mode {
		return conflict(c.Path, "it was changed")
	}
	switch c.Was.Type {
	case Symlink:
		l, err := link(dir, base)
		if err == nil && l.Target != c.Was.Target {
			err = conflict(c.Path, "its link target was changed")
		}
		return err
	case File:
		return t.backUpFile(ctx, dir, base, c, t.offsets[i])
	}
	return nil
}

// backUpFile computes the digest of a file that will be replaced, and keeps a copy if the limit
// permits.
func (t *transaction) backUpFile(ctx context.Context, dir int, base string, c *Change, offset int64) error {
	fd, err := open(dir, base, readFile, 0)
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	if st, err := fstat(fd); err != nil || st.Size != c.Was.Size {
		return errors.Join(err, conflict(c.Path, "its size was changed"))
	}
	into := io.Discard
	if offset >= 0 {
		into = t.record
	}
	sum, size, err := digest(ctx, io.LimitReader(reader(fd), c.Was.Size+1), t.buffer, into)
	if err == nil && (sum != c.Was.SHA256 || size != c.Was.Size) {
		err = conflict(c.Path, "its content was changed")
	}
	return err
}

// owner is the owner of the files that a commit makes if the daemon is root.
type owner struct{ uid, gid int }

// build creates the new content under its temporary name.
func (t *transaction) build(ctx context.Context, r *replacement) error {
	if r.Is == None {
		return nil
	}
	dir, base, err := t.locate(r)
	if err != nil {
		return err
	}
	who, err := ownerOf(r, dir, base)
	if err != nil {
		return failure("inspecting", string(r.Path), err)
	}
	for _, i := range r.changes {
		if err := t.buildOne(ctx, r, i, who); err != nil {
			return failure("writing", t.changes[i].Path, err)
		}
	}
	// A directory gets its mode after its content was written.
	for _, i := range slices.Backward(r.changes) {
		if c := &t.changes[i]; c.Is.Type == Dir {
			if err := t.finalMode(r, c); err != nil {
				return failure("writing", c.Path, err)
			}
		}
	}
	if dir, _, err = t.locate(r); err != nil {
		return err
	}
	st, err := statAt(dir, r.Temp)
	r.Fresh = fingerprintOf(st)
	return failure("writing", string(r.Path), err)
}

// ownerOf returns the owner of the replaced file, or of the directory.
func ownerOf(r *replacement, dir int, base string) (owner, error) {
	if os.Geteuid() != 0 {
		return owner{-1, -1}, nil
	}
	st, err := fstat(dir)
	if err == nil && r.Was != None {
		st, err = statAt(dir, base)
	}
	return owner{int(st.Uid), int(st.Gid)}, err
}

// temporary returns the place where a path of a replacement is built.
func (r *replacement) temporary(name string) (dir, base string) {
	parent, _ := split(string(r.Path))
	return split(join(parent, r.Temp) + strings.TrimPrefix(name, string(r.Path)))
}

func (t *transaction) buildOne(ctx context.Context, r *replacement, i int, who owner) error {
	c := &t.changes[i]
	parent, base := r.temporary(c.Path)
	if c.Is.Type == None {
		return nil
	}
	dir, err := t.dirs.at(parent)
	if err != nil {
		return err
	}
	switch c.Is.Type {
	case File:
		return t.buildFile(ctx, dir, base, i, who)
	case Dir:
		err = unix.Mkdirat(dir, base, 0o700)
	case Symlink:
		err = unix.Symlinkat(c.Is.Target, dir, base)
	default:
		return reason.Errorf(reason.CommitRefused, "%s is a special file", quote(c.Path))
	}
	if err == nil && who.uid >= 0 {
		err = unix.Fchownat(dir, base, who.uid, who.gid, unix.AT_SYMLINK_NOFOLLOW)
	}
	return err
}

// buildFile copies content and verifies that it is the content of the change set.
func (t *transaction) buildFile(ctx context.Context, dir int, base string, i int, who owner) error {
	c := &t.changes[i]
	from, done, err := t.source(i, c)
	if err != nil {
		return err
	}
	defer done()
	fd, err := open(dir, base, unix.O_WRONLY|unix.O_CREAT|unix.O_EXCL|unix.O_NOFOLLOW, 0o600)
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	sum, size, err := digest(ctx, from, t.buffer, writer(fd))
	switch {
	case err != nil:
		return err
	case sum != c.Is.SHA256 || size != c.Is.Size:
		return reason.Errorf(reason.CommitConflict, "%s was changed after the change set was made", quote(c.Path))
	}
	if who.uid >= 0 {
		if err := unix.Fchown(fd, who.uid, who.gid); err != nil {
			return err
		}
	}
	if err := unix.Fchmod(fd, uint32(c.Is.Mode)); err != nil {
		return err
	}
	if t.each {
		return unix.Fsync(fd)
	}
	return nil
}

// finalMode sets the mode of a new directory; a set-group-ID bit inherited from its parent stays.
func (t *transaction) finalMode(r *replacement, c *Change) error {
	parent, base := r.temporary(c.Path)
	dir, err := t.dirs.at(parent)
	if err != nil {
		return err
	}
	fd, err := open(dir, base, readDir, 0)
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	st, err := fstat(fd)
	if err == nil {
		err = unix.Fchmod(fd, uint32(c.Is.Mode)|st.Mode&unix.S_ISGID)
	}
	return err
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
		return verifyNames(dir, name, c.Path, children)
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
func verifyNames(dir int, name, path string, children []string) error {
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
