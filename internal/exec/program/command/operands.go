package command

import (
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"palyra/internal/core/reason"
	"palyra/internal/core/tool"
	"palyra/internal/exec/workspace"
)

// Limits of the files that are hashed for one call.
const (
	maxOperands     = 256
	maxOperandBytes = 512 << 20
)

// Named contains the workspace files that the arguments of a call name.
type Named struct {
	// Operands are files with their digests, sorted by path.
	Operands []tool.Operand
	// Notes name unbound files for the approver.
	Notes []string
	// Unbound counts the arguments that look like paths but name no file that could be bound. A
	// program may find a file there when it runs.
	Unbound int
	// Looked are the names, relative to the workspace, that were looked up.
	Looked []string
}

// Operands hashes the workspace files that a call names. For example, `make -f rules/a.mk` in
// the directory src results in src/rules/a.mk, which an argument names, and in src/Makefile and
// Makefile if they exist: known runners implicitly read such files of cwd and its parents.
// Files are opened beneath the workspace and hashed through the descriptor.
func Operands(root, cwd string, argv []string, basename string) (Named, error) {
	return OperandsOf(root, cwd, Started{Argv: argv, Basename: basename})
}

// Started is a program with its arguments, and its name as a runner.
type Started struct {
	Argv     []string
	Basename string
}

// OperandsOf is Operands for several programs that are started in one directory.
func OperandsOf(root, cwd string, started ...Started) (Named, error) {
	cwd, err := CheckCwd(cwd)
	if err != nil {
		return Named{}, err
	}
	workspace, err := os.OpenRoot(root)
	if err != nil {
		return Named{}, reason.Errorf(reason.WorkspaceScope, "the workspace cannot be opened")
	}
	defer workspace.Close()
	if info, err := workspace.Stat(filepath.FromSlash(cwd)); err != nil || !info.IsDir() {
		return Named{}, reason.Errorf(reason.WorkspaceScope, "the working directory %q is not a directory of the workspace", shorten(cwd))
	}
	b := binder{workspace: workspace, seen: map[string]bool{}}
	for _, program := range started {
		if err := b.program(cwd, program); err != nil {
			return Named{}, err
		}
	}
	slices.SortFunc(b.operands, func(x, y tool.Operand) int { return strings.Compare(x.Path, y.Path) })
	return Named{Operands: b.operands, Notes: b.notes, Unbound: b.unbound, Looked: slices.Sorted(maps.Keys(b.seen))}, nil
}

// Changed hashes operands again and returns the paths of changed or deleted ones.
func Changed(root string, operands []tool.Operand) ([]string, error) {
	workspace, err := os.OpenRoot(root)
	if err != nil {
		return nil, reason.Errorf(reason.WorkspaceScope, "the workspace cannot be opened")
	}
	defer workspace.Close()
	b := binder{workspace: workspace, seen: map[string]bool{}, each: true}
	for _, o := range operands {
		if _, err := b.bind(o.Path); err != nil {
			return nil, err
		}
	}
	var changed []string
	for _, o := range operands {
		if !slices.Contains(b.operands, o) {
			changed = append(changed, o.Path)
		}
	}
	return changed, nil
}

// runnerNames returns the files that a known runner reads implicitly.
func runnerNames(cwd, basename string) []string {
	var names []string
	for dir := cwd; ; dir = path.Dir(dir) {
		for _, name := range runnerFiles(basename) {
			names = append(names, path.Join(dir, name))
		}
		if dir == "." {
			return names
		}
	}
}

// runnerFiles searches for a program by its called name without the version, so that pip3.11
// matches pip.
func runnerFiles(basename string) []string {
	family := Family(basename)
	if files := workspace.RunnerReads(family); files != nil {
		return files
	}
	if m := build.FindStringSubmatch(family); m != nil {
		return workspace.RunnerReads(m[1])
	}
	return nil
}

type binder struct {
	workspace *os.Root
	// seen maps the tried names to whether a file exists.
	seen     map[string]bool
	bytes    int64
	operands []tool.Operand
	files    []fs.FileInfo // of operands
	// each keeps two names of one file separate.
	each    bool
	notes   []string
	unbound int
}

// program binds the files that a program's arguments name, and the files that it reads
// implicitly.
func (b *binder) program(cwd string, s Started) error {
	for i, word := range s.Argv {
		if err := b.word(cwd, i, word); err != nil {
			return err
		}
	}
	for _, name := range runnerNames(cwd, s.Basename) {
		if _, err := b.bind(name); err != nil {
			return err
		}
	}
	return nil
}

// word binds the files that one argument names. An argument with a slash that names no bindable
// file is noted.
func (b *binder) word(cwd string, i int, word string) error {
	if i == 0 && !strings.Contains(word, "/") {
		return nil // a program found in PATH
	}
	bound := false
	for _, part := range pathsIn(word) {
		for _, name := range inWorkspace(cwd, part) {
			found, err := b.bind(name)
			if err != nil {
				return err
			}
			bound = bound || found
		}
	}
	if !bound && i > 0 && strings.Contains(word, "/") && !strings.Contains(word, "://") {
		b.unbound++
		b.note(word, "looks like a path and is not bound")
	}
	return nil
}

// bind hashes a file and reports whether it exists.
func (b *binder) bind(name string) (bool, error) {
	if found, ok := b.seen[name]; ok {
		return found, nil
	}
	found, err := b.hash(name)
	b.seen[name] = found
	return found, err
}

func (b *binder) hash(name string) (bool, error) {
	f, err := b.workspace.OpenFile(filepath.FromSlash(name), os.O_RDONLY|nonblock, 0)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return false, nil
	case err != nil:
		// An argument that only looks like a path is ignored; an existing file that cannot be
		// opened is an error.
		_, statErr := b.workspace.Lstat(filepath.FromSlash(name))
		if statErr == nil {
			b.note(name, "cannot be opened inside the workspace")
		}
		return statErr == nil, nil
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil || !info.Mode().IsRegular() {
		return false, nil
	}
	if !b.each && path.Clean(name) != name {
		// With the exact name the same file was already hashed.
		if slices.ContainsFunc(b.files, func(known fs.FileInfo) bool { return os.SameFile(known, info) }) {
			return true, nil
		}
	}
	if len(b.operands) == maxOperands || b.bytes+info.Size() > maxOperandBytes {
		b.note(name, "is not bound: the call names too many or too large files")
		return true, nil
	}
	b.bytes += info.Size()
	sum, err := hashFile(f, info.Size())
	if err != nil {
		return false, reason.Errorf(reason.FileNotFound, "reading %q for the call digest failed", shorten(name))
	}
	b.operands, b.files = append(b.operands, tool.Operand{Path: name, SHA256: sum}), append(b.files, info)
	return true, nil
}

func (b *binder) note(name, what string) {
	const most = 16
	note := fmt.Sprintf("%q %s", shorten(name), what)
	if len(b.notes) < most && !slices.Contains(b.notes, note) {
		b.notes = append(b.notes, note)
	}
}
