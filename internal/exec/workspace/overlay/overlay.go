// Package overlay handles what a program wrote to a copy-on-write workspace. A
// Layer is the upper directory of the overlay file system, a Set the changes that
// it holds compared with the workspace. Commit puts a Set into the workspace, and
// Undo takes it back, either as a whole or not at all. The sandbox mounts the
// layer; this package never does.
package overlay

import (
	"errors"
	"io/fs"
	"strconv"

	"palyra/internal/core/reason"
	"palyra/internal/core/text"
	"palyra/internal/exec/workspace"
)

// Config says what a layer lies over.
type Config struct {
	// Root is the workspace: absolute, canonical and existing.
	Root string
	// Name is its declared name.
	Name string
	// Mount is the absolute path at which the program sees the workspace; "" is Root.
	Mount string
	// Dir is a directory of the daemon's, mode 0700, on any file system that
	// an overlay can write to. The layer makes a directory of its own there.
	Dir string
	// UID and GID are the owner of the layer, which has to be the user that the
	// program writes as; -1 is the daemon's own.
	UID, GID int
	// Protected are the operator's patterns of protected paths (CheckPattern).
	Protected []string
	// SearchPath are absolute directories in which people's shells find
	// programs.
	SearchPath []string
	// MaxFiles and MaxBytes bound what a change set may hold; zero means
	// DefaultMaxFiles and DefaultMaxBytes.
	MaxFiles int64
	MaxBytes int64
}

// The bounds of a change set that its Config leaves open.
const (
	DefaultMaxFiles = 200_000
	DefaultMaxBytes = 1 << 30
)

// Class is why a change is protected.
type Class string

// The classes.
const (
	ClassGit        Class = "git"        // hooks, configuration, .git as a file, a new repository
	ClassAgent      Class = "agent"      // agents, editors, shells, package managers, CI: workspace.Protected
	ClassRunner     Class = "runner"     // what a known runner executes: Makefile, conftest.py, scripts of package.json
	ClassDeclared   Class = "declared"   // a pattern of the operator's
	ClassSymlink    Class = "symlink"    // a link that leaves the workspace
	ClassHardLink   Class = "hard_link"  // a file that has other names, perhaps outside of the workspace
	ClassSpecial    Class = "special"    // a device, FIFO or socket; never committed
	ClassMode       Class = "mode"       // set-user-ID, set-group-ID or sticky; the bits are never committed
	ClassName       Class = "name"       // a name that a person would not see as what it is
	ClassExecutable Class = "executable" // a program in a directory of the search path
)

func (c Config) orDefault() Config {
	if c.MaxFiles == 0 {
		c.MaxFiles = DefaultMaxFiles
	}
	if c.MaxBytes == 0 {
		c.MaxBytes = DefaultMaxBytes
	}
	return c
}

// quote writes a path so that every odd character of it shows.
func quote(p string) string {
	const most = 200
	if len(p) > most {
		return strconv.QuoteToASCII(text.Clip(p, most)) + "..."
	}
	return strconv.QuoteToGraphic(p)
}

// Display writes a path for people: as it is when it is plain, else quoted.
func Display(p string) string {
	if workspace.Plain(p) {
		return p
	}
	return strconv.QuoteToASCII(p)
}

// failure gives an error of the file system its reason. Paths are quoted; the
// place of the workspace on the machine is left out.
func failure(doing, name string, err error) error {
	var known *reason.Error
	if err == nil || errors.As(err, &known) {
		return err
	}
	var at *fs.PathError
	if errors.As(err, &at) {
		err = at.Err
	}
	return reason.Errorf(reason.ToolFailed, "%s %s: %w", doing, quote(name), err).
		WithRemedy("Look at the file's permissions and the disk.")
}
