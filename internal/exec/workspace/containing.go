package workspace

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
)

// Containing returns the workspace that contains an absolute path of this machine, and the path
// within it, with forward slashes and resolved symbolic links; "" for none. real is the
// absolute path without links. A path that does not exist is resolved from its last existing
// directory. It returns the innermost of nested workspaces.
func (s *Set) Containing(abs string) (workspace, rel, real string, err error) {
	if real, err = realPath(filepath.Clean(abs)); err != nil {
		return "", "", "", err
	}
	at := ""
	for _, name := range s.names {
		d := s.byName[name]
		if rest, ok := below(d.Path, real); ok && (workspace == "" || len(d.Path) > len(at)) {
			workspace, rel, at = name, filepath.ToSlash(rest), d.Path
		}
	}
	return workspace, rel, real, nil
}

// below returns path relative to dir, "." for dir itself.
func below(dir, path string) (string, bool) {
	rest, err := filepath.Rel(dir, path)
	if err != nil || rest == ".." || strings.HasPrefix(rest, ".."+string(filepath.Separator)) {
		return "", false
	}
	return rest, true
}

// realPath resolves the links of a path whose end need not exist. A dangling link is an error,
// because its future target is unknown.
func realPath(abs string) (string, error) {
	rest := ""
	for at := abs; ; at = filepath.Dir(at) {
		real, err := filepath.EvalSymlinks(at)
		if err == nil {
			return filepath.Join(real, rest), nil
		}
		if !errors.Is(err, fs.ErrNotExist) || filepath.Dir(at) == at {
			return "", failure("resolving", abs, err)
		}
		if _, err := os.Lstat(at); err == nil {
			return "", failure("resolving", abs, fs.ErrNotExist)
		}
		rest = filepath.Join(filepath.Base(at), rest)
	}
}
