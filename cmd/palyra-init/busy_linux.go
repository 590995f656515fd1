package main

import (
	"errors"
	"time"

	"golang.org/x/sys/unix"
)

// longestWait is the last pause before a program that is written to is given
// up; with the pauses before it, two seconds in all.
const longestWait = 1024 * time.Millisecond

// unlessBusy starts a program, and tries again for a while when its file is open
// for writing (ETXTBSY, execve(2)). So it is for a moment after palyrad has
// written it, too: a process that forks at that time for another call holds a
// copy of the descriptor until its own execve.
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
