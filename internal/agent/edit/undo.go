package edit

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"palyra/internal/core/canonical"
	"palyra/internal/core/statedir/keyfile"
)

// Original is the state of a file before a change. Its record MUST be durable before the file is
// written, so that an interrupted change can be undone.
type Original struct {
	// Path is the resolved path of the file, which must be below Root.
	Path string `json:"path"`
	Root string `json:"root"`
	// Existed is true if the file existed, with the content Before and the mode Mode.
	Existed bool        `json:"existed"`
	Before  []byte      `json:"before,omitempty"`
	Mode    fs.FileMode `json:"mode,omitempty"`
	// Was and Is are the digests of the file before and after the change; Was is "" if it did not
	// exist.
	Was string `json:"was,omitempty"`
	Is  string `json:"is"`
}

// Original returns the state of a file that is about to be replaced by a text.
func (f *File) Original(after []byte) Original {
	return Original{Path: f.Path, Root: f.root, Existed: f.Exists(), Before: f.Text, Mode: f.Mode(), Was: f.digest(), Is: canonical.Digest(after)}
}

// digest returns the digest of the file, "" if it does not exist.
func (f *File) digest() string {
	if !f.Exists() {
		return ""
	}
	return canonical.Digest(f.Text)
}

// Read reads the file again, without the temporary files of an interrupted write.
func (o Original) Read() (*File, error) {
	f, err := Read(o.Path, o.Root) // refuses links, before anything is removed
	if err != nil {
		return nil, err
	}
	return f, Sweep(o.Path)
}

// Edited reports whether a file is neither in the state before nor in the state after the change:
// another program edited it since.
func (o Original) Edited(f *File) bool {
	now := f.digest()
	return now != o.Was && now != o.Is
}

// Restore puts back a file that existed, byte for byte and with its mode.
func (o Original) Restore(f *File) error {
	if f.digest() == o.Was && f.Mode() == o.Mode {
		return nil
	}
	return f.Write(o.Before, o.Mode)
}

// maxRecord bounds a record, which contains whole files: 64 MiB.
const maxRecord = 64 << 20

// ReadRecord decodes a private record of changes, whose member "format" must be the given one. The
// bool is false if the file does not exist.
func ReadRecord(path string, format int, into any) (bool, error) {
	text, err := keyfile.ReadUpTo(path, maxRecord)
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	var head struct {
		Format int `json:"format"`
	}
	if err == nil {
		err = json.Unmarshal(text, &head)
	}
	if err == nil && head.Format != format {
		err = fmt.Errorf("its format is %d", head.Format)
	}
	if err == nil {
		d := json.NewDecoder(bytes.NewReader(text))
		d.DisallowUnknownFields() // a file could not be restored without what this version ignores
		err = d.Decode(into)
	}
	return err == nil, err
}

// WriteRecord durably replaces a private record of changes.
func WriteRecord(path string, record any) error {
	text, err := json.MarshalIndent(record, "", "  ")
	if err != nil {
		return err
	}
	if err := os.MkdirAll(filepath.Dir(path), keyfile.DirMode); err != nil {
		return fmt.Errorf("making a directory for the record of changes: %w", err)
	}
	return keyfile.Write(path, append(text, '\n'))
}

// RemoveFile durably removes a file. The file and its directory may not exist.
func RemoveFile(path string) error {
	err := os.Remove(path)
	if err == nil || errors.Is(err, fs.ErrNotExist) {
		err = keyfile.SyncDir(filepath.Dir(path))
	}
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}

// Steps is called after each step of an operation. If it returns an error, the operation ends
// there, as if the process was killed. A nil value does nothing.
type Steps func(step string) error

// At reports a step.
func (s Steps) At(step string) error {
	if s == nil {
		return nil
	}
	if err := s(step); err != nil {
		return fmt.Errorf("at the step %q: %w", step, err)
	}
	return nil
}
