package main

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
)

// An entry is a file, folder or symbolic link of an artifact.
type entry struct {
	// name is the path within the artifact, with slashes and without a leading one.
	name string
	mode fs.FileMode // fs.ModeDir, fs.ModeSymlink or 0, and the permissions
	// source is the file on disk; body is its content where there is none.
	source string
	body   []byte
	target string // of a symbolic link
	uid    int    // and gid
}

func (e entry) content() ([]byte, error) {
	if e.source == "" {
		return e.body, nil
	}
	return os.ReadFile(e.source)
}

// sorted returns the entries in the order of their names, with the folders above them.
func sorted(entries []entry) ([]entry, error) {
	byName := make(map[string]entry)
	for _, e := range entries {
		if _, ok := byName[e.name]; ok {
			return nil, fmt.Errorf("two files of an artifact have the name %s", e.name)
		}
		byName[e.name] = e
	}
	for _, e := range entries {
		for dir := path.Dir(e.name); dir != "."; dir = path.Dir(dir) {
			if _, ok := byName[dir]; !ok {
				byName[dir] = entry{name: dir, mode: fs.ModeDir | 0o755}
			}
		}
	}
	result := make([]entry, 0, len(byName))
	for _, e := range byName {
		result = append(result, e)
	}
	slices.SortFunc(result, func(a, b entry) int { return strings.Compare(a.name, b.name) })
	return result, nil
}

// tree returns the files below a folder as entries below a prefix, with mode 0644 or 0755.
func tree(folder, prefix string) ([]entry, error) {
	var entries []entry
	err := filepath.WalkDir(folder, func(name string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		if !d.Type().IsRegular() {
			return fmt.Errorf("%s is not a regular file", name)
		}
		info, err := d.Info()
		if err != nil {
			return err
		}
		mode := fs.FileMode(0o644)
		if info.Mode()&0o100 != 0 {
			mode = 0o755
		}
		relative, err := filepath.Rel(folder, name)
		if err != nil {
			return err
		}
		entries = append(entries, entry{name: path.Join(prefix, filepath.ToSlash(relative)), mode: mode, source: name})
		return nil
	})
	return entries, err
}

// writeFile writes an artifact under a temporary name first, so that a failed run leaves no half of
// one.
func writeFile(name string, data []byte, mode fs.FileMode) error {
	if err := os.WriteFile(name+".new", data, mode); err != nil {
		return err
	}
	return errors.Join(os.Chmod(name+".new", mode), os.Rename(name+".new", name))
}

// makeFolder makes a folder that everybody can read, as what is published is.
func makeFolder(name string) error {
	return os.MkdirAll(name, 0o755) //nolint:gosec // see above
}
