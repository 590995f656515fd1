//go:build unix

package statedir

import (
	"errors"
	"os"
	"syscall"
)

// checksModes is true where permission bits mean something.
const checksModes = true

// errLocked means that another process holds the lock.
var errLocked = errors.New("locked")

func lockFile(f *os.File) error {
	err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
	if errors.Is(err, syscall.EWOULDBLOCK) {
		return errLocked
	}
	return err
}

func unlockFile(f *os.File) error { return syscall.Flock(int(f.Fd()), syscall.LOCK_UN) }
