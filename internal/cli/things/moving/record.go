package moving

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

// record is what is remembered of an import until it is finished or undone. It has no
// value.
type record struct {
	Format int    `json:"format"`
	ID     string `json:"id"`
	// Was and Is are the digests of the configuration before and after.
	Was     string  `json:"was"`
	Is      string  `json:"is"`
	Secrets []Moved `json:"secrets"`
	// Finishing is that files may be gone already.
	Finishing bool `json:"finishing,omitempty"`
}

// note marks the secrets of this import.
func (r *record) note() string { return "from palyrad's configuration, import " + r.ID }

// swapped reports whether a text is the configuration after the import.
func (r *record) swapped(text []byte) bool { return digest(text) == r.Is }

func (m *Mover) recordPath() string { return m.Path + ".import.json" }
func (m *Mover) copyPath() string   { return m.Path + ".before-import" }
func (m *Mover) madePath() string   { return m.Path + ".new" }

// maxRecord bounds what is read of a record.
const maxRecord = 8 << 20

// look reads the configuration and the record; nil where there is none. A configuration
// that is neither the one before nor the one after is nobody's to judge here.
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
		return nil, nil, reason.Errorf(reason.ConfigInvalid, "the import is being finished: files are gone already").
			WithRemedy("Go on with `palyra vault import --finish`.")
	case digest(text) != rec.Was && digest(text) != rec.Is:
		return nil, nil, reason.Errorf(reason.FactsChanged, "%s was edited since the import, which left a copy of what it was in %s", m.Path, m.copyPath()).
			WithRemedy("Bring both together by hand; when the configuration is as it should be, remove %s, which stands for the import.", m.recordPath())
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
			WithRemedy("The configuration of before is in %s: put it back, or keep what there is, and remove the record.", m.copyPath())
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
		return nil, reason.Errorf(reason.ConfigInvalid, "the copy of the configuration, %s, is gone or was changed", m.copyPath()).
			WithRemedy("Restore it from a backup, or keep the configuration as it is and remove %s.", m.recordPath())
	}
	return text, nil
}

// make writes a configuration beside the one that it is to replace, with its mode and
// owner.
func (m *Mover) make(text []byte) error {
	info, err := os.Stat(m.Path)
	if err != nil {
		return err
	}
	// One that a stop left is of no use.
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
		err = own(f, info)
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
	return reason.Errorf(reason.ConfigInvalid, "a configuration in the place of %s cannot be written: %w", m.Path, err).
		WithRemedy("Run it as the owner of the configuration, who may write into its directory.")
}

// replace puts what was made in the place of the configuration.
func (m *Mover) replace() error {
	if err := os.Rename(m.madePath(), m.Path); err != nil {
		return m.cannotWrite(err)
	}
	return keyfile.SyncDir(filepath.Dir(m.Path))
}

// forget removes the copy, what a stop left, and last the record.
func (m *Mover) forget() error {
	left := errors.Join(removeFile(m.madePath()), removeFile(m.copyPath()))
	if err := m.reached("forgetting"); err != nil {
		return err
	}
	return errors.Join(left, removeFile(m.recordPath()))
}

// removeFile removes a file that may be gone already, for good.
func removeFile(path string) error {
	if err := os.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return keyfile.SyncDir(filepath.Dir(path))
}

func (m *Mover) noImport() error {
	return reason.Errorf(reason.NotFound, "there is no import of %s to undo or to finish", m.Path).
		WithRemedy("`palyra vault import` makes one.")
}
