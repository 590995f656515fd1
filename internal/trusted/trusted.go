// Package trusted refuses files that others than root and this user could change: what the
// gateway obeys, such as its policies.
package trusted

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"palyra/internal/reason"
)

// ErrUntrusted is in every error about a path that others could change, or that lies where
// it must not.
var ErrUntrusted = errors.New("others could change it")

// Check refuses a file or directory that others could change, or put another in the place
// of: links are resolved, and what stands there and every directory above have to belong to
// root or to the user of this process, and must not be writable by others, nor by a group
// that has other members. Outside are directories in which it must not lie, such as
// workspaces. It returns the path without links.
//
// A directory with the sticky bit, such as /tmp, may be writable by others: they replace
// nothing in it that is not their own. What lies on a file system that is mounted read-only
// is writable by nobody. Windows has access lists, and nothing is checked there.
//
// Errors have the reason CONFIG_INVALID, the path, and the command that mends it.
func Check(path string, outside []string) (resolved string, err error) {
	if resolved, err = filepath.Abs(path); err == nil {
		resolved, err = filepath.EvalSymlinks(resolved)
	}
	if err != nil {
		return "", reason.Errorf(reason.ConfigInvalid, "%s cannot be looked at: %w", path, err)
	}
	for _, dir := range outside {
		if within(resolved, dir) {
			return "", refused(resolved, "lies in the workspace "+dir+", where programs write", "Move it to a directory that is in no workspace, such as ~/.config/palyra, and name it there.")
		}
	}
	above := false
	for at := resolved; ; at = filepath.Dir(at) {
		info, err := os.Lstat(at)
		if err != nil {
			return "", reason.Errorf(reason.ConfigInvalid, "%s cannot be looked at: %w", at, err)
		}
		if err := check(at, info, above); err != nil {
			return "", err
		}
		if above = true; filepath.Dir(at) == at {
			return resolved, nil
		}
	}
}

// within reports whether a path without links is a directory or lies in it.
func within(path, dir string) bool {
	if abs, err := filepath.Abs(dir); err == nil {
		dir = abs
	}
	if real, err := filepath.EvalSymlinks(dir); err == nil {
		dir = real
	}
	rel, err := filepath.Rel(dir, path)
	return err == nil && rel != ".." && !strings.HasPrefix(rel, ".."+string(filepath.Separator))
}

func refused(path, what, remedy string) error {
	return reason.Errorf(reason.ConfigInvalid, "%s %s: %w", path, what, ErrUntrusted).WithRemedy("%s", remedy)
}

// Mine reports whether a file is there and belongs to the user of this process.
func Mine(path string) bool {
	info, err := os.Stat(path)
	return err == nil && mine(info)
}

// sticky reports whether others replace nothing in a directory that is not their own.
func sticky(info fs.FileInfo, above bool) bool {
	return above && info.Mode()&fs.ModeSticky != 0
}
