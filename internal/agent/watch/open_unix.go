//go:build unix

package watch

import "syscall"

// nonBlocking prevents a pipe at the path from blocking the watch.
const nonBlocking = syscall.O_NONBLOCK
