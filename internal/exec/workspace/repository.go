package workspace

import (
	"slices"
	"strings"

	"palyra/internal/core/reason"
)

// Git treats a directory of any name as a repository if it contains HEAD, objects and refs, or HEAD
// and commondir. As soon as a person runs git there, git runs commands from the configuration and
// hooks of the directory.
var (
	repositoryParts  = []string{"objects", "refs", "commondir"}
	repositorySteers = []string{"config", "config.worktree", "hooks", "commondir", "gitdir"}
)

// Judge refuses changes that together would make a directory a git repository, or
// would write a file in a repository that configures git. Paths are resolved, as
// Target returns them.
func (r *Root) Judge(changes []Change) error {
	for _, c := range changes {
		parts := strings.Split(c.Path, "/")
		for i, part := range parts {
			if err := judgePart(r.dir, changes, c, strings.Join(parts[:i], "/"), part, len(parts)-i); err != nil {
				return err
			}
		}
	}
	return nil
}

// judgePart checks one element of a path, which is in dir of root and has depth-1 elements after it.
func judgePart(root directory, changes []Change, c Change, dir, part string, depth int) error {
	name := Fold(part)
	steers := slices.Contains(repositorySteers, name) && (depth == 1) != (name == "hooks")
	makes := slices.Contains(repositoryParts, name) && !c.Delete && !root.has(under(dir, part))
	if !steers && !makes || !root.has(under(dir, "HEAD")) && !gets(changes, dir, "head") {
		return nil
	}
	if !makes && !slices.ContainsFunc(repositoryParts, func(p string) bool { return root.has(under(dir, p)) || gets(changes, dir, p) }) {
		return nil
	}
	e := reason.Errorf(reason.ProtectedPath, "%s is protected: its directory has HEAD, so git would take it for a repository and obey its configuration", quote(c.Path))
	return e.WithField("path", c.Path)
}

// gets reports whether the changes create an entry with that folded name in dir.
func gets(changes []Change, dir, name string) bool {
	return slices.ContainsFunc(changes, func(c Change) bool {
		rest, ok := c.Path, true
		if dir != "" {
			rest, ok = strings.CutPrefix(c.Path, dir+"/")
		}
		first, _, _ := strings.Cut(rest, "/")
		return ok && !c.Delete && Fold(first) == name
	})
}

func under(dir, name string) string {
	if dir == "" {
		return name
	}
	return dir + "/" + name
}
