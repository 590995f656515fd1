package main

import (
	"errors"
	"time"

	"golang.org/x/sys/unix"
)

// longestWait is the last pause before giving up on a busy program; all pauses together are two
// seconds.
const longestWait = 1024 * time.Millisecond

// unlessBusy starts a program, and retries for a while if its file is open for writing
// (ETXTBSY, execve(2)). This also happens for a moment after palyrad has written the file. A
// process forked at that time for another call holds a copy of the descriptor until its own
// execve.
func unlessBusy(start func() error) error {
	for wait := time.Millisecond; ; wait *= 2 {
		err := start()
		if !errors.Is(err, unix.ETXTBSY) || wait > longestWait {
			return err
		}
		pause := unix.NsecToTimespec(int64(wait))
		_ = unix.Nanosleep(&pause, nil)
	}
}
