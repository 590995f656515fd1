// Package overlay handles the writes of a program to a copy-on-write workspace. A Layer is the
// upper directory of the overlay file system, and a Set contains its changes compared with the
// workspace. Commit puts a Set into the workspace, and Undo reverts it, each either completely or
// not at all. The sandbox mounts the layer, not this package.
//
// A commit rewrites only the two files by which git links a worktree, because they contain the path
// of the workspace inside the sandbox. Other files with absolute paths (alternates, virtual
// environments) stay as they are: they have no closed list of forms, and a guess would change
// intended bytes.
//
// A file with other hard links is protected. A commit replaces files by rename, so the other
// names keep the old bytes, which the author of the links may not expect.
package overlay

import (
	"errors"
	"io/fs"
	"strconv"

	"palyra/internal/core/reason"
	"palyra/internal/core/text"
	"palyra/internal/exec/workspace"
)

// Config configures a layer.
type Config struct {
	// Root is the workspace: absolute, canonical and existing.
	Root string
	// Name is its declared name.
	Name string
	// Mount is the absolute path of the workspace for the program; "" is Root.
	Mount string
	// Dir is a directory of the daemon, mode 0700, on any file system that an overlay can write
	// to. The layer creates its own directory there.
	Dir string
	// UID and GID are the owner of the layer, which must be the user of the program; -1 selects
	// the daemon's own.
	UID, GID int
	// Protected are the operator's patterns of protected paths (CheckPattern).
	Protected []string
	// SearchPath are the absolute directories of the users' shell search path.
	SearchPath []string
	// MaxFiles and MaxBytes limit a change set; zero selects DefaultMaxFiles and DefaultMaxBytes.
	MaxFiles int64
	MaxBytes int64
}

// Default limits of a change set.
const (
	DefaultMaxFiles = 200_000
	DefaultMaxBytes = 1 << 30
)

// Class is a reason for the protection of a change.
type Class string

// The classes.
const (
	ClassGit        Class = "git"        // hooks, configuration, .git as a file, a new repository
	ClassAgent      Class = "agent"      // agents, editors, shells, package managers, CI: workspace.Protected
	ClassRunner     Class = "runner"     // files that a known runner executes: Makefile, conftest.py, scripts of package.json
	ClassDeclared   Class = "declared"   // a pattern of the operator
	ClassSymlink    Class = "symlink"    // a link that leaves the workspace
	ClassHardLink   Class = "hard_link"  // a file that has other names, perhaps outside of the workspace
	ClassSpecial    Class = "special"    // a device, FIFO or socket; never committed
	ClassMode       Class = "mode"       // set-user-ID, set-group-ID or sticky; the bits are never committed
	ClassName       Class = "name"       // a name that is not displayed unambiguously, or looks like another name of its directory
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

// quote formats a path with all unusual characters escaped.
func quote(p string) string {
	const most = 200
	if len(p) > most {
		return strconv.QuoteToASCII(text.Clip(p, most)) + "..."
	}
	return strconv.QuoteToGraphic(p)
}

// Display formats a path for people: unchanged if it is plain, otherwise quoted.
func Display(p string) string {
	if workspace.Plain(p) {
		return p
	}
	return strconv.QuoteToASCII(p)
}

// failure maps an error of the file system to a reason. Paths are quoted; the workspace's path on
// the machine is omitted.
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
		WithRemedy("Check the permissions of the file and the disk.")
}
