package overlay

import (
	"strings"

	"golang.org/x/sys/unix"

	"palyra/internal/exec/workspace"
)

// view is the state of the workspace before and after a commit.
type view struct {
	root    int
	changes map[string]*Change
	// added are the folded names that the change set adds or modifies in each directory.
	added map[string]map[string]bool
	// repositories caches the results of repository.
	repositories map[string]repositoryKind
	// obeyed are the paths that git's configuration names (gitObeys).
	obeyed []string
	// skeletons caches the results of namesBySkeleton.
	skeletons map[string]map[string][]string
	// byDirectory caches the result of changedNames.
	byDirectory map[string][]string
}

func newView(root int, changes []Change) *view {
	v := &view{
		root: root, changes: make(map[string]*Change, len(changes)),
		added: map[string]map[string]bool{}, repositories: map[string]repositoryKind{},
		skeletons: map[string]map[string][]string{},
	}
	for i := range changes {
		c := &changes[i]
		v.changes[c.Path] = c
		if c.Is.Type == None {
			continue
		}
		dir, base := split(c.Path)
		if v.added[dir] == nil {
			v.added[dir] = map[string]bool{}
		}
		v.added[dir][workspace.Fold(base)] = true
	}
	return v
}

// after returns the state of a path after the commit: its type, and its target if it is a link.
func (v *view) after(name string) (Type, string) {
	if c, ok := v.changes[name]; ok {
		return c.Is.Type, c.Is.Target
	}
	return v.before(name)
}

// before returns the current state of a path.
func (v *view) before(name string) (Type, string) {
	if c, ok := v.changes[name]; ok {
		return c.Was.Type, c.Was.Target
	}
	fd, err := open(v.root, name, unix.O_PATH|unix.O_NOFOLLOW, 0)
	if err != nil {
		return None, ""
	}
	defer unix.Close(fd)
	st, err := fstat(fd)
	if err != nil || typeOf(st.Mode) != Symlink {
		return typeOf(st.Mode), ""
	}
	// An empty name reads the open link itself.
	l, err := link(fd, "")
	if err != nil {
		return None, ""
	}
	return Symlink, l.Target
}

// hasAfter reports whether a directory will contain a name, folded or exact.
func (v *view) hasAfter(dir, name string) bool {
	if v.added[dir][workspace.Fold(name)] {
		return true
	}
	kind, _ := v.after(join(dir, name))
	return kind != None
}

func (v *view) hasBefore(dir, name string) bool {
	kind, _ := v.before(join(dir, name))
	return kind != None
}

// repositoryKind is the result of a check for a git repository.
type repositoryKind int

const (
	noRepository repositoryKind = iota
	// newRepository is a repository that the change set creates.
	newRepository
	oldRepository
)

// repository classifies a directory by the names that git checks: HEAD with objects and refs, or
// HEAD with commondir.
func (v *view) repository(dir string) repositoryKind {
	if kind, ok := v.repositories[dir]; ok {
		return kind
	}
	kind := noRepository
	switch {
	case isRepository(dir, v.hasBefore):
		kind = oldRepository
	case isRepository(dir, v.hasAfter):
		kind = newRepository
	}
	v.repositories[dir] = kind
	return kind
}

func isRepository(dir string, has func(dir, name string) bool) bool {
	return has(dir, "HEAD") && (has(dir, "objects") && has(dir, "refs") || has(dir, "commondir"))
}

// maxHops limits the chain of links.
const maxHops = 40

// leaves reports whether a symbolic link at name leads out of the workspace, directly or through
// other links. An absolute target counts as leaving: inside the sandbox, where the workspace is
// /workspace, it names another file than outside.
func (v *view) leaves(name, target string) bool {
	if climbs(target) {
		return true
	}
	dir, _ := split(name)
	at, rest := dir, target
	for hops := 0; rest != ""; {
		if strings.HasPrefix(rest, "/") {
			return true
		}
		part, after, _ := strings.Cut(rest, "/")
		rest = strings.TrimLeft(after, "/")
		switch part {
		case "", ".":
			continue
		case "..":
			if at == "" {
				return true
			}
			at, _ = split(at)
			continue
		}
		kind, next := v.after(join(at, part))
		if kind != Symlink {
			at = join(at, part)
			continue
		}
		if hops++; hops > maxHops {
			return true
		}
		rest = next + "/" + rest
	}
	return false
}

// climbs reports whether a target goes up after it went down. A later change may put a link into
// that part, and the target then leads elsewhere.
func climbs(target string) bool {
	down := false
	for part := range strings.SplitSeq(target, "/") {
		if down && part == ".." {
			return true
		}
		down = down || part != "" && part != "." && part != ".."
	}
	return false
}
