//go:build unix

package attempt

import (
	"fmt"
	"syscall"
)

// Reached reports whether the kernel itself handled a call. The error is then 0 or one of the
// given errors, which a filter never returns.
func Reached(errno syscall.Errno, kernel ...syscall.Errno) (string, error) {
	for _, e := range append(kernel, 0) {
		if errno == e {
			return fmt.Sprintf("the kernel answered %q", errno.Error()), nil
		}
	}
	return "", errno
}
