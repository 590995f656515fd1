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

// syncEach is the maximum number of new files that are synced individually; for more, the whole
// file system is synced once.
const syncEach = 32

// Commit puts a change set of this layer into the workspace, either completely or not at all.
// Every file is written under a temporary name in the same directory and exchanged with the old
// one by a rename. If an old file then differs from the one that the change set was made from,
// everything is rolled back and the error is reason.CommitConflict. Symbolic links are not
// followed. Files are never written in place, so other hard links keep their content. Set-ID and
// sticky bits of files and extended attributes are dropped. Special files are
// reason.CommitRefused. If the daemon is root, new files belong to the owner of the replaced file
// or of the directory.
func (l *Layer) Commit(ctx context.Context, s Set, o Options) (Applied, error) {
	if s.layer != l {
		return Applied{}, reason.Errorf(reason.Internal, "the change set belongs to another layer")
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

// source opens the new content of a change.
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

// lend gives the owner of the layer's directories the permissions that a program removed. Their
// modes are already in the change set.
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

// transaction is a commit in progress. Its replacements are the replacements of its manifest.
type transaction struct {
	replacer
	changes []Change
	source  source
	offsets []int64
	record  *record
	buffer  []byte
	// each is true if new files are synced individually.
	each bool
}

// commit implements Commit with content from any source.
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
	t := &transaction{changes: changes, source: from, replacer: replacer{replacements: replacementsOf(changes, s.ID)}, buffer: make([]byte, bufferSize), each: len(changes) <= syncEach}
	t.offsets, s.Kept = offsets(changes)
	return t, &manifest{Version: manifestVersion, Summary: *s, Entries: entries(changes), Replacements: t.replacements, Offsets: t.offsets}
}

// in opens the workspace and the record while do runs.
func (t *transaction) in(root int, h History, m *manifest, diff string, do func() error) error {
	done, err := t.open(root)
	if err != nil {
		return err
	}
	defer done()
	if t.record, err = h.begin(*m, diff); err != nil {
		return err
	}
	defer t.record.close()
	return do()
}

// lock excludes other commits of a workspace, in this daemon and in others.
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

// run completes the transaction, or rolls it back to the initial state.
func (t *transaction) run(ctx context.Context) error {
	if err := t.prepare(ctx); err != nil {
		return t.back(err, t.discard())
	}
	if err := t.apply(ctx); err != nil {
		return t.back(err, t.rollback())
	}
	return nil
}

// back returns the error of a commit that was rolled back. It deletes the record unless Recover
// still has work to do.
func (t *transaction) back(err, undo error) error {
	if undo == nil {
		undo = os.RemoveAll(t.record.dir)
	}
	if undo == nil {
		return err
	}
	return reason.Errorf(reason.Of(err), "%w; rolling back failed as well: %w", err, undo).
		WithRemedy("Inspect the named files; restart the daemon to retry.")
}

// prepare verifies that the workspace matches the change set, keeps the content to be replaced,
// and builds the new content in the same directory.
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

// apply moves everything into place and verifies the replaced entries.
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
