package backup

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"palyra/internal/core/reason"
	"palyra/internal/core/statedir"
	"palyra/internal/core/statedir/keyfile"
)

// inSkills is the directory of skill packages in a backup. They are named by their digests and
// immutable, so that they need not be held in memory like other files.
var inSkills = inState + filepath.Base(statedir.Skills("")) + "/"

// packages returns the names of the existing packages.
func (s Source) packages() ([]string, error) {
	entries, err := os.ReadDir(statedir.Skills(s.StateDir))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("reading the packages of skills: %w", err)
	}
	var names []string
	for _, e := range entries {
		if e.Type().IsRegular() && !strings.HasPrefix(e.Name(), ".") {
			names = append(names, e.Name())
		}
	}
	return names, nil
}

// linkPackages creates hard links of the packages, so that a package that is removed meanwhile
// still exists. It returns the paths by their names in the backup.
func (s Source) linkPackages(names []string, into string) (map[string]string, error) {
	if err := errors.Join(os.RemoveAll(into), keyfile.MakeDir(into)); err != nil {
		return nil, err
	}
	paths := make(map[string]string, len(names))
	for _, name := range names {
		from, to := filepath.Join(statedir.Skills(s.StateDir), name), filepath.Join(into, name)
		err := os.Link(from, to)
		if errors.Is(err, fs.ErrNotExist) {
			continue // the package was removed, so all files are read again
		}
		if err != nil { // a file system without hard links
			err = copyFile(from, to)
		}
		if err != nil {
			return nil, fmt.Errorf("reading the package of a skill: %w", err)
		}
		paths[inSkills+name] = to
	}
	return paths, nil
}

func copyFile(from, to string) error {
	in, err := os.Open(from)
	if err != nil {
		return err
	}
	defer in.Close()
	out, err := os.OpenFile(to, os.O_WRONLY|os.O_CREATE|os.O_EXCL, keyfile.FileMode)
	if err != nil {
		return err
	}
	_, err = io.Copy(out, in)
	return errors.Join(err, out.Close())
}

// describe returns the entry of a file that stays on disk.
func describe(name, path string) (f File, err error) {
	file, err := os.Open(path)
	if err != nil {
		return f, err
	}
	defer file.Close()
	sum := sha256.New()
	size, err := io.Copy(sum, file)
	if err == nil && size > maxFile && name != storeName {
		err = reason.Errorf(reason.InputTooLarge, "%s has %d bytes, the limit of a file in a backup is %d", path, size, maxFile)
	}
	return File{name, size, hex.EncodeToString(sum.Sum(nil))}, err
}
