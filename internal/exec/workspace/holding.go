package workspace

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
)

// Holding returns the workspace that an absolute path of this machine is in, and the
// path there, with forward slashes and symbolic links resolved; "" for none. real is
// the absolute path without links. What does not exist is looked up from the last
// directory that does. Where workspaces lie in each other, it is the innermost.
func (s *Set) Holding(abs string) (workspace, rel, real string, err error) {
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

// realPath resolves the links of a path whose end need not exist. A link that leads
// nowhere is an error: what will be there is not known.
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
