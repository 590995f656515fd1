package overlay

import (
	"slices"
	"strings"
	"unicode/utf8"

	"golang.org/x/sys/unix"

	"palyra/internal/core/text"
)

// maxCompared limits the names of one directory that a new name is compared with.
const maxCompared = 1 << 16

// resembles reports whether a change adds a name with characters outside of ASCII that looks
// like another name of its directory after the commit (UTS 39). A directory that cannot be
// read, or that has more than maxCompared names, counts as a match.
func (v *view) resembles(c *Change) bool {
	dir, base := split(c.Path)
	if c.Was.Type != None || c.Is.Type == None || strings.IndexFunc(base, func(r rune) bool { return r >= utf8.RuneSelf }) < 0 {
		return false
	}
	bySkeleton, ok := v.namesBySkeleton(dir)
	return !ok || slices.ContainsFunc(bySkeleton[text.Skeleton(base)], func(other string) bool { return other != base })
}

// namesBySkeleton returns the names of a directory after the commit by their skeletons; false if
// they are not known.
func (v *view) namesBySkeleton(dir string) (map[string][]string, bool) {
	if cached, ok := v.skeletons[dir]; ok {
		return cached, cached != nil
	}
	v.skeletons[dir] = nil
	current, ok := v.namesBefore(dir)
	if !ok {
		return nil, false
	}
	bySkeleton := make(map[string][]string)
	add := func(name string) {
		skeleton := text.Skeleton(name)
		bySkeleton[skeleton] = append(bySkeleton[skeleton], name)
	}
	for _, name := range current {
		if _, changed := v.changes[join(dir, name)]; !changed {
			add(name)
		}
	}
	for _, name := range v.changedNames()[dir] {
		if v.changes[join(dir, name)].Is.Type != None {
			add(name)
		}
	}
	v.skeletons[dir] = bySkeleton
	return bySkeleton, true
}

// changedNames returns the changed names by directory. One pass serves all directories, so that the
// time does not grow with the product of changes and directories.
func (v *view) changedNames() map[string][]string {
	if v.byDirectory == nil {
		v.byDirectory = make(map[string][]string)
		for path := range v.changes {
			dir, name := split(path)
			v.byDirectory[dir] = append(v.byDirectory[dir], name)
		}
	}
	return v.byDirectory
}

// namesBefore lists a directory of the workspace before the commit; it may not exist.
func (v *view) namesBefore(dir string) ([]string, bool) {
	if dir == "" {
		dir = "."
	}
	fd, err := open(v.root, dir, unix.O_RDONLY|unix.O_DIRECTORY, 0)
	if err != nil {
		return nil, missing(err)
	}
	defer unix.Close(fd)
	list, err := names(fd, maxCompared+1)
	return list, err == nil && len(list) <= maxCompared
}
