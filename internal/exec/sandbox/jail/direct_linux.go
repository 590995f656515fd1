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

// mostEntries is the maximum number of entries of a workspace with direct writes. It is limited
// because the workspace is walked before and after the run.
const mostEntries = 500_000

// readable are the permissions that a directory's owner needs to read it.
const readable fs.FileMode = 0o500

// Guard protects the protected paths of a workspace that a program writes to directly. Existing
// paths are pinned before the run. New protected paths are moved out of the workspace after the
// run; until then, other programs can read them.
type Guard struct {
	root     *os.Root
	patterns []string
	aside    string
	// known are the protected paths before the run. targets maps each of them to its target, or to
	// "" if it is not a symbolic link.
	known   map[string]fs.FileInfo
	targets map[string]string
	// Pins keep the known paths unchanged.
	Pins []inside.Pin
	// Linked are files with other hard links, possibly outside of the workspace. A write to one
	// changes the file under all its names.
	Linked []string
}

// NewGuard walks a workspace. aside is a directory of the daemon for moved paths.
func NewGuard(w *Directory, s sandbox.Spec, aside string) (*Guard, error) {
	if aside == "" {
		return nil, reason.Errorf(reason.SandboxUnavailable, "no directory for protected files of a program is configured")
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

// pin protects a path from writes, and its parent directories from being renamed. .git itself
// is protected only from being renamed, because git writes to it all the time. Protected paths
// below it, such as .git/hooks, are protected from writes. Symbolic links are not pinned: their
// target cannot be changed in place, and Quarantine finds a replaced link.
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

// walk visits every entry of the workspace, up to the limit. It does not descend into directories
// that are protected as a whole.
func (g *Guard) walk(most int, visit func(name string, info fs.FileInfo, protected bool)) error {
	count := 0
	return fs.WalkDir(g.root.FS(), ".", func(name string, d fs.DirEntry, err error) error {
		if errors.Is(err, fs.ErrNotExist) || errors.Is(err, fs.ErrPermission) {
			return nil
		}
		if err != nil {
			return fmt.Errorf("reading the workspace: %w", err)
		}
		if count++; count > most {
			return reason.Errorf(reason.SandboxUnavailable, "the workspace has more than %d entries, which is the limit for direct writes", most).
				WithRemedy("Use workspace_mode copy_on_write.")
		}
		if name == "." {
			return nil
		}
		info, err := d.Info()
		if errors.Is(err, fs.ErrNotExist) {
			return nil // deleted meanwhile
		}
		if err != nil {
			return fmt.Errorf("reading the workspace: %w", err)
		}
		protected := workspace.Protected(name) || overlay.Declared(g.patterns, name)
		visit(name, info, protected)
		if protected && d.IsDir() && !isRepository(name, info) {
			return fs.SkipDir
		}
		return nil
	})
}

// Settle moves new protected paths of a run away, reports them and closes the workspace. On a
// nil Guard it does nothing.
func (g *Guard) Settle(report *sandbox.Report) error {
	if g == nil {
		return nil
	}
	if n := len(g.Linked); n > 0 {
		report.Downgrades = append(report.Downgrades, fmt.Sprintf("direct: %d files of the workspace have further names, possibly outside of it, such as %s", n, g.Linked[0]))
	}
	moved, err := g.Quarantine()
	report.Quarantined = moved
	return errors.Join(err, g.Close())
}

// Quarantine moves protected paths that are new or were replaced to a directory of the daemon,
// and returns their names. It visits every entry without a limit. If one path cannot be moved,
// it continues, so that a program cannot keep all paths in place by blocking one.
func (g *Guard) Quarantine() (moved []string, err error) {
	var found []string
	moving := map[string]bool{}
	failed := []error{g.walk(math.MaxInt, func(name string, info fs.FileInfo, protected bool) {
		was, known := g.known[name]
		if protected && !(known && g.same(name, was, info)) && !below(name, moving) {
			found = append(found, name)
			moving[name] = true
		}
		if info.IsDir() && info.Mode()&readable != readable {
			_ = g.root.Chmod(name, info.Mode().Perm()|readable) // otherwise it would not be readable
		}
	})}
	if len(found) == 0 {
		return nil, failed[0]
	}
	place, err := os.MkdirTemp(g.aside, "run-")
	if err != nil {
		return nil, fmt.Errorf("creating a directory for protected files: %w", err)
	}
	for i, name := range found {
		if err := g.putAside(name, filepath.Join(place, asideName(i, name))); err != nil {
			failed = append(failed, fmt.Errorf("moving the protected path %q away: %w", name, err))
			continue
		}
		moved = append(moved, name)
	}
	return moved, errors.Join(failed...)
}

// same reports whether a path is unchanged. An inode number may be reused by a file of another
// type, so types are compared as well; entries other than links were pinned.
func (g *Guard) same(name string, was, is fs.FileInfo) bool {
	return os.SameFile(was, is) && was.Mode().Type() == is.Mode().Type() && g.target(name, is) == g.targets[name]
}

// target returns the target of a symbolic link, "" for other entries.
func (g *Guard) target(name string, info fs.FileInfo) string {
	if info.Mode()&fs.ModeSymlink == 0 {
		return ""
	}
	target, _ := g.root.Readlink(name) // a removed link has no target
	return target
}

// asideName returns a unique, short name for the i-th moved path, which ends like the path.
func asideName(i int, name string) string {
	const most = 200
	name = strings.ReplaceAll(name, "/", "%")
	return strconv.Itoa(i) + "-" + name[max(0, len(name)-most):]
}

// below reports whether a directory above name is in dirs.
func below(name string, dirs map[string]bool) bool {
	for dir := path.Dir(name); dir != "." && dir != "/"; dir = path.Dir(dir) {
		if dirs[dir] {
			return true
		}
	}
	return false
}

// putAside moves a path to a directory where no program executes it. Across file systems it
// copies everything except special files, and removes the original.
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

// lendRights gives the owner write permission for a path, if it is a directory, and for its
// parent: a rename changes both.
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

// copyFile copies at most MaxPinned bytes of a file, because a hole can be arbitrarily long.
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
