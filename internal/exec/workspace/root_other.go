//go:build !linux

package workspace

import (
	"errors"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"strings"

	"palyra/internal/core/reason"
)

// directory is the directory of a workspace. Paths are resolved by os.Root, which follows links
// that stay inside.
type directory struct{ *os.Root }

func openDirectory(d Declaration) (directory, error) {
	dir, err := os.OpenRoot(d.Path)
	if err != nil {
		return directory{}, reason.Errorf(reason.WorkspaceScope, "opening workspace %q: %w", d.Name, err).
			WithRemedy("Check that its directory exists.")
	}
	return directory{dir}, nil
}

// has reports whether an entry of that name exists, including a dangling symbolic link. If that
// is unknown, it returns true.
func (d directory) has(name string) bool {
	_, err := d.Lstat(filepath.FromSlash(name))
	return !errors.Is(err, fs.ErrNotExist) && !isNotDir(err)
}

// maxLinks limits the number of symbolic links in one look-up.
const maxLinks = 40

// Resolve returns the target of name after all symbolic links, relative to the workspace. Missing
// elements at the end are kept unchanged.
func (r *Root) Resolve(name string) (string, error) {
	if err := checkPath(name); err != nil {
		return "", err
	}
	todo := strings.Split(filepath.ToSlash(name), "/")
	real, links := ".", 0
	for len(todo) > 0 {
		part := todo[0]
		todo = todo[1:]
		switch part {
		case "", ".":
			continue
		case "..":
			if real == "." {
				return "", reason.Errorf(reason.WorkspaceScope, "%s leaves the workspace", quote(name))
			}
			real = path.Dir(real)
			continue
		}
		next := join(real, part)
		info, err := r.dir.Lstat(filepath.FromSlash(next))
		if errors.Is(err, fs.ErrNotExist) {
			return missing(name, next, todo)
		}
		if err != nil {
			return "", failure("resolving", name, err)
		}
		if info.Mode()&fs.ModeSymlink == 0 {
			real = next
			continue
		}
		target, err := r.dir.Readlink(filepath.FromSlash(next))
		if links++; err != nil || links > maxLinks || filepath.IsAbs(target) || filepath.VolumeName(target) != "" {
			return "", reason.Errorf(reason.WorkspaceScope, "%s leaves the workspace", quote(name))
		}
		todo = append(strings.Split(filepath.ToSlash(target), "/"), todo...)
	}
	return real, nil
}

// missing keeps the missing end of a path.
func missing(name, next string, rest []string) (string, error) {
	for _, part := range rest {
		if part == ".." {
			return "", reason.Errorf(reason.FileNotFound, "%s does not exist", quote(name))
		}
	}
	return path.Join(append([]string{next}, rest...)...), nil
}

func (d directory) list(real string) ([]Info, error) {
	dir, err := d.Open(filepath.FromSlash(real))
	if err != nil {
		return nil, failure("listing", real, err)
	}
	defer dir.Close()
	found, err := dir.Readdir(maxEntries + 1)
	if err != nil && !errors.Is(err, io.EOF) {
		return nil, failure("listing", real, err)
	}
	if len(found) > maxEntries {
		return nil, reason.Errorf(reason.QuotaExceeded, "%s has more than %d entries", quote(real), maxEntries).
			WithRemedy("Name a directory below it.")
	}
	entries := make([]Info, 0, len(found))
	for _, info := range found {
		entries = append(entries, infoOf(join(real, info.Name()), info))
	}
	sortEntries(entries)
	return entries, nil
}

func kindOf(mode fs.FileMode) Kind {
	switch {
	case mode.IsRegular():
		return File
	case mode.IsDir():
		return Dir
	case mode&fs.ModeSymlink != 0:
		return Symlink
	}
	return Other
}

func infoOf(name string, info fs.FileInfo) Info {
	return Info{
		Path: name, Kind: kindOf(info.Mode()), Size: info.Size(), Mode: info.Mode().Perm(),
		ModTime: info.ModTime().UTC(), Links: hardLinks(info), Identity: identity(info),
	}
}

// escapes recognizes the error of os.Root for a path that leads out; os.Root does not export it.
func escapes(err error) bool {
	return err != nil && strings.Contains(err.Error(), "escapes from parent")
}

func isNotDir(err error) bool { return err != nil && strings.Contains(err.Error(), "not a directory") }
