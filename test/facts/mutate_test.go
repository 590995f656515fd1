//go:build linux

package facts

import (
	"maps"
	"path"
	"slices"
	"strings"
)

// mutate changes the workspace. Half of the time it changes an element of the current call's
// path.
func (t *tree) mutate(aim string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if aim != "" && t.rng.IntN(2) == 0 && t.along(aim) {
		return
	}
	for range 64 {
		if mutations[t.rng.IntN(len(mutations))](t) {
			return
		}
	}
	t.turnFile()
}

// mutations lists all kinds of changes; a function without anything to change returns false.
// Link changes are listed repeatedly, because they redirect paths.
var mutations = []func(*tree) bool{
	(*tree).turnFile, (*tree).turnFile, (*tree).turnDir, (*tree).turnDir, (*tree).turnProgram,
	(*tree).swapFileAndLink, (*tree).swapFiles, (*tree).swapFiles, (*tree).swapPrograms, (*tree).over, (*tree).make, (*tree).make,
	(*tree).delete, (*tree).hardLink, (*tree).fileDir, (*tree).upperFile, (*tree).upperDir, (*tree).write, (*tree).replace, (*tree).chmod,
	(*tree).swapDirs, (*tree).dirLink,
}

// along changes an element of a path: the link that it starts with, or the file that it names.
func (t *tree) along(name string) bool {
	switch {
	case strings.HasPrefix(name, "doors/f"):
		return t.turn(strings.Join(strings.SplitN(name, "/", 3)[:2], "/"), t.targets())
	case strings.HasPrefix(name, "doors/d"):
		return t.turn(strings.Join(strings.SplitN(name, "/", 3)[:2], "/"), dirTargets)
	case strings.HasPrefix(name, "bin/"):
		return t.rng.IntN(2) == 0 && t.swapPrograms() || t.turnProgram()
	case strings.HasPrefix(name, "open/") && t.rng.IntN(2) == 0:
		return t.dirLink()
	case t.files[name] != nil:
		return t.exchange(name)
	}
	return false
}

func (t *tree) turn(link string, targets []string) bool {
	if t.links[link] == "" {
		return false
	}
	t.symlink(t.pick(targets), link)
	return true
}

// targets returns the possible targets of a file link: every file, a directory, the link
// itself, another link, and a missing file.
func (t *tree) targets() []string {
	list := []string{"../sealed", "f0", "f1", "f2", "../nowhere"}
	for _, name := range t.of(public, written, sealed) {
		list = append(list, "../"+name)
	}
	return list
}

var dirTargets = []string{"../open", "../open", "../ask", "../sealed", "../SEALED", "../mixed", "../.git", "../out", "d0", "d1", "../open/a.txt"}

func (t *tree) turnFile() bool {
	return t.turn(t.pick([]string{"doors/f0", "doors/f1", "doors/f2"}), t.targets())
}

func (t *tree) turnDir() bool {
	return t.turn(t.pick([]string{"doors/d0", "doors/d1"}), dirTargets)
}

func (t *tree) turnProgram() bool {
	return t.turn("bin/link", []string{"run", "run", "other", "denied/run"})
}

// swapFileAndLink replaces a link by a file, or the file by a link again.
func (t *tree) swapFileAndLink() bool {
	name := t.pick([]string{"doors/f1", "doors/f2"})
	if t.files[name] != nil {
		t.symlink("../open/a.txt", name)
		return true
	}
	t.put(name, t.fresh(public))
	delete(t.links, name)
	return true
}

// exchange swaps two files that may be at each other's path.
func (t *tree) exchange(name string) bool {
	var list []string
	for _, other := range t.of(public, written, sealed, program) {
		if other != name && t.files[name].isAllowedAt(other) && t.files[other].isAllowedAt(name) {
			list = append(list, other)
		}
	}
	if len(list) == 0 {
		return false
	}
	t.swap(name, t.pick(list))
	return true
}

func (t *tree) swapFiles() bool {
	name := t.pick(t.of(public, written, sealed))
	return name != "" && t.exchange(name)
}

func (t *tree) swapPrograms() bool {
	t.swap("bin/run", "bin/other")
	return true
}

// over renames a file over another.
func (t *tree) over() bool {
	list := t.of(public, written, sealed)
	from, to := t.pick(list), t.pick(list)
	if from == to || len(list) < 16 || !t.files[from].isAllowedAt(to) {
		return false
	}
	t.rename(from, to)
	return true
}

