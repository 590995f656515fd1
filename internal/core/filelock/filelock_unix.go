//go:build unix

package filelock

import (
	"errors"
	"os"
	"syscall"
)

// Try takes the lock of f, or returns ErrHeld at once.
func Try(f *os.File) error {
	err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
	if errors.Is(err, syscall.EWOULDBLOCK) {
		return ErrHeld
	}
	return err
}

// Release releases the lock, even if a child still has a copy of the descriptor.
func Release(f *os.File) error { return syscall.Flock(int(f.Fd()), syscall.LOCK_UN) }
