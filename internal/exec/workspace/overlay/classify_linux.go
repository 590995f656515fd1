package overlay

import (
	"io"
	"os"
	"path"
	"slices"

	"golang.org/x/sys/unix"

	"palyra/internal/core/canonical"
	"palyra/internal/core/reason"
	"palyra/internal/exec/workspace"
)

// classify sets the classes of the changes. The walk has already set special and mode.
func (l *Layer) classify(changes []Change) error {
	return control(l.lower, func(root int) error {
		v := newView(root, changes)
		v.obeyed = v.gitObeys(l.config.Root)
		for i := range changes {
			c := &changes[i]
			c.Classes = append(c.Classes, l.classes(v, c)...)
			slices.Sort(c.Classes)
			c.Classes = slices.Compact(c.Classes)
		}
		return nil
	})
}

func (l *Layer) classes(v *view, c *Change) []Class {
	if c.Path == "." {
		return []Class{ClassMode} // the mode of the workspace itself
	}
	var classes []Class
	inside, steers := v.git(c)
	switch {
	case steers, v.leadsGit(c):
		classes = append(classes, ClassGit)
	case !inside && agentPath(c.Path):
		classes = append(classes, ClassAgent)
	}
	if !inside && runnerFile(c.Path) && !l.onlyData(c) {
		classes = append(classes, ClassRunner)
	}
	if Declared(l.config.Protected, c.Path) {
		classes = append(classes, ClassDeclared)
	}
	if c.Is.Type == Symlink && v.leaves(c.Path, c.Is.Target) {
		classes = append(classes, ClassSymlink)
	}
	if !plain(c.Path) || !plain(c.Is.Target) || v.resembles(c) {
		classes = append(classes, ClassName)
	}
	if l.executable(v, c) {
		classes = append(classes, ClassExecutable)
	}
	return classes
}

// plain checks every name of a path.
func plain(name string) bool { return workspace.Plain(name) }

// onlyData reports whether a change of a project file affects only its data, and none of its
// commands.
func (l *Layer) onlyData(c *Change) bool {
	if c.Is.Type != File || c.Was.Type != File && c.Was.Type != None || c.Is.Mode&^c.Was.Mode&0o111 != 0 {
		return false
	}
	was, errWas := l.before(c)
	is, errIs := l.after(c)
	return errWas == nil && errIs == nil && dataOnly(c.Path, was, is)
}

// before reads a small file of the workspace; nil means that it does not exist.
func (l *Layer) before(c *Change) ([]byte, error) {
	return small(l.lower, c.Path, c.Was, func(dir int) (int, func(), error) {
		fd, err := open(dir, c.Path, readFile, 0)
		return fd, func() { unix.Close(fd) }, err
	})
}

// after reads a small file of the layer; nil means that it does not exist.
func (l *Layer) after(c *Change) ([]byte, error) {
	return small(l.upper, c.Path, c.Is, func(dir int) (int, func(), error) { return openUpper(dir, c.Path, readFile) })
}

func small(side *os.File, name string, state State, open func(dir int) (int, func(), error)) ([]byte, error) {
	switch {
	case state.Type != File:
		return nil, nil
	case state.Size > maxSmall:
		return nil, tooMuch("%s has more than %d bytes", quote(name), maxSmall)
	}
	var content []byte
	err := control(side, func(dir int) error {
		fd, done, err := open(dir)
		if err != nil {
			return err
		}
		defer done()
		content, err = io.ReadAll(io.LimitReader(reader(fd), maxSmall))
		if err == nil && canonical.Digest(content) != state.SHA256 {
			return reason.Errorf(reason.CommitConflict, "%s was changed while it was read", quote(name))
		}
		return err
	})
	return content, err
}

// maxSmall is the maximum size in bytes of a file whose content is parsed.
const maxSmall = 1 << 20

// executable reports whether a change puts a program into a directory of the search path or of a
// Python environment.
func (l *Layer) executable(v *view, c *Change) bool {
	if c.Is.Type != Symlink && (c.Is.Type != File || c.Is.Mode&0o111 == 0) {
		return false
	}
	dir, _ := split(c.Path)
	if slices.Contains(l.config.SearchPath, path.Join(l.config.Root, dir)) {
		return true
	}
	parent, base := split(dir)
	return base == "bin" && v.hasAfter(parent, "pyvenv.cfg")
}
