// Package keyfile reads and writes private files: mode 0600 in a directory of mode 0700. It
// writes them atomically, and refuses files that others could have read or changed.
package keyfile

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"palyra/internal/core/reason"
)

// The modes of directories and files.
const (
	DirMode  fs.FileMode = 0o700
	FileMode fs.FileMode = 0o600
)

// maxSize is far above any key or certificate file: 1 MiB.
const maxSize = 1 << 20

// MakeDir creates a directory and its parents with DirMode if they do not exist, and then
// checks the directory.
func MakeDir(dir string) error {
	if err := os.MkdirAll(dir, DirMode); err != nil {
		return fmt.Errorf("making directory: %w", err)
	}
	return CheckDir(dir)
}

// CheckDir refuses a directory that others may enter or that belongs to another user. On Windows
// the access list of the user's profile protects it, and only the kind is checked.
func CheckDir(dir string) error {
	info, err := os.Lstat(dir)
	if err != nil {
		return fmt.Errorf("checking directory: %w", err)
	}
	if !info.IsDir() {
		return reason.Errorf(reason.ConfigInvalid, "%s is not a directory", dir)
	}
	if err := private(dir, info, "700"); err != nil {
		return err
	}
	return owned(dir, info)
}

// CheckPrivate refuses a directory that others may enter. It is for reading: unlike CheckDir,
// it permits a link to a directory, and any owner.
func CheckPrivate(dir string) error {
	info, err := os.Stat(dir)
	if err != nil {
		return fmt.Errorf("checking directory: %w", err)
	}
	if !info.IsDir() {
		return reason.Errorf(reason.ConfigInvalid, "%s is not a directory", dir)
	}
	return private(dir, info, "700")
}

// Read returns the content of a file. It refuses a file that the group or others may read or
// write, and a file that is not regular.
func Read(path string) ([]byte, error) { return ReadUpTo(path, maxSize) }

// ReadUpTo is Read for a file of at most most bytes.
func ReadUpTo(path string, most int64) ([]byte, error) { return read(path, most, private) }

// ReadOwn is Read for a file that must belong to this user and must not be a link.
func ReadOwn(path string) ([]byte, error) {
	if info, err := os.Lstat(path); err == nil && !info.Mode().IsRegular() {
		return nil, reason.Errorf(reason.ConfigInvalid, "%s is not a regular file", path)
	}
	return read(path, maxSize, func(path string, info fs.FileInfo, want string) error {
		if err := private(path, info, want); err != nil {
			return err
		}
		return owned(path, info)
	})
}

// read reads a file of at most most bytes that check accepts.
func read(path string, most int64, check func(path string, info fs.FileInfo, want string) error) ([]byte, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return nil, err
	}
	if !info.Mode().IsRegular() {
		return nil, reason.Errorf(reason.ConfigInvalid, "%s is not a regular file", path)
	}
	if err := check(path, info, "600"); err != nil {
		return nil, err
	}
	if info.Size() > most {
		return nil, reason.Errorf(reason.ConfigInvalid, "%s has %d bytes, the limit is %d", path, info.Size(), most)
	}
	data := make([]byte, info.Size())
	n, err := f.ReadAt(data, 0)
	if n == len(data) {
		return data, nil
	}
	return nil, fmt.Errorf("reading %s: %w", path, err)
}

// Write replaces the file atomically: it writes and syncs a temporary file in the same directory,
// renames it over the file, and syncs the directory. After a crash either the old or the new file
// exists.
func Write(path string, data []byte) error {
	if err := write(path, data, func(string) {}); err != nil {
		return fmt.Errorf("writing %s: %w", path, err)
	}
	return nil
}

// Sweep removes the temporary files of a Write or Alias of the named files that was killed
// before its rename. Call it only while no process writes the files.
func Sweep(dir string, names ...string) error {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return err
	}
	for _, e := range entries {
		left := func(name string) bool {
			end, ok := strings.CutPrefix(e.Name(), "."+name+".")
			return ok && (end == aliasEnd || end != "" && strings.Trim(end, "0123456789") == "")
		}
		if !e.IsDir() && slices.ContainsFunc(names, left) {
			if err := os.Remove(filepath.Join(dir, e.Name())); err != nil && !errors.Is(err, fs.ErrNotExist) {
				return err
			}
		}
	}
	return nil
}

// write calls reached after each step.
func write(path string, data []byte, reached func(step string)) error {
	dir := filepath.Dir(path)
	f, err := os.CreateTemp(dir, "."+filepath.Base(path)+".*") // CreateTemp makes files of mode 0600
	if err != nil {
		return err
	}
	reached("made")
	_, err = f.Write(data)
	if err == nil {
		reached("written")
		err = f.Sync()
	}
	if err = errors.Join(err, f.Close()); err != nil {
		return errors.Join(err, os.Remove(f.Name()))
	}
	reached("synced")
	if err := os.Rename(f.Name(), path); err != nil {
		return errors.Join(err, os.Remove(f.Name()))
	}
	reached("renamed")
	return SyncDir(dir)
}

// aliasEnd is the suffix of an incomplete alias, in place of Write's digits.
const aliasEnd = "link"

// Alias makes path another name of the file target in the same directory, replacing an existing
// file. If the system does not permit links, it removes path.
func Alias(path, target string) error {
	if to, err := os.Readlink(path); err == nil && to == target {
		return nil
	}
	dir := filepath.Dir(path)
	made := filepath.Join(dir, "."+filepath.Base(path)+"."+aliasEnd)
	if err := os.Remove(made); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	if err := os.Symlink(target, made); err != nil {
		if err := os.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
		return SyncDir(dir)
	}
	if err := os.Rename(made, path); err != nil {
		return errors.Join(err, os.Remove(made))
	}
	return SyncDir(dir)
}
