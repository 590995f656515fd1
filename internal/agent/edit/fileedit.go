// Package edit replaces files that belong to somebody else: the settings of agents and
// the gateway's own configuration. A file is written whole beside the old one and renamed
// over it, with its mode and owner; a link that leads out of where it belongs is refused,
// and so is a file that changed since it was read.
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

// maxSize bounds a file that is edited: 8 MiB.
const maxSize = 8 << 20

// File is a file as it was read.
type File struct {
	// Path is where it really is, behind all links.
	Path string
	// Text is what it holds; nil where there is no file.
	Text []byte
	// Linked is that it was named by a link.
	Linked bool

	info fs.FileInfo
	root string
}

// Exists reports whether there was a file.
func (f *File) Exists() bool { return f.info != nil }

// Mode is its permissions; 0 where there was none.
func (f *File) Mode() fs.FileMode {
	if f.info == nil {
		return 0
	}
	return f.info.Mode().Perm()
}

// Read reads a file that belongs below root, both absolute. Links may be followed as
// long as they stay there. That there is no file is no error.
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
		return nil, reason.Errorf(reason.ConfigInvalid, "%s leads to %s, out of %s", path, place, root).
			WithRemedy("Put the file itself there in place of the link, or make the change by hand.")
	}
	// The parents may be links as well, such as that of a home directory; what counts as
	// one is the path below the root.
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

// maxLinks bounds how many links lead to a file.
const maxLinks = 40

// resolve follows all links of a path whose last parts need not exist.
func resolve(path string, links int) (string, error) {
	if links > maxLinks {
		return "", reason.Errorf(reason.ConfigInvalid, "%s is a circle of links", path)
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
		return path, nil //nolint:nilerr // no link, or nothing at all
	}
	if !filepath.IsAbs(to) {
		to = filepath.Join(dir, to)
	}
	return resolve(filepath.Clean(to), links+1)
}

// load reads the file where it really is.
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
		return reason.Errorf(reason.ConfigInvalid, "%s is no regular file", f.Path)
	}
	text, err := io.ReadAll(io.LimitReader(file, maxSize+1))
	if err != nil {
		return fmt.Errorf("reading %s: %w", f.Path, err)
	}
	if len(text) > maxSize {
		return reason.Errorf(reason.ConfigInvalid, "%s has more than %d bytes", f.Path, maxSize)
	}
	f.Text, f.info = text, info
	return nil
}

// Write puts a text in the place of the file, with the mode that is given; 0 is the mode
// that it had, or for a new file that of one's own. The directory has to be there.
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
	made, err := os.CreateTemp(dir, "."+filepath.Base(f.Path)+tempMark+"*")
	if err != nil {
		return cannotWrite(f.Path, err)
	}
	_, err = made.Write(text)
	if err == nil && f.info != nil {
		err = own(made, f.info)
	}
	if err == nil {
		err = made.Chmod(mode) // after the owner, whose change takes bits away
	}
	if err == nil {
		err = made.Sync()
	}
	if err = errors.Join(err, made.Close()); err == nil {
		// Once more, now that all is ready: what is left is the moment of the rename.
		if err = f.unchanged(); err == nil {
			err = os.Rename(made.Name(), f.Path)
		}
	}
	if err != nil {
		return errors.Join(cannotWrite(f.Path, err), os.Remove(made.Name()))
	}
	if err := keyfile.SyncDir(dir); err != nil {
		return err
	}
	return f.load()
}

// tempMark is in the names of files that are being written.
const tempMark = ".palyra-"

// Sweep removes what writes of a file left that were cut off.
func Sweep(path string) error {
	left, err := filepath.Glob(filepath.Join(escaped(filepath.Dir(path)), "."+escaped(filepath.Base(path))+tempMark+"*"))
	for _, name := range left {
		err = errors.Join(err, os.Remove(name))
	}
	return err
}

// escaped is a name as a pattern that means it alone.
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

// unchanged refuses when the file is not what was read.
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
	return reason.Errorf(reason.FactsChanged, "%s was changed meanwhile", path).
		WithRemedy("Run the command again when nothing else edits the file.")
}

func cannotWrite(path string, err error) error {
	if e := (*reason.Error)(nil); errors.As(err, &e) {
		return err
	}
	return reason.Errorf(reason.ConfigInvalid, "%s cannot be written: %w", path, err).
		WithRemedy("Run it as the owner of the file, who may write into its directory.")
}

// MakeDirs makes a directory with its parents. told hears of each that is not there before
// it is made, the outermost first.
func MakeDirs(dir string, mode fs.FileMode, told func(dir string) error) error {
	if info, err := os.Stat(dir); err == nil {
		if !info.IsDir() {
			return reason.Errorf(reason.ConfigInvalid, "%s is no directory", dir)
		}
		return nil
	}
	if parent := filepath.Dir(dir); parent != dir {
		if err := MakeDirs(parent, mode, told); err != nil {
			return err
		}
	}
	if err := told(dir); err != nil {
		return err
	}
	if err := os.Mkdir(dir, mode); err != nil && !errors.Is(err, fs.ErrExist) {
		return cannotWrite(dir, err)
	}
	return nil
}
