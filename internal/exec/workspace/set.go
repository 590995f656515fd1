// Package workspace provides access to the directories that the operator declared, and to no
// others. Every look-up is relative to an open directory and resolved by the kernel. Symbolic
// links that stay inside are followed, and paths that leave the workspace are refused, even
// while another process changes the tree. A file is replaced as a whole, and only if its
// content still has the digest that the caller expects.
package workspace

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"palyra/internal/core/lazyregexp"
	"palyra/internal/core/reason"
	"palyra/internal/core/text"
)

// DefaultName is the workspace of a call that names no workspace if several are declared.
const DefaultName = "default"

// Declaration is one [[workspaces]] entry of the configuration.
type Declaration struct {
	// Name is 1 to 63 of a-z, 0-9, '.', '_', '-'.
	Name string
	// Path is an absolute path of an existing directory; NewSet makes it canonical.
	Path     string
	ReadOnly bool
}

// Set holds the declared workspaces. It is immutable.
type Set struct {
	byName map[string]Declaration
	names  []string
}

var nameForm = lazyregexp.New(`^[a-z0-9][a-z0-9._-]{0,62}$`)

// NewSet validates the declarations: names are distinct, paths are absolute and name existing
// directories. No workspace overlaps a private path of the operator or is a credential bundle,
// and no writable workspace contains a read-only one. Errors carry reason.ConfigInvalid.
func NewSet(declarations []Declaration, private ...Private) (*Set, error) {
	kept := make([]resolvedPrivate, 0, len(private))
	for _, p := range private {
		places, err := p.paths()
		if err != nil {
			return nil, err
		}
		kept = append(kept, resolvedPrivate{p, places})
	}
	set := &Set{byName: make(map[string]Declaration, len(declarations))}
	for _, d := range declarations {
		d, err := check(d, kept)
		if err != nil {
			return nil, err
		}
		if _, ok := set.byName[d.Name]; ok {
			return nil, bad("workspace %q is declared twice", d.Name)
		}
		set.byName[d.Name] = d
		set.names = append(set.names, d.Name)
	}
	slices.Sort(set.names)
	return set, set.checkNesting()
}

func bad(format string, args ...any) *reason.Error {
	return reason.Errorf(reason.ConfigInvalid, format, args...)
}

func check(d Declaration, private []resolvedPrivate) (Declaration, error) {
	if !nameForm.MatchString(d.Name) {
		return d, bad("workspace name %q: must be 1 to 63 of a-z, 0-9, '.', '_', '-', beginning with a letter or digit", d.Name)
	}
	if !filepath.IsAbs(d.Path) {
		return d, bad("workspace %q: path %q is not absolute", d.Name, d.Path)
	}
	real, err := filepath.EvalSymlinks(d.Path)
	if err != nil {
		return d, unusable(d, err)
	}
	info, err := os.Stat(real)
	if err != nil {
		return d, unusable(d, err)
	}
	if !info.IsDir() {
		return d, bad("workspace %q: %q is not a directory", d.Name, d.Path)
	}
	d.Path = real
	for _, p := range private {
		if err := p.apart(d); err != nil {
			return d, err
		}
	}
	return d, refuseBundle(d)
}

// unusable names the declaration in an error, in addition to the part of its path that failed.
func unusable(d Declaration, err error) error {
	var at *fs.PathError
	if errors.As(err, &at) && at.Path == d.Path {
		err = at.Err
	}
	return bad("workspace %q: its path %q cannot be used: %w", d.Name, d.Path, err).
		WithRemedy("Create the directory, or correct the path under [[workspaces]] in palyra.toml.")
}

// inside reports whether path is dir or below it. It compares names, and the parents of path
// with dir by device and inode, because of bind mounts and file systems that fold case.
func inside(dir, path string) bool {
	if rel, err := filepath.Rel(dir, path); err == nil && rel != ".." && !strings.HasPrefix(rel, ".."+string(filepath.Separator)) {
		return true
	}
	top, err := os.Stat(dir)
	if err != nil {
		return false
	}
	for at := path; ; at = filepath.Dir(at) {
		if info, err := os.Stat(at); err == nil && os.SameFile(top, info) {
			return true
		}
		if at == filepath.Dir(at) {
			return false
		}
	}
}

func (s *Set) checkNesting() error {
	for _, outer := range s.byName {
		for _, inner := range s.byName {
			if outer.Name != inner.Name && !outer.ReadOnly && inner.ReadOnly && inside(outer.Path, inner.Path) {
				return bad("workspace %q is read-only but lies inside %q, which is writable", inner.Name, outer.Name)
			}
		}
	}
	return nil
}

// Open opens a workspace; the caller closes it. The empty name selects the only workspace, or the
// one named "default". An unknown name is reason.UnknownWorkspace.
func (s *Set) Open(name string) (*Root, error) {
	d, err := s.find(name)
	if err != nil {
		return nil, err
	}
	return openRoot(d)
}

func (s *Set) find(name string) (Declaration, error) {
	switch {
	case len(s.names) == 0:
		return Declaration{}, reason.Errorf(reason.UnknownWorkspace, "no workspace is declared").
			WithRemedy("Declare one under [[workspaces]] in palyra.toml.")
	case name == "" && len(s.names) == 1:
		name = s.names[0]
	case name == "" && s.byName[DefaultName].Name == "":
		return Declaration{}, reason.Errorf(reason.UnknownWorkspace, "the call names no workspace, and several are declared: %s", strings.Join(s.names, ", ")).
			WithRemedy("Name one, such as workspace=%s; palyra call also uses the one that contains the current directory.", s.names[0]).
			WithField("declared", strings.Join(s.names, ", "))
	case name == "":
		name = DefaultName
	}
	if d, ok := s.byName[name]; ok {
		return d, nil
	}
	return Declaration{}, reason.Errorf(reason.UnknownWorkspace, "workspace %s is not declared", quote(name)).
		WithRemedy("%s", text.NearestHelp(name, s.names)).
		WithField("declared", strings.Join(s.names, ", "))
}
