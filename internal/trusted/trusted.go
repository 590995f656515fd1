// Package trusted refuses files that others than root and this user could change: what the
// gateway obeys, such as its policies.
package trusted

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"palyra/internal/reason"
)

// ErrUntrusted is in every error about a path that others could change, or that lies where
// it must not.
var ErrUntrusted = errors.New("others could change it")

// Check refuses a file or directory that others could change, or put another in the place
// of: what stands there once links are resolved, and every directory on the way, those of
// links too, have to belong to root or to the user of this process, and must not be writable
// by others, nor by a group that has other members. Outside are directories in which neither
// it nor a link to it must lie, such as workspaces. It returns the path without links.
//
// A directory with the sticky bit, such as /tmp, may be writable by others: they replace
// nothing in it that is not their own. What lies on a file system that is mounted read-only
// is writable by nobody. Windows has access lists, and nothing is checked there.
//
// Errors have the reason CONFIG_INVALID, the path, and the command that mends it.
func Check(path string, outside []string) (resolved string, err error) {
	resolved, links, err := walk(path)
	if err != nil {
		return "", reason.Errorf(reason.ConfigInvalid, "%s cannot be looked at: %w", path, err)
	}
	for _, at := range append(slices.Clone(links), resolved) {
		for _, dir := range outside {
			if within(at, dir) {
				return "", refused(at, "lies in the workspace "+dir+", where programs write", "Move it to a directory that is in no workspace, such as ~/.config/palyra, and name it there.")
			}
		}
	}
	if err := checkAt(resolved, false); err != nil {
		return "", err
	}
	for _, at := range append(links, resolved) {
		for up := filepath.Dir(at); ; up = filepath.Dir(up) {
			if err := checkAt(up, true); err != nil {
				return "", err
			}
			if filepath.Dir(up) == up {
				break
			}
		}
	}
	return resolved, nil
}

func checkAt(path string, above bool) error {
	info, err := os.Lstat(path)
	if err != nil {
		return reason.Errorf(reason.ConfigInvalid, "%s cannot be looked at: %w", path, err)
	}
	return check(path, info, above)
}

// mostLinks is how many links lead somewhere at most, as in Linux.
const mostLinks = 40

// walk resolves the links of a path, and returns them by their own paths without links.
func walk(path string) (resolved string, links []string, err error) {
	if path, err = filepath.Abs(path); err != nil {
		return "", nil, err
	}
	root := filepath.VolumeName(path) + string(filepath.Separator)
	at, rest := root, split(path[len(root):])
	for len(rest) > 0 {
		next := filepath.Join(at, rest[0])
		rest = rest[1:]
		info, err := os.Lstat(next)
		if err != nil {
			return "", nil, err
		}
		if info.Mode()&fs.ModeSymlink == 0 {
			at = next
			continue
		}
		if links = append(links, next); len(links) > mostLinks {
			return "", nil, &fs.PathError{Op: "resolve", Path: path, Err: errors.New("too many links")}
		}
		target, err := os.Readlink(next)
		if err != nil {
			return "", nil, err
		}
		if filepath.IsAbs(target) {
			at, target = root, target[len(filepath.VolumeName(target)):]
		}
		rest = append(split(target), rest...)
	}
	return at, links, nil
}

func split(path string) []string {
	return slices.DeleteFunc(strings.Split(path, string(filepath.Separator)), func(name string) bool { return name == "" || name == "." })
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
