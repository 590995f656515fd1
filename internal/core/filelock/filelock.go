// Package filelock locks an open file for one process at a time. The kernel releases the lock when
// the process ends for any reason.
package filelock

import "errors"

// ErrHeld means that another process holds the lock.
var ErrHeld = errors.New("the file is locked by another process")
