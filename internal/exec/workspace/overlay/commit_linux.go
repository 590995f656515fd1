package overlay

import (
	"context"
	"errors"
	"io"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"

	"palyra/internal/core/reason"
)

// syncEach is how many new files are synced one by one; for more the whole
// file system is, once.
const syncEach = 32

// Commit puts a change set of this layer into the workspace, all of it or nothing.
// Every file is written under a temporary name beside its path and exchanged with
// the old one by a rename. If an old file is then not, to the last byte, the one
// that the change set was made from, everything is taken back and the error is
// reason.CommitConflict. No symbolic link is followed, and files are never
// written in place, so that other hard links keep their content. Set-ID and
// sticky bits of files and extended attributes are dropped. Special files are
// reason.CommitRefused. When the daemon is root, new files belong to the owner
// of what they replace or of the directory that they are in.
func (l *Layer) Commit(ctx context.Context, s Set, o Options) (Applied, error) {
	if s.layer != l {
		return Applied{}, reason.Errorf(reason.Internal, "the change set is of another layer")
	}
	if err := s.refuseSpecial(); err != nil {
		return Applied{}, err
	}
	if len(s.Changes) == 0 {
		return Applied{Summary: s.summary(o)}, nil
	}
	diff := s.Diff(diffBytes)
	var applied Applied
	err := control(l.upper, func(upper int) error {
		from := layerSource{dirs: dirCache{root: upper, fd: -1}}
		defer from.dirs.close()
		var err error
		applied, err = commit(ctx, l.lower, s.Changes, from.open, s.summary(o), diff, o.History)
		return err
	})
	return applied, err
}

// source opens the content that a change puts in place.
type source func(i int, c *Change) (io.Reader, func(), error)

// layerSource reads the files of a layer.
type layerSource struct{ dirs dirCache }

func (s *layerSource) open(_ int, c *Change) (io.Reader, func(), error) {
	dir, base := split(c.Path)
	at, err := s.dirs.at(dir)
	if errors.Is(err, unix.EACCES) {
		if err = lend(s.dirs.root, dir); err == nil {
			at, err = s.dirs.at(dir)
		}
	}
	if err != nil {
		return nil, nil, err
	}
	fd, done, err := openUpper(at, base, readFile)
	return reader(fd), done, err
}

// lend gives the owner of the layer's directories the rights that a program
// took away. Their modes are in the change set already.
func lend(upper int, dir string) error {
	for i := 0; i <= len(dir); i++ {
		if i < len(dir) && dir[i] != '/' {
			continue
		}
		at, err := open(upper, dir[:i], unix.O_PATH|unix.O_DIRECTORY|unix.O_NOFOLLOW, 0)
		if err != nil {
			return err
		}
		err = unix.Chmod(magicLink(at), unix.S_IRWXU)
		unix.Close(at)
		if err != nil {
			return err
		}
	}
	return nil
}

// transaction is a commit under way. Its replacements are those of its manifest.
type transaction struct {
	dirs         dirCache
	changes      []Change
	source       source
	replacements []replacement
	offsets      []int64
	record       *record
	buffer       []byte
	// each is true when new files are synced one by one.
	each bool
}

// commit does what Commit says, with content from anywhere.
func commit(ctx context.Context, root *os.File, changes []Change, from source, s Summary, diff string, h History) (Applied, error) {
	unlock, err := h.lock(s.Workspace)
	if err != nil {
		return Applied{}, err
	}
	defer unlock()
	t, m := newTransaction(changes, from, &s)
	err = control(root, func(fd int) error { return t.in(fd, h, m, diff, func() error { return t.run(ctx) }) })
	if err != nil {
		return Applied{}, failure("committing to", s.Workspace, err)
	}
	left := control(root, func(fd int) error { return h.finish(fd, m) })
	s.State = RecordCommitted
	return Applied{Summary: s, Left: errors.Join(left, h.prune(s.Workspace))}, nil
}

// newTransaction plans a commit and completes its summary.
func newTransaction(changes []Change, from source, s *Summary) (*transaction, *manifest) {
	t := &transaction{changes: changes, source: from, replacements: replacementsOf(changes, s.ID), buffer: make([]byte, bufferSize), each: len(changes) <= syncEach}
	t.offsets, s.Kept = offsets(changes)
	return t, &manifest{Version: manifestVersion, Summary: *s, Entries: entries(changes), Replacements: t.replacements, Offsets: t.offsets}
}

