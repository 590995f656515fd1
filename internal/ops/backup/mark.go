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

// ValidFile lists what is valid in a backup, in the directory that a restore leaves in
// a state directory.
const ValidFile = "valid.txt"

// Other names there, and its own.
const (
	restoredDir = "restored"
	markFile    = "not-started.json"
)

// Mark says that a state directory was restored and has not been started since. The
// next start ends what may have been ended since the backup, and removes it.
type Mark struct {
	// ID names this restore, in the journal's event.
	ID string `json:"restore_id"`
	journal.Restored
}

func markPath(stateDir string) string { return filepath.Join(statedir.Restored(stateDir), markFile) }

// ReadMark returns the mark of a state directory; found is false when it has none.
// One that cannot be read is an error: without it, what was ended since the backup
// would count again.
func ReadMark(stateDir string) (m Mark, found bool, err error) {
	text, err := keyfile.Read(markPath(stateDir))
	if errors.Is(err, fs.ErrNotExist) {
		return m, false, nil
	}
	if err == nil {
		err = json.Unmarshal(text, &m)
	}
	if err == nil && (m.ID == "" || m.Backup.Size < 1) {
		err = errors.New("it names no restore")
	}
	if err != nil {
		return m, false, reason.Errorf(reason.ConfigInvalid, "reading %s: %w", markPath(stateDir), err).
			WithRemedy("Restore the backup again, into another directory.")
	}
	return m, true, nil
}

// RemoveMark ends that a state directory is to be started as a restored one.
func RemoveMark(stateDir string) error {
	if err := removed(markPath(stateDir)); err != nil {
		return err
	}
	return keyfile.SyncDir(statedir.Restored(stateDir))
}

// Why is what a freeze says of its reason after a restore.
func Why(madeAt time.Time) string {
	return whyPrefix + madeAt.UTC().Format(time.RFC3339)
}

const whyPrefix = "restored from a backup of "
