package jail

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"

	"palyra/internal/core/reason"
	"palyra/internal/exec/sandbox"
	"palyra/internal/exec/sandbox/inside"
	"palyra/internal/exec/workspace"
	"palyra/internal/exec/workspace/overlay"
)

// mostEntries is how large a workspace may be that is written to directly: it
// is walked before and after the run.
const mostEntries = 500_000

// readable is what a directory's owner needs to look into it.
const readable fs.FileMode = 0o500

// Guard looks after the protected paths of a workspace that a program writes
// to directly: those that exist are pinned before the run, and those that are
// new after it are put aside. Between the two, other programs can read the new
// ones.
type Guard struct {
	root     *os.Root
	patterns []string
	aside    string
	// known are the protected paths before the run, and targets what those say
	// that are symbolic links.
	known   map[string]fs.FileInfo
	targets map[string]string
	// Pins keep the known paths as they are.
	Pins []inside.Pin
	// Linked are files with other hard links, which may lie outside of the
	// workspace: a write to the one is a write to the other.
	Linked []string
}

// NewGuard walks a workspace. Aside is a directory of the daemon's for what is
// put aside.
func NewGuard(w *Directory, s sandbox.Spec, aside string) (*Guard, error) {
	if aside == "" {
		return nil, reason.Errorf(reason.SandboxUnavailable, "there is no directory for protected files that a program makes")
	}
	root, err := os.OpenRoot(SelfPath(int(w.File.Fd())))
	if err != nil {
		return nil, reason.Errorf(reason.WorkspaceScope, "the workspace cannot be opened")
	}
	g := &Guard{root: root, patterns: s.Protected, aside: aside, known: map[string]fs.FileInfo{}, targets: map[string]string{}}
	if err := g.look(); err != nil {
		root.Close()
		return nil, err
	}
	return g, nil
}

// Close closes the workspace; on a nil Guard it does nothing.
func (g *Guard) Close() error {
	if g == nil {
		return nil
	}
	return g.root.Close()
}

func (g *Guard) look() error {
	pinned := map[string]bool{}
	return g.walk(mostEntries, func(name string, info fs.FileInfo, protected bool) {
		if protected {
			g.known[name], g.targets[name] = info, g.target(name, info)
			g.pin(name, info, pinned)
		}
		if st, ok := info.Sys().(*syscall.Stat_t); ok && info.Mode().IsRegular() && st.Nlink > 1 {
			g.Linked = append(g.Linked, name)
		}
	})
}

// pin keeps a path from being written to, and the directories above it from
// being renamed. Of a repository only the protected paths are pinned, such as
// .git/hooks, since git writes to .git itself all the time. Symbolic links are not
// pinned: their target cannot be changed in place, and Quarantine finds one that
// was replaced.
func (g *Guard) pin(name string, info fs.FileInfo, pinned map[string]bool) {
	if info.Mode()&fs.ModeSymlink != 0 {
		return
	}
	var above []string
	for dir := path.Dir(name); dir != "."; dir = path.Dir(dir) {
		above = append(above, dir)
	}
	slices.Reverse(above)
	for _, dir := range above {
		if !pinned[dir] {
			pinned[dir] = true
			g.Pins = append(g.Pins, inside.Pin{Path: dir})
		}
	}
	if !pinned[name] {
		pinned[name] = true
		g.Pins = append(g.Pins, inside.Pin{Path: name, ReadOnly: !isRepository(name, info)})
	}
}

func isRepository(name string, info fs.FileInfo) bool {
	return info.IsDir() && strings.EqualFold(path.Base(name), ".git")
}

// walk visits every entry of the workspace, at most so many, and goes into
// everything but what is protected as a whole.
func (g *Guard) walk(most int, visit func(name string, info fs.FileInfo, protected bool)) error {
	count := 0
	return fs.WalkDir(g.root.FS(), ".", func(name string, d fs.DirEntry, err error) error {
		if errors.Is(err, fs.ErrNotExist) || errors.Is(err, fs.ErrPermission) {
			return nil
		}
		if err != nil {
			return fmt.Errorf("looking through the workspace: %w", err)
		}
		if count++; count > most {
			return reason.Errorf(reason.SandboxUnavailable, "the workspace has more than %d entries, too many to be written to directly", most).
				WithRemedy("Use workspace_mode copy_on_write.")
		}
		if name == "." {
			return nil
		}
		info, err := d.Info()
		if errors.Is(err, fs.ErrNotExist) {
			return nil // gone meanwhile
		}
		if err != nil {
			return fmt.Errorf("looking through the workspace: %w", err)
		}
		protected := workspace.Protected(name) || overlay.Declared(g.patterns, name)
		visit(name, info, protected)
		if protected && d.IsDir() && !isRepository(name, info) {
			return fs.SkipDir
		}
		return nil
	})
}

