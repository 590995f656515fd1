package vaultmove

import (
	"errors"
	"os"
	"path/filepath"

	"palyra/internal/agent/edit"
	"palyra/internal/core/canonical"
	"palyra/internal/core/reason"
	"palyra/internal/core/statedir/keyfile"
)

// recordFormat is the version of record.
const recordFormat = 2

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
func (r *record) swapped(text []byte) bool { return canonical.Digest(text) == r.Is }

// configFile is the configuration with the files next to it: the record of its import, a copy
// of the original, and the configuration that replaces it.
type configFile struct{ path string }

func (c configFile) recordPath() string { return c.path + ".import.json" }
func (c configFile) copyPath() string   { return c.path + ".before-import" }
func (c configFile) madePath() string   { return c.path + ".new" }

// look reads the configuration and the record, which is nil if none exists. A configuration
// that matches neither the state before nor after the import is an error.
func (c configFile) look() ([]byte, *record, error) {
	text, err := c.read()
	if err != nil {
		return nil, nil, err
	}
	rec, err := c.readRecord()
	switch {
	case err != nil || rec == nil:
		return text, nil, err
	case rec.Finishing:
		return nil, nil, reason.Errorf(reason.ConfigInvalid, "the import is being finished: files are already deleted").
			WithRemedy("Continue with `palyra vault import --finish`.")
	case canonical.Digest(text) != rec.Was && canonical.Digest(text) != rec.Is:
		return nil, nil, reason.Errorf(reason.FactsChanged, "%s was edited after the import, which left a copy of the original in %s", c.path, c.copyPath()).
			WithRemedy("Merge both manually; when the configuration is correct, remove %s, the record of the import.", c.recordPath())
	}
	return text, rec, nil
}

func (c configFile) read() ([]byte, error) {
	text, err := os.ReadFile(c.path)
	if err != nil {
		return nil, reason.Errorf(reason.ConfigInvalid, "reading the configuration: %w", err).WithRemedy("Name a file that you may read, with --config.")
	}
	return text, nil
}

func (c configFile) readRecord() (*record, error) {
	rec := &record{}
	exists, err := edit.ReadRecord(c.recordPath(), recordFormat, rec)
	if err != nil {
		return nil, reason.Errorf(reason.ConfigInvalid, "the record of the import, %s, cannot be read", c.recordPath()).
			WithRemedy("The original configuration is in %s: restore it, or keep the current one, and remove the record.", c.copyPath())
	}
	if !exists {
		return nil, nil
	}
	return rec, nil
}

func (c configFile) writeRecord(rec *record) error { return edit.WriteRecord(c.recordPath(), rec) }

func (c configFile) writeCopy(text []byte) error { return keyfile.Write(c.copyPath(), text) }

func (c configFile) readCopy(rec *record) ([]byte, error) {
	text, err := os.ReadFile(c.copyPath())
	if err != nil || canonical.Digest(text) != rec.Was {
		return nil, reason.Errorf(reason.ConfigInvalid, "the copy of the configuration, %s, is missing or was changed", c.copyPath()).
			WithRemedy("Restore it from a backup, or keep the current configuration and remove %s.", c.recordPath())
	}
	return text, nil
}

// make writes a configuration next to the one that it replaces, with its mode and owner.
func (c configFile) make(text []byte) error {
	info, err := os.Stat(c.path)
	if err != nil {
		return err
	}
	// A file that an interrupted run left is removed.
	made := c.madePath()
	if err := edit.RemoveFile(made); err != nil {
		return err
	}
	f, err := os.OpenFile(made, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	if err := edit.Fill(f, text, info, info.Mode().Perm()); err != nil {
		return errors.Join(err, os.Remove(made))
	}
	return nil
}

func (c configFile) cannotWrite(err error) error {
	return reason.Errorf(reason.ConfigInvalid, "a configuration that replaces %s cannot be written: %w", c.path, err).
		WithRemedy("Run the command as the owner of the configuration, with write permission in its directory.")
}

// replace renames the new configuration over the old one.
func (c configFile) replace() error {
	if err := os.Rename(c.madePath(), c.path); err != nil {
		return c.cannotWrite(err)
	}
	return keyfile.SyncDir(filepath.Dir(c.path))
}

// forget removes the copy, temporary files, and last the record.
func (c configFile) forget(reached edit.Steps) error {
	left := errors.Join(edit.RemoveFile(c.madePath()), edit.RemoveFile(c.copyPath()))
	if err := reached.At("forgetting"); err != nil {
		return err
	}
	return errors.Join(left, edit.RemoveFile(c.recordPath()))
}

func (c configFile) noImport() error {
	return reason.Errorf(reason.NotFound, "no import of %s is in progress", c.path).
		WithRemedy("Start one with `palyra vault import`.")
}
