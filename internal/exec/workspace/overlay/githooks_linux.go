package overlay

import (
	"io"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"golang.org/x/sys/unix"

	"palyra/internal/core/lazyregexp"
)

// gitNames matches the settings of a git configuration that name files that git executes or
// reads for instructions: core.hooksPath, core.fsmonitor, core.attributesFile, include.path.
var gitNames = lazyregexp.New(`(?im)^[^#;\n]*?\b(hookspath|fsmonitor|attributesfile|path)[ \t]*=[ \t]*"?([^"#;\n]+)`)

// gitObeys lists the workspace paths that the git configuration of the workspace names, such as
// a directory of hooks outside of .git.
func (v *view) gitObeys(root string) []string {
	fd, err := open(v.root, ".git/config", readFile, 0)
	if err != nil {
		return nil
	}
	defer unix.Close(fd)
	text, err := io.ReadAll(io.LimitReader(reader(fd), maxSmall))
	if err != nil {
		return nil
	}
	var paths []string
	for _, m := range gitNames.FindAllStringSubmatch(string(text), -1) {
		name := strings.TrimPrefix(strings.TrimSpace(m[2]), root+"/")
		if strings.EqualFold(m[1], "path") && !path.IsAbs(name) {
			name = path.Join(".git", name)
		}
		if name = path.Clean(name); name != "." && filepath.IsLocal(name) {
			paths = append(paths, name)
		}
	}
	return paths
}

// leadsGit reports whether a change affects a path that git's configuration names, a path below
// it, or a link on the way to it.
func (v *view) leadsGit(c *Change) bool {
	return slices.ContainsFunc(v.obeyed, func(named string) bool {
		return strings.HasPrefix(c.Path+"/", named+"/") || c.Is.Type == Symlink && strings.HasPrefix(named, c.Path+"/")
	})
}
