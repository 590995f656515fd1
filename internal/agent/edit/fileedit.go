// Package edit replaces files of other programs and users: the settings of agents and the gateway's
// own configuration. A file is written to a temporary file in the same directory and renamed, with
// its mode and owner. It refuses a link that leads out of the allowed root, and a file that changed
// since it was read. Records of the original files let their changes be undone.
package edit

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"palyra/internal/core/reason"
	"palyra/internal/core/statedir/keyfile"
)

// maxSize bounds an edited file: 8 MiB.
const maxSize = 8 << 20

// File is a file as read.
type File struct {
	// Path is the resolved path, without links.
	Path string
	// Text is the content; nil if the file does not exist.
	Text []byte
	// Linked is true if the path contained a link.
	Linked bool

	info fs.FileInfo
	root string
}

// Exists reports whether the file existed.
func (f *File) Exists() bool { return f.info != nil }

// Mode returns the permissions; 0 if the file did not exist.
func (f *File) Mode() fs.FileMode {
	if f.info == nil {
		return 0
	}
	return f.info.Mode().Perm()
}

// Read reads a file that belongs below root, both absolute. Links are followed as long as they stay
// below root. A missing file is not an error.
func Read(path, root string) (*File, error) {
	path = filepath.Clean(path)
	place, err := resolve(path, 0)
	if err != nil {
		return nil, err
	}
	within, err := resolve(filepath.Clean(root), 0)
	if err != nil {
		return nil, err
	}
	if !Within(place, within) {
		return nil, reason.Errorf(reason.ConfigInvalid, "%s is a link to %s, outside of %s", path, place, root).
			WithRemedy("Replace the link with the file itself, or make the change by hand.")
	}
	// The parents may be links as well, such as a home directory; only links below the root count.
	f := &File{Path: place, root: within}
	if rest, err := filepath.Rel(filepath.Clean(root), path); err == nil {
		f.Linked = filepath.Join(within, rest) != place
	}
	return f, f.load()
}

// Within reports whether a clean path is a directory or below it.
func Within(path, dir string) bool {
	rest, err := filepath.Rel(dir, path)
	return err == nil && rest != ".." && !strings.HasPrefix(rest, ".."+string(filepath.Separator))
}

// maxLinks bounds the links on the path of a file.
const maxLinks = 40

// resolve follows all links of a path whose last elements need not exist.
func resolve(path string, links int) (string, error) {
	if links > maxLinks {
		return "", reason.Errorf(reason.ConfigInvalid, "%s is a loop of links", path)
	}
	parent := filepath.Dir(path)
	if parent == path {
		return path, nil
	}
	dir, err := resolve(parent, links)
	if err != nil {
		return "", err
	}
	path = filepath.Join(dir, filepath.Base(path))
	to, err := os.Readlink(path)
	if err != nil {
		return path, nil //nolint:nilerr // not a link, or does not exist
	}
	if !filepath.IsAbs(to) {
		to = filepath.Join(dir, to)
	}
	return resolve(filepath.Clean(to), links+1)
}

// load reads the file at its resolved path.
func (f *File) load() error {
	file, err := os.OpenFile(f.Path, os.O_RDONLY|noFollow, 0)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("reading %s: %w", f.Path, err)
	}
	defer file.Close()
	info, err := file.Stat()
	if err != nil {
		return fmt.Errorf("reading %s: %w", f.Path, err)
	}
	if !info.Mode().IsRegular() {
		return reason.Errorf(reason.ConfigInvalid, "%s is not a regular file", f.Path)
	}
	text, err := io.ReadAll(io.LimitReader(file, maxSize+1))
	if err != nil {
		return fmt.Errorf("reading %s: %w", f.Path, err)
	}
	if len(text) > maxSize {
		return reason.Errorf(reason.ConfigInvalid, "%s is larger than %d bytes", f.Path, maxSize)
	}
	f.Text, f.info = text, info
	return nil
}

