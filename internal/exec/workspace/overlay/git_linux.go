package overlay

import (
	"slices"
	"strings"
)

// git judges a change by the repositories that it lies in. inside is true when
// one of them is named .git: then nothing else needs to judge the change.
func (v *view) git(c *Change) (inside, protected bool) {
	parts := strings.Split(c.Path, "/")
	names := folded(c.Path)
	if names[len(names)-1] == ".git" {
		return true, true
	}
	below := false // in a repository that git keeps in another one
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

// deeper reports whether a path below the repository at parts[:i] lies in another
// repository that git keeps inside it, and that was there before the program ran:
// one of a submodule (.git/modules) or a worktree (.git/worktrees). That one is then
// judged in its place.
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
