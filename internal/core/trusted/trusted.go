// Package trusted refuses files that users other than root and this user could change: files that
// control the gateway, such as its policies.
package trusted

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"palyra/internal/core/reason"
)

// ErrUntrusted is wrapped by every error about a path that others could change, or that is in a
// forbidden directory.
var ErrUntrusted = errors.New("others could change it")

// Check refuses a file or directory that others could change or replace. The file itself, every
// directory above it and every symbolic link on the path MUST belong to root or to the user of
// this process. The owner of a link can change its target, even in a directory with the sticky
// bit. The file and the directories MUST NOT be writable by others, nor by a group that has
// other members. Neither the file nor a link to it may be in one of the directories in outside,
// such as workspaces. Check returns the path without links.
//
// A directory with the sticky bit, such as /tmp, may be writable by others: they can replace only
// their own files in it. On a read-only file system, no file counts as writable. On Windows, which
// has access lists, nothing is checked.
//
// Errors have the reason CONFIG_INVALID, the path, and the command that corrects it.
func Check(path string, outside []string) (resolved string, err error) {
	resolved, way, err := walk(path)
	if err != nil {
		return "", reason.Errorf(reason.ConfigInvalid, "%s cannot be inspected: %w", path, err).
			WithRemedy("Correct the file or link %s, or remove it.", path)
	}
	for _, s := range way {
		if !s.isLink() && s.path != resolved {
			continue
		}
		for _, dir := range outside {
			if within(s.path, dir) {
				return "", refused(s.path, "lies in the workspace "+dir+", where programs write", "Move it to a directory that is in no workspace, such as ~/.config/palyra, and name it there.")
			}
		}
	}
	for _, s := range slices.Backward(way) {
		if err := check(s, s.path != resolved); err != nil {
			return "", err
		}
	}
	return resolved, nil
}

// step is a directory or a link on the way to a file, or the file itself. Only the last element
// of its path may be a link.
type step struct {
	path string
	info fs.FileInfo
}

func (s step) isLink() bool { return s.info.Mode()&fs.ModeSymlink != 0 }

// mostLinks is the maximum number of links on a path, as in Linux.
const mostLinks = 40

// walk resolves the links of a path, and returns each step on the way, starting at the root.
func walk(path string) (resolved string, way []step, err error) {
	if path, err = filepath.Abs(path); err != nil {
		return "", nil, err
	}
	root := filepath.VolumeName(path) + string(filepath.Separator)
	at, rest, links := root, split(path[len(root):]), 0
	if way, err = appendStep(way, root); err != nil {
		return "", nil, err
	}
	for len(rest) > 0 {
		next := filepath.Join(at, rest[0])
		rest = rest[1:]
		if way, err = appendStep(way, next); err != nil {
			return "", nil, err
		}
		if !way[len(way)-1].isLink() {
			at = next
			continue
		}
		if links++; links > mostLinks {
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
	return at, way, nil
}

func appendStep(way []step, path string) ([]step, error) {
	info, err := os.Lstat(path)
	return append(way, step{path, info}), err
}

func split(path string) []string {
	return slices.DeleteFunc(strings.Split(path, string(filepath.Separator)), func(name string) bool { return name == "" || name == "." })
}

// within reports whether a path without links is dir or is below it.
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

// Mine reports whether a file exists and belongs to the user of this process.
func Mine(path string) bool {
	info, err := os.Stat(path)
	return err == nil && mine(info)
}

// sticky reports whether users can replace only their own files in a directory.
func sticky(info fs.FileInfo, above bool) bool {
	return above && info.Mode()&fs.ModeSticky != 0
}