// Write replaces the file with a text and the given mode. Mode 0 keeps the existing mode, or
// gives a new file the default mode for private files. The directory must exist.
func (f *File) Write(text []byte, mode fs.FileMode) error {
	if err := f.unchanged(); err != nil {
		return err
	}
	if mode == 0 {
		mode = 0o600
		if f.info != nil {
			mode = f.Mode()
		}
	}
	dir := filepath.Dir(f.Path)
	temporary, err := os.CreateTemp(dir, "."+filepath.Base(f.Path)+tempMark+"*")
	if err != nil {
		return cannotWrite(f.Path, err)
	}
	if err = Fill(temporary, text, f.info, mode); err == nil {
		// The file is checked again at the end, so that only the rename itself can race.
		if err = f.unchanged(); err == nil {
			err = os.Rename(temporary.Name(), f.Path)
		}
	}
	if err != nil {
		return errors.Join(cannotWrite(f.Path, err), os.Remove(temporary.Name()))
	}
	if err := keyfile.SyncDir(dir); err != nil {
		return err
	}
	return f.load()
}

// Fill durably writes a new file with the given mode and closes it. The file gets the owner of
// the file that it is to replace, nil for none.
func Fill(file *os.File, text []byte, replaced fs.FileInfo, mode fs.FileMode) error {
	_, err := file.Write(text)
	if err == nil && replaced != nil {
		err = keyfile.KeepOwner(file, replaced)
	}
	if err == nil {
		err = file.Chmod(mode) // after the owner, because changing it clears bits
	}
	if err == nil {
		err = file.Sync()
	}
	return errors.Join(err, file.Close())
}

// tempMark occurs in the names of temporary files.
const tempMark = ".palyra-"

// Sweep removes temporary files that interrupted writes of a file left behind.
func Sweep(path string) error {
	left, err := filepath.Glob(filepath.Join(escaped(filepath.Dir(path)), "."+escaped(filepath.Base(path))+tempMark+"*"))
	for _, name := range left {
		err = errors.Join(err, os.Remove(name))
	}
	return err
}

// escaped returns a name as a pattern that matches only it.
func escaped(name string) string {
	return strings.NewReplacer(`*`, `\*`, `?`, `\?`, `[`, `\[`, `\`, `\\`).Replace(name)
}

// Remove removes the file.
func (f *File) Remove() error {
	if f.info == nil {
		return nil
	}
	if err := f.unchanged(); err != nil {
		return err
	}
	if err := os.Remove(f.Path); err != nil {
		return cannotWrite(f.Path, err)
	}
	f.Text, f.info = nil, nil
	return keyfile.SyncDir(filepath.Dir(f.Path))
}

// unchanged returns an error if the file changed since it was read.
func (f *File) unchanged() error {
	now := &File{Path: f.Path, root: f.root}
	if place, err := resolve(f.Path, 0); err != nil || place != f.Path {
		return changed(f.Path)
	}
	if err := now.load(); err != nil {
		return err
	}
	if now.Exists() != f.Exists() || !bytes.Equal(now.Text, f.Text) || f.Exists() && !os.SameFile(now.info, f.info) {
		return changed(f.Path)
	}
	return nil
}

func changed(path string) error {
	return reason.Errorf(reason.FactsChanged, "%s changed since it was read", path).
		WithRemedy("Run the command again when nothing else edits the file.")
}

func cannotWrite(path string, err error) error {
	if e := (*reason.Error)(nil); errors.As(err, &e) {
		return err
	}
	return reason.Errorf(reason.ConfigInvalid, "writing %s: %w", path, err).
		WithRemedy("Run the command as the owner of the file, with write permission in its directory.")
}

// MakeDirs creates a directory with its parents. It calls before for each missing one,
// the outermost first, and creates it if before returns nil.
func MakeDirs(dir string, mode fs.FileMode, before func(dir string) error) error {
	if info, err := os.Stat(dir); err == nil {
		if !info.IsDir() {
			return reason.Errorf(reason.ConfigInvalid, "%s is not a directory", dir)
		}
		return nil
	}
	if parent := filepath.Dir(dir); parent != dir {
		if err := MakeDirs(parent, mode, before); err != nil {
			return err
		}
	}
	if err := before(dir); err != nil {
		return err
	}
	if err := os.Mkdir(dir, mode); err != nil && !errors.Is(err, fs.ErrExist) {
		return cannotWrite(dir, err)
	}
	return nil
}
