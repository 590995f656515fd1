//go:build linux

package facts

import (
	"fmt"
	"io/fs"
	"maps"
	"math/rand/v2"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"sync"

	"palyra/internal/core/canonical"
)

// These are the kinds of content. Each file starts with a unique line: kind, worker and number.
const (
	public    = "PUBLIC"
	sealed    = "SECRET"
	written   = "WRITTEN" // written by a call
	program   = "teller"  // a program that policy permits
	forbidden = "teller-denied"
)

// body is the content of a file, under any number of names.
type body struct {
	label   string
	content []byte
	mode    fs.FileMode
}

func labelOf(b *body) string {
	if b == nil {
		return ""
	}
	return b.label
}

func (b *body) kind() string {
	for _, k := range []string{forbidden, program, sealed, public, written} {
		if strings.HasPrefix(b.label, k) {
			return k
		}
	}
	return ""
}

// isAllowedAt reports whether policy permits the content at a path: forbidden content never leaves
// forbidden paths, and programs stay where they are searched for.
func (b *body) isAllowedAt(name string) bool {
	switch b.kind() {
	case sealed:
		return forbiddenPath(name)
	case forbidden:
		return strings.HasPrefix(name, "bin/denied/")
	case program:
		return path.Dir(name) == "bin"
	}
	return !forbiddenPath(name) && !strings.HasPrefix(name, "bin/")
}

// forbiddenPath returns the paths that policy forbids to read and to write. It is an independent
// implementation of the policy.
func forbiddenPath(name string) bool {
	top, _, _ := strings.Cut(name, "/")
	return top == "sealed" || top == "SEALED" || top == ".git" || strings.EqualFold(path.Ext(name), ".key")
}

// asksPath reports whether policy requires approval for a path.
func asksPath(name string) bool {
	top, _, _ := strings.Cut(name, "/")
	return top == "ask"
}

// tree is the workspace of one worker: the files on the disk, and the state that the worker
// expects. All access goes through a root, so that nothing outside can be changed.
type tree struct {
	mu     sync.Mutex
	root   *os.Root
	dir    string
	rng    *rand.Rand
	worker int
	n      int

	files map[string]*body
	dirs  map[string]bool
	links map[string]string
	// was lists, by path, the files that were there since the last call of since.
	was map[string][]string
	// digests maps the labels of all files that ever existed to their digests.
	digests map[string]string
}

// programLabels lists the labels of the programs: two that policy permits, and one that it
// denies.
var programLabels = []string{"teller-one000000000", "teller-two000000000", "teller-denied000000"}

// newTree creates a workspace. Without programs, it uses shorter files in their place.
func newTree(dir string, worker int, rng *rand.Rand, programs []*body) (*tree, error) {
	if err := os.Mkdir(dir, 0o750); err != nil {
		return nil, err
	}
	root, err := os.OpenRoot(dir)
	if err != nil {
		return nil, err
	}
	t := &tree{
		root: root, dir: dir, rng: rng, worker: worker,
		files: map[string]*body{}, dirs: map[string]bool{}, links: map[string]string{}, was: map[string][]string{}, digests: map[string]string{},
	}
	for _, d := range []string{"open", "ask", "sealed", "mixed", "out", "doors", "bin", "bin/denied", ".git", ".git/hooks"} {
		t.mkdir(d)
	}
	for _, name := range []string{"a.txt", "b.txt", "c.txt"} {
		t.put("open/"+name, t.fresh(public))
		t.put("ask/"+name, t.fresh(public))
		t.put("sealed/"+name, t.fresh(sealed))
	}
	t.put("sealed/seal.id", t.fresh(sealed))
	t.put("mixed/m.txt", t.fresh(public))
	t.put("mixed/x.key", t.fresh(sealed))
	t.put("mixed/y.key", t.fresh(sealed))
	t.put(".git/config", t.fresh(sealed))
	t.put(".git/hooks/pre-commit", t.fresh(sealed))
	t.put("out/w.txt", t.fresh(public))
	for i, label := range programLabels {
		b := &body{label: label, content: []byte(label), mode: 0o755}
		if programs != nil {
			b = programs[i]
		}
		t.put([]string{"bin/run", "bin/other", "bin/denied/run"}[i], b)
	}
	for _, name := range []string{"doors/f0", "doors/f1", "doors/f2"} {
		t.symlink("../open/a.txt", name)
	}
	t.symlink("../open", "doors/d0")
	t.symlink("../ask", "doors/d1")
	t.symlink("run", "bin/link")
	return t, nil
}

func (t *tree) close() { t.root.Close() }

// must checks the tree's own steps. An unexpected error of the disk would make the run
// meaningless, so it panics.
func must(err error) {
	if err != nil {
		panic(fmt.Errorf("changing the workspace: %w", err))
	}
}

// fresh returns a new file of a kind. Forbidden files are longer than others.
func (t *tree) fresh(kind string) *body {
	t.n++
	label := fmt.Sprintf("%s-%d-%d", kind, t.worker, t.n)
	lines := 1 + t.rng.IntN(8)
	if kind == sealed {
		lines += 100
	}
	b := &body{label: label, content: []byte(label + "\n" + strings.Repeat("a line like others\n", lines)), mode: 0o600}
	t.digests[label] = canonical.Digest(b.content)
	return b
}

// leave records the file at a path before that changes.
func (t *tree) leave(name string) {
	if b := t.files[name]; b != nil && !slices.Contains(t.was[name], b.label) {
		t.was[name] = append(t.was[name], b.label)
	}
}

// since discards the recorded files of paths from before this moment.
func (t *tree) since() {
	t.mu.Lock()
	defer t.mu.Unlock()
	clear(t.was)
}

