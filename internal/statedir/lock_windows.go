package statedir

import (
	"errors"
	"os"

	"golang.org/x/sys/windows"
)

// checksModes is false: Windows has access lists, not permission bits.
const checksModes = false

// errLocked means that another process holds the lock.
var errLocked = errors.New("locked")

func lockFile(f *os.File) error {
	// One byte far behind the process id, which stays readable to others.
	at := &windows.Overlapped{Offset: 1 << 20}
	err := windows.LockFileEx(windows.Handle(f.Fd()), windows.LOCKFILE_EXCLUSIVE_LOCK|windows.LOCKFILE_FAIL_IMMEDIATELY, 0, 1, 0, at)
	if errors.Is(err, windows.ERROR_LOCK_VIOLATION) || errors.Is(err, windows.ERROR_IO_PENDING) {
		return errLocked
	}
	return err
}

// unlockFile has nothing to do: closing the file unlocks it.
func unlockFile(*os.File) error { return nil }