// in opens the workspace and the record for as long as do takes.
func (t *transaction) in(root int, h History, m *manifest, diff string, do func() error) error {
	low, err := open(root, ".", readDir, 0)
	if err != nil {
		return err
	}
	defer unix.Close(low)
	t.dirs = dirCache{root: low, fd: -1}
	defer t.dirs.close()
	if t.record, err = h.begin(*m, diff); err != nil {
		return err
	}
	defer t.record.close()
	return do()
}

// lock keeps other commits of a workspace away, in this daemon and in others.
func (h History) lock(workspace string) (func(), error) {
	dir, err := h.dir(workspace, "x")
	if err != nil {
		return nil, err
	}
	dir = filepath.Dir(dir)
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, failure("making the history of", workspace, err)
	}
	f, err := os.Open(dir)
	if err != nil {
		return nil, failure("locking the history of", workspace, err)
	}
	err = control(f, func(fd int) error {
		for {
			if err := unix.Flock(fd, unix.LOCK_EX); !errors.Is(err, unix.EINTR) {
				return err
			}
		}
	})
	if err != nil {
		f.Close()
		return nil, failure("locking the history of", workspace, err)
	}
	return func() { f.Close() }, nil
}

// run brings the transaction to where it cannot fail any more, or back to
// where nothing has happened.
func (t *transaction) run(ctx context.Context) error {
	if err := t.prepare(ctx); err != nil {
		return t.back(err, t.discard())
	}
	if err := t.apply(ctx); err != nil {
		return t.back(err, t.rollback())
	}
	return nil
}

// back returns the error of a commit that was taken back, and drops its record
// unless something is left for Recover to do.
func (t *transaction) back(err, undo error) error {
	if undo == nil {
		undo = os.RemoveAll(t.record.dir)
	}
	if undo == nil {
		return err
	}
	return reason.Errorf(reason.Of(err), "%w; taking it back failed too: %w", err, undo).
		WithRemedy("Look at the files named; restart the daemon to try again.")
}

// prepare checks that the workspace is what the change set was made from,
// keeps what will be replaced and builds what is new, beside its place.
func (t *transaction) prepare(ctx context.Context) error {
	for i := range t.replacements {
		r := &t.replacements[i]
		if r.modeOnly() {
			err := t.checkMode(r)
			if err == nil && r.widens() {
				err = t.setMode(r, r.WasMode, r.IsMode)
			}
			if err != nil {
				return err
			}
			continue
		}
		if err := t.backUp(ctx, r); err != nil {
			return err
		}
		if err := t.build(ctx, r); err != nil {
			return err
		}
	}
	if !t.each {
		if err := unix.Syncfs(t.dirs.root); err != nil {
			return err
		}
	}
	return t.record.prepared(t.replacements)
}

// apply moves everything into place and verifies what it replaced.
func (t *transaction) apply(ctx context.Context) error {
	for _, do := range []func(context.Context, *replacement) error{t.install, t.verify} {
		for i := range t.replacements {
			if r := &t.replacements[i]; !r.modeOnly() {
				if err := errors.Join(ctx.Err(), do(ctx, r)); err != nil {
					return err
				}
			}
		}
	}
	return t.record.setState(recordDecided)
}

// discard removes what prepare made. Nothing is in place yet, and names with
// the id of this change set are its own.
func (t *transaction) discard() error {
	return t.backwards(func(r *replacement) error {
		dir, _, err := t.locate(r)
		if reason.Of(err) == reason.CommitConflict {
			return nil // its directory is gone, and so is what was in it
		}
		if err != nil {
			return err
		}
		return failure("removing", r.Temp, removeTree(dir, r.Temp))
	})
}

// rollback takes back what settle did, and what prepare made.
func (t *transaction) rollback() error { return t.backwards(t.revert) }

// backwards undoes every replacement, the last first.
func (t *transaction) backwards(undo func(r *replacement) error) error {
	var failed []error
	for i := len(t.replacements) - 1; i >= 0; i-- {
		r := &t.replacements[i]
		switch {
		case !r.modeOnly():
			failed = append(failed, undo(r))
		case r.widens():
			failed = append(failed, t.restoreMode(r))
		}
	}
	return errors.Join(failed...)
}