// standing returns the files that were at each path at any time since the last call of since,
// not through links.
func (t *tree) standing() map[string][]string {
	list := make(map[string][]string, len(t.files))
	for name, b := range t.files {
		list[name] = append(slices.Clip(t.was[name]), b.label)
	}
	for name, labels := range t.was {
		if t.files[name] == nil {
			list[name] = slices.Clone(labels)
		}
	}
	return list
}

// put creates or replaces a file.
func (t *tree) put(name string, b *body) {
	t.leave(name)
	must(t.root.WriteFile(".new", b.content, 0o600))
	must(t.root.Chmod(".new", b.mode))
	must(t.root.Rename(".new", name))
	t.files[name] = b
}

// edit writes in place, so that all names of the file have the new content.
func (t *tree) edit(name string, b *body) {
	old := t.files[name]
	for other, there := range t.files {
		if there == old {
			t.leave(other)
		}
	}
	must(t.root.WriteFile(name, b.content, 0o600))
	old.label, old.content = b.label, b.content
}

func (t *tree) remove(name string) {
	t.leave(name)
	must(t.root.Remove(name))
	delete(t.files, name)
	delete(t.links, name)
}

// rename moves a file, and replaces an existing target.
func (t *tree) rename(from, to string) {
	t.leave(from)
	t.leave(to)
	must(t.root.Rename(from, to))
	if b := t.files[from]; b != t.files[to] { // otherwise rename(2) does nothing
		t.files[to] = b
		delete(t.files, from)
	}
}

// swap exchanges two files.
func (t *tree) swap(a, b string) {
	t.leave(a)
	t.leave(b)
	must(t.root.Rename(a, ".swap"))
	must(t.root.Rename(b, a))
	must(t.root.Rename(".swap", b))
	t.files[a], t.files[b] = t.files[b], t.files[a]
}

func (t *tree) link(from, to string) {
	t.leave(to)
	must(t.root.Link(from, to))
	t.files[to] = t.files[from]
}

func (t *tree) mkdir(name string) {
	must(t.root.Mkdir(name, 0o750))
	t.dirs[name] = true
}

// symlink creates or redirects a link atomically.
func (t *tree) symlink(target, name string) {
	must(t.root.Symlink(target, ".turn"))
	must(t.root.Rename(".turn", name))
	t.leave(name)
	delete(t.files, name)
	t.links[name] = target
}

// moveDir renames a directory and updates all paths in it.
func (t *tree) moveDir(from, to string) {
	must(t.root.Rename(from, to))
	moved := func(name string) (string, bool) {
		if name == from {
			return to, true
		}
		rest, ok := strings.CutPrefix(name, from+"/")
		return to + "/" + rest, ok
	}
	for _, name := range slices.Collect(maps.Keys(t.files)) {
		if now, ok := moved(name); ok {
			t.leave(name)
			t.files[now] = t.files[name]
			delete(t.files, name)
		}
	}
	for _, name := range slices.Collect(maps.Keys(t.dirs)) {
		if now, ok := moved(name); ok {
			delete(t.dirs, name)
			t.dirs[now] = true
		}
	}
}

// removeDir removes a directory and everything in it.
func (t *tree) removeDir(name string) {
	must(t.root.RemoveAll(name))
	for _, at := range slices.Collect(maps.Keys(t.files)) {
		if strings.HasPrefix(at, name+"/") {
			t.leave(at)
			delete(t.files, at)
		}
	}
	maps.DeleteFunc(t.dirs, func(at string, _ bool) bool { return at == name || strings.HasPrefix(at, name+"/") })
}

// free reports whether a file can be created at a path.
func (t *tree) free(name string) bool {
	dir := path.Dir(name)
	return t.files[name] == nil && !t.dirs[name] && t.links[name] == "" && (dir == "." || t.dirs[dir])
}

// of lists the paths of files of some kinds, sorted.
func (t *tree) of(kinds ...string) []string {
	var list []string
	for name, b := range t.files {
		if slices.Contains(kinds, b.kind()) {
			list = append(list, name)
		}
	}
	slices.Sort(list)
	return list
}

func (t *tree) pick(list []string) string {
	if len(list) == 0 {
		return ""
	}
	return list[t.rng.IntN(len(list))]
}

// change is a file that differs from the expected state, by its former and its present content; ""
// is no file.
type change struct{ path, was, is string }

// adopt reads all files and records the changes of others.
func (t *tree) adopt() []change {
	var list []change
	seen := map[string]bool{}
	err := fs.WalkDir(t.root.FS(), ".", func(name string, e fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		switch {
		case e.Type().IsRegular():
			seen[name] = true
			old := t.files[name]
			if old != nil && strings.HasPrefix(name, "bin/") { // programs are long, and only renamed
				return nil
			}
			content, err := t.root.ReadFile(filepath.FromSlash(name))
			if err != nil {
				return err
			}
			if old == nil || string(old.content) != string(content) {
				line, _, _ := strings.Cut(string(content), "\n")
				is := &body{label: line, content: content, mode: 0o600}
				t.digests[line] = canonical.Digest(content)
				list = append(list, change{name, labelOf(old), line})
				t.leave(name)
				delete(t.links, name)
				t.files[name] = is
			}
		case e.IsDir() && name != ".":
			t.dirs[name] = true
		}
		return nil
	})
	must(err)
	for _, name := range slices.Sorted(maps.Keys(t.files)) {
		if !seen[name] {
			list = append(list, change{name, t.files[name].label, ""})
			t.leave(name)
			delete(t.files, name)
		}
	}
	return list
}
