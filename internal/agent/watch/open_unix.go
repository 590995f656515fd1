//go:build unix

package watch

import "syscall"

// nonBlocking keeps a pipe in the place of a file from holding the watch up.
const nonBlocking = syscall.O_NONBLOCK
