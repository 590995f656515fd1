//go:build unix

package attempt

import (
	"fmt"
	"syscall"
)

// Reached reports whether the kernel itself looked at a call: it answered what
// a filter never answers.
func Reached(errno syscall.Errno, kernel ...syscall.Errno) (string, error) {
	for _, e := range append(kernel, 0) {
		if errno == e {
			return fmt.Sprintf("the kernel answered %q", errno.Error()), nil
		}
	}
	return "", errno
}