// names lists the paths of possible files.
var names = []string{
	"open/a.txt", "open/b.txt", "open/c.txt", "ask/a.txt", "ask/b.txt", "ask/c.txt", "mixed/m.txt", "mixed/n.txt", "out/w.txt", "out/v.txt", "away/a.txt",
	"sealed/a.txt", "sealed/b.txt", "sealed/c.txt", "sealed/seal.id", "SEALED/a.txt", "mixed/x.key", "mixed/y.key", "open/z.KEY", ".git/config", ".git/hooks/pre-commit",
}

// make creates a missing file.
func (t *tree) make() bool {
	name := t.pick(names)
	if !t.free(name) {
		return false
	}
	kind := public
	if forbiddenPath(name) {
		kind = sealed
	}
	t.put(name, t.fresh(kind))
	return true
}

func (t *tree) delete() bool {
	list := t.of(public, written, sealed)
	if len(list) < 20 {
		return false
	}
	t.remove(t.pick(list))
	return true
}

// hardLink adds a hard link at a path where the content is permitted, or removes a link.
func (t *tree) hardLink() bool {
	from := t.pick(t.of(public, written, sealed))
	to := t.pick(names)
	if from == "" || !t.files[from].isAllowedAt(to) || !t.free(to) {
		return false
	}
	t.link(from, to)
	return true
}

// fileDir replaces a file by a directory, or the reverse.
func (t *tree) fileDir() bool {
	const name = "out/v.txt"
	if t.dirs[name] {
		if t.files[name+"/a.txt"] != nil {
			t.remove(name + "/a.txt")
		}
		must(t.root.Remove(name))
		delete(t.dirs, name)
		t.put(name, t.fresh(public))
		return true
	}
	if t.files[name] != nil {
		t.remove(name)
	}
	t.mkdir(name)
	t.put(name+"/a.txt", t.fresh(public))
	return true
}

// upperFile changes the case of a name.
func (t *tree) upperFile() bool {
	from := t.pick(t.of(public, written, sealed))
	dir, base := path.Split(from)
	to := dir + strings.ToUpper(base)
	if from == to {
		to = dir + strings.ToLower(base)
	}
	if from == "" || strings.HasPrefix(from, "doors/") || strings.HasPrefix(from, "out/v.txt/") || !t.free(to) {
		return false
	}
	t.rename(from, to)
	return true
}

func (t *tree) upperDir() bool {
	if t.dirs["sealed"] {
		t.moveDir("sealed", "SEALED")
	} else {
		t.moveDir("SEALED", "sealed")
	}
	return true
}

func (t *tree) write() bool { return t.anew(t.edit) }

func (t *tree) replace() bool { return t.anew(t.put) }

// anew gives a file new content of the same kind.
func (t *tree) anew(how func(string, *body)) bool {
	name := t.pick(t.of(public, written, sealed))
	if name == "" {
		return false
	}
	kind := t.files[name].kind()
	if kind == written {
		kind = public
	}
	how(name, t.fresh(kind))
	return true
}

func (t *tree) chmod() bool {
	name := t.pick(t.of(public, written, sealed))
	if name == "" {
		return false
	}
	b := t.files[name]
	b.mode ^= 0o044
	must(t.root.Chmod(name, b.mode))
	return true
}

// swapDirs swaps two directories that policy treats differently.
func (t *tree) swapDirs() bool {
	if !t.dirs["open"] {
		return false
	}
	t.moveDir("open", "turning")
	t.moveDir("ask", "open")
	t.moveDir("turning", "ask")
	return true
}

// dirLink replaces a directory by a link, or restores it.
func (t *tree) dirLink() bool {
	if t.dirs["open"] {
		if t.dirs["away"] { // a call created it again
			t.removeDir("away")
		}
		t.moveDir("open", "away")
		t.symlink(t.pick([]string{"sealed", "SEALED", "ask", "mixed", "away"}), "open")
		return true
	}
	t.remove("open")
	if !t.dirs["away"] { // a call removed its last file
		t.mkdir("away")
	}
	t.moveDir("away", "open")
	return true
}

// flip alternates the links of paths until it is stopped, and returns the number of changes.
func (t *tree) flip(stop <-chan struct{}) int {
	turns := 0
	for {
		select {
		case <-stop:
			return turns
		default:
		}
		t.mu.Lock()
		for _, name := range slices.Sorted(maps.Keys(t.links)) {
			switch {
			case strings.HasPrefix(name, "doors/f"):
				t.symlink([]string{"../open/a.txt", "../sealed/a.txt"}[turns%2], name)
			case strings.HasPrefix(name, "doors/d"):
				t.symlink([]string{"../open", "../sealed"}[turns%2], name)
			}
		}
		t.mu.Unlock()
		turns++
	}
}
