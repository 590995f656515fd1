package vaultmove

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"

	"palyra/internal/core/reason"
	"palyra/internal/core/statedir/keyfile"
)

// recordFormat is the version of record.
const recordFormat = 1

// record is the state of an import until it is finished or undone. It contains no values.
type record struct {
	Format int    `json:"format"`
	ID     string `json:"id"`
	// Was and Is are the digests of the configuration before and after.
	Was     string  `json:"was"`
	Is      string  `json:"is"`
	Secrets []Moved `json:"secrets"`
	// Finishing is true if files may already be deleted.
	Finishing bool `json:"finishing,omitempty"`
}

// note marks the secrets of this import.
func (r *record) note() string { return "from palyrad's configuration, import " + r.ID }

// swapped reports whether a text is the configuration after the import.
func (r *record) swapped(text []byte) bool { return digest(text) == r.Is }

func (m *Mover) recordPath() string { return m.Path + ".import.json" }
func (m *Mover) copyPath() string   { return m.Path + ".before-import" }
func (m *Mover) madePath() string   { return m.Path + ".new" }

// maxRecord bounds the size of a record.
const maxRecord = 8 << 20

// look reads the configuration and the record, which is nil if none exists. A configuration
// that matches neither the state before nor after the import is an error.
func (m *Mover) look() ([]byte, *record, error) {
	text, err := m.read()
	if err != nil {
		return nil, nil, err
	}
	rec, err := m.readRecord()
	switch {
	case err != nil || rec == nil:
		return text, nil, err
	case rec.Finishing:
		return nil, nil, reason.Errorf(reason.ConfigInvalid, "the import is being finished: files are already deleted").
			WithRemedy("Continue with `palyra vault import --finish`.")
	case digest(text) != rec.Was && digest(text) != rec.Is:
		return nil, nil, reason.Errorf(reason.FactsChanged, "%s was edited after the import, which left a copy of the original in %s", m.Path, m.copyPath()).
			WithRemedy("Merge both manually; when the configuration is correct, remove %s, the record of the import.", m.recordPath())
	}
	return text, rec, nil
}

func (m *Mover) read() ([]byte, error) {
	text, err := os.ReadFile(m.Path)
	if err != nil {
		return nil, reason.Errorf(reason.ConfigInvalid, "reading the configuration: %w", err).WithRemedy("Name a file that you may read, with --config.")
	}
	return text, nil
}

func (m *Mover) readRecord() (*record, error) {
	f, err := os.Open(m.recordPath())
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("reading the record of the import: %w", err)
	}
	defer f.Close()
	rec := &record{}
	d := json.NewDecoder(io.LimitReader(f, maxRecord))
	d.DisallowUnknownFields()
	if err := d.Decode(rec); err != nil || rec.Format != recordFormat {
		return nil, reason.Errorf(reason.ConfigInvalid, "the record of the import, %s, cannot be read", m.recordPath()).
			WithRemedy("The original configuration is in %s: restore it, or keep the current one, and remove the record.", m.copyPath())
	}
	return rec, nil
}

func (m *Mover) writeRecord(rec *record) error {
	text, err := json.MarshalIndent(rec, "", "  ")
	if err != nil {
		return err
	}
	return keyfile.Write(m.recordPath(), append(text, '\n'))
}

func (m *Mover) writeCopy(text []byte) error { return keyfile.Write(m.copyPath(), text) }

func (m *Mover) readCopy(rec *record) ([]byte, error) {
	text, err := os.ReadFile(m.copyPath())
	if err != nil || digest(text) != rec.Was {
		return nil, reason.Errorf(reason.ConfigInvalid, "the copy of the configuration, %s, is missing or was changed", m.copyPath()).
			WithRemedy("Restore it from a backup, or keep the current configuration and remove %s.", m.recordPath())
	}
	return text, nil
}

// make writes a configuration next to the one that it replaces, with its mode and owner.
func (m *Mover) make(text []byte) error {
	info, err := os.Stat(m.Path)
	if err != nil {
		return err
	}
	// A file that an interrupted run left is removed.
	made := m.madePath()
	if err := removeFile(made); err != nil {
		return err
	}
	f, err := os.OpenFile(made, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	_, err = f.Write(text)
	if err == nil {
		err = f.Chmod(info.Mode().Perm())
	}
	if err == nil {
		err = keyfile.KeepOwner(f, info)
	}
	if err == nil {
		err = f.Sync()
	}
	if err = errors.Join(err, f.Close()); err != nil {
		return errors.Join(err, os.Remove(made))
	}
	return nil
}

func (m *Mover) cannotWrite(err error) error {
	return reason.Errorf(reason.ConfigInvalid, "a configuration that replaces %s cannot be written: %w", m.Path, err).
		WithRemedy("Run the command as the owner of the configuration, with write permission in its directory.")
}

// replace renames the new configuration over the old one.
func (m *Mover) replace() error {
	if err := os.Rename(m.madePath(), m.Path); err != nil {
		return m.cannotWrite(err)
	}
	return keyfile.SyncDir(filepath.Dir(m.Path))
}

// forget removes the copy, temporary files, and last the record.
func (m *Mover) forget() error {
	left := errors.Join(removeFile(m.madePath()), removeFile(m.copyPath()))
	if err := m.reached("forgetting"); err != nil {
		return err
	}
	return errors.Join(left, removeFile(m.recordPath()))
}

// removeFile durably removes a file that may not exist.
func removeFile(path string) error {
	if err := os.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return keyfile.SyncDir(filepath.Dir(path))
}

func (m *Mover) noImport() error {
	return reason.Errorf(reason.NotFound, "no import of %s is in progress", m.Path).
		WithRemedy("Start one with `palyra vault import`.")
}
