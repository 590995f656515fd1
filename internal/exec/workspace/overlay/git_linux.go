package overlay

import (
	"slices"
	"strings"
)

// git classifies a change by the repositories that contain it. inside is true if one of them is
// named .git: then no other classification is needed.
func (v *view) git(c *Change) (inside, protected bool) {
	parts := strings.Split(c.Path, "/")
	names := folded(c.Path)
	if names[len(names)-1] == ".git" {
		return true, true
	}
	below := false // in a repository nested in another one by git
	for i := range parts {
		dir := strings.Join(parts[:i], "/")
		dotGit := i > 0 && names[i-1] == ".git"
		inside = inside || dotGit
		if !dotGit && !slices.Contains(gitSteers, names[i]) && !(below && v.repository(dir) == oldRepository) {
			continue
		}
		switch v.repository(dir) {
		case oldRepository:
			if normalToGit(names[i:], c) {
				continue
			}
			if below = v.deeper(parts, names, i); !below {
				return inside, true
			}
		case newRepository:
			return inside, true
		default:
			if dotGit {
				return inside, true
			}
		}
	}
	return inside, false
}

// deeper reports whether a path below the repository at parts[:i] is in an inner repository: a
// submodule (.git/modules) or a worktree (.git/worktrees). The inner repository must have
// existed before the program ran. That repository is then classified instead.
func (v *view) deeper(parts, names []string, i int) bool {
	if names[i] != "modules" && names[i] != "worktrees" {
		return false
	}
	for j := i + 2; j < len(parts); j++ {
		if v.repository(strings.Join(parts[:j], "/")) == oldRepository {
			return true
		}
	}
	return false
}
