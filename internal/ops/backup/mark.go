package backup

import (
	"encoding/json"
	"errors"
	"io/fs"
	"path/filepath"
	"time"

	"palyra/internal/core/reason"
	"palyra/internal/core/statedir"
	"palyra/internal/core/statedir/keyfile"
	"palyra/internal/evidence/journal"
)

// ValidFile lists the valid credentials of a backup, in the directory that a restore creates in a
// state directory.
const ValidFile = "valid.txt"

// The name of that directory, and the file with the mark.
const (
	restoredDir = "restored"
	markFile    = "not-started.json"
)

// Mark records that a state directory was restored and has not been started since. The next start
// ends everything that may have ended since the backup, and removes the mark.
type Mark struct {
	// ID identifies this restore in the journal's event.
	ID string `json:"restore_id"`
	journal.Restored
}

func markPath(stateDir string) string { return filepath.Join(statedir.Restored(stateDir), markFile) }

// ReadMark returns the mark of a state directory; found is false if it has none. An unreadable mark
// is an error: without it, ended credentials and approvals would be valid again.
func ReadMark(stateDir string) (m Mark, found bool, err error) {
	text, err := keyfile.Read(markPath(stateDir))
	if errors.Is(err, fs.ErrNotExist) {
		return m, false, nil
	}
	if err == nil {
		err = json.Unmarshal(text, &m)
	}
	if err == nil && (m.ID == "" || m.Backup.Size < 1) {
		err = errors.New("it has no restore_id")
	}
	if err != nil {
		return m, false, reason.Errorf(reason.ConfigInvalid, "reading %s: %w", markPath(stateDir), err).
			WithRemedy("Restore the backup again, into another directory.")
	}
	return m, true, nil
}

// RemoveMark removes the mark of a state directory.
func RemoveMark(stateDir string) error {
	if err := removed(markPath(stateDir)); err != nil {
		return err
	}
	return keyfile.SyncDir(statedir.Restored(stateDir))
}

// Why returns the reason of the freeze after a restore.
func Why(madeAt time.Time) string {
	return whyPrefix + madeAt.UTC().Format(time.RFC3339)
}

const whyPrefix = "restored from a backup of "
