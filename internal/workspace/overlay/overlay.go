// Package overlay is the commit gate's view of a copy-on-write workspace: the
// upper layer of an overlay file system that a program wrote to, the change set
// that it amounts to, and the way of that change set into the workspace, all of
// it or nothing. The sandbox mounts the layer; this package never does.
package overlay

// Layer is the upper layer of one run over one workspace. It may be used by
// one goroutine at a time.
type Layer struct{}

// Class is why a change is protected.
type Class string

// The classes.
const (
	ClassGit        Class = "git"        // hooks, configuration, .git as a file, a new repository
	ClassAgent      Class = "agent"      // agents, editors, shells, package managers, CI: workspace.Protected
	ClassRunner     Class = "runner"     // what a known runner executes: Makefile, conftest.py, scripts of package.json
	ClassDeclared   Class = "declared"   // a pattern of the operator's
	ClassSymlink    Class = "symlink"    // a link that leaves the workspace
	ClassSpecial    Class = "special"    // a device, FIFO or socket; never committed
	ClassMode       Class = "mode"       // set-user-ID or set-group-ID; never committed
	ClassName       Class = "name"       // a name that a person would not see as what it is
	ClassExecutable Class = "executable" // a program in a directory of the search path
)

// Change is one path that differs between the workspace and the layer.
type Change struct {
	Path string
	// Was and Is are "sha256:<hex>", "" for no file.
	Was string
	Is  string
}

// Set is a change set, sorted by path.
type Set struct {
	Changes []Change
}