// Settle puts aside what a run made, reports it and closes the workspace; on a nil
// Guard it does nothing.
func (g *Guard) Settle(report *sandbox.Report) error {
	if g == nil {
		return nil
	}
	if n := len(g.Linked); n > 0 {
		report.Downgrades = append(report.Downgrades, fmt.Sprintf("direct: %d files of the workspace have further names, which may lie outside, %s among them", n, g.Linked[0]))
	}
	moved, err := g.Quarantine()
	report.Quarantined = moved
	return errors.Join(err, g.Close())
}

// Quarantine moves protected paths that are new, or that were replaced, to a
// directory of their own below the daemon's, and returns their names. It looks at
// every entry, however many the program made, and goes on when one cannot be
// moved, so that a program cannot keep all of them in place by blocking one.
func (g *Guard) Quarantine() (moved []string, err error) {
	var found []string
	failed := []error{g.walk(math.MaxInt, func(name string, info fs.FileInfo, protected bool) {
		was, known := g.known[name]
		if protected && !(known && g.same(name, was, info)) && !below(name, found) {
			found = append(found, name)
		}
		if info.IsDir() && info.Mode()&readable != readable {
			_ = g.root.Chmod(name, info.Mode().Perm()|readable) // else it could not be looked into
		}
	})}
	if len(found) == 0 {
		return nil, failed[0]
	}
	place, err := os.MkdirTemp(g.aside, "run-")
	if err != nil {
		return nil, fmt.Errorf("making a place for protected files: %w", err)
	}
	for i, name := range found {
		if err := g.putAside(name, filepath.Join(place, asideName(i, name))); err != nil {
			failed = append(failed, fmt.Errorf("putting the protected path %q aside: %w", name, err))
			continue
		}
		moved = append(moved, name)
	}
	return moved, errors.Join(failed...)
}

// same reports whether a path is what it was. The number of a file that is gone
// is soon another's, which may be of another kind; what is no link was pinned.
func (g *Guard) same(name string, was, is fs.FileInfo) bool {
	return os.SameFile(was, is) && was.Mode().Type() == is.Mode().Type() && g.target(name, is) == g.targets[name]
}

// target is what a symbolic link says, "" for anything else.
func (g *Guard) target(name string, info fs.FileInfo) string {
	if info.Mode()&fs.ModeSymlink == 0 {
		return ""
	}
	target, _ := g.root.Readlink(name) // one that is gone says nothing
	return target
}

// asideName is that of the i-th path aside: a name of its own, however long the
// path is, that ends as the path does.
func asideName(i int, name string) string {
	const most = 200
	name = strings.ReplaceAll(name, "/", "%")
	return strconv.Itoa(i) + "-" + name[max(0, len(name)-most):]
}

func below(name string, found []string) bool {
	return slices.ContainsFunc(found, func(dir string) bool { return strings.HasPrefix(name, dir+"/") })
}

// putAside renames a path, to where nothing executes it. Across file systems it
// copies what can be copied, which are no special files, and removes all of it.
func (g *Guard) putAside(name, to string) error {
	parent, err := g.root.OpenRoot(filepath.Dir(name))
	if err != nil {
		return err
	}
	defer parent.Close()
	dir, err := parent.Open(".")
	if err != nil {
		return err
	}
	defer dir.Close()
	if err := lendRights(g.root, name); err != nil {
		return err
	}
	base := filepath.Base(name)
	err = unix.Renameat2(int(dir.Fd()), base, unix.AT_FDCWD, to, unix.RENAME_NOREPLACE)
	if !errors.Is(err, unix.EXDEV) {
		return err
	}
	return errors.Join(copyAside(parent, base, to), overlay.RemoveTree(dir, base))
}

// lendRights lets the owner write to a directory, if it is one, and to the one
// that it is in: both change with a rename.
func lendRights(root *os.Root, name string) error {
	for _, at := range []string{path.Dir(name), name} {
		info, err := root.Lstat(at)
		if err == nil && info.IsDir() && info.Mode()&0o700 != 0o700 {
			err = root.Chmod(at, info.Mode().Perm()|0o700)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

func copyAside(parent *os.Root, name, to string) error {
	return fs.WalkDir(parent.FS(), name, func(at string, d fs.DirEntry, err error) error {
		into := filepath.Join(to, strings.TrimPrefix(at, name))
		switch {
		case err != nil:
			return err
		case d.IsDir():
			return os.Mkdir(into, 0o700)
		case d.Type().IsRegular():
			return copyFile(parent, at, into)
		case d.Type()&fs.ModeSymlink != 0:
			target, err := parent.Readlink(at)
			return errors.Join(err, os.Symlink(target, into))
		}
		return nil // a special file has no content
	})
}

// copyFile copies the start of a file: a hole is as long as a program likes.
func copyFile(parent *os.Root, name, to string) error {
	from, err := parent.Open(name)
	if err != nil {
		return err
	}
	defer from.Close()
	into, err := os.OpenFile(to, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	_, err = io.Copy(into, io.LimitReader(from, MaxPinned))
	return errors.Join(err, into.Close())
}
