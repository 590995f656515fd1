// Package filelock locks an open file for one process at a time. The kernel lets go
// of the lock when the process ends, however it ends.
package filelock

import "errors"

// ErrHeld means that another process holds the lock.
var ErrHeld = errors.New("the file is locked by another process")
