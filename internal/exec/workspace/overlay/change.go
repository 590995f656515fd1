package overlay

import (
	"io/fs"
	"slices"
)

// Op is the kind of difference at a path.
type Op string

// The operations.
const (
	Added    Op = "added"
	Modified Op = "modified"
	Deleted  Op = "deleted"
)

// Type is the type of the entry at a path; "" means none.
type Type string

// The types.
const (
	None    Type = ""
	File    Type = "file"
	Dir     Type = "dir"
	Symlink Type = "symlink"
	Special Type = "special" // a device, FIFO or socket
)

// State is the state of a path. Its zero value means that no entry exists.
type State struct {
	Type Type
	// Mode holds the permission bits; a symbolic link has none.
	Mode fs.FileMode
	// Size is in bytes, 0 except for files.
	Size int64
	// Target is the target of a symbolic link.
	Target string
	// SHA256 is "sha256:<hex>" over a file's content or a link's target, "" for other entries.
	SHA256 string
}

// Change is one path that differs between the workspace and the layer. Two changes of a set never
// have the same path.
type Change struct {
	// Path is relative to the workspace; its bytes need not be UTF-8. The workspace's own
	// directory is ".".
	Path string
	Was  State
	Is   State
	// Classes are the reasons why the change is protected, sorted; empty if it is not.
	Classes []Class
}

// Op returns the kind of difference.
func (c Change) Op() Op {
	switch {
	case c.Was.Type == None:
		return Added
	case c.Is.Type == None:
		return Deleted
	}
	return Modified
}

// Protected reports whether the change has a class.
func (c Change) Protected() bool { return len(c.Classes) > 0 }

func (c Change) has(class Class) bool { return slices.Contains(c.Classes, class) }

// Set is a change set, sorted by path, with parents before their content.
type Set struct {
	Changes []Change
	// Workspace is the declared name.
	Workspace string
	root      string
	layer     *Layer
}

// Refused returns the paths that can never be committed: special files that the program made,
// changed or deleted.
func (s Set) Refused() []string {
	var paths []string
	for _, c := range s.Changes {
		if c.has(ClassSpecial) {
			paths = append(paths, c.Path)
		}
	}
	return paths
}
