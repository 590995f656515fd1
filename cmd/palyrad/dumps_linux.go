package main

import (
	"fmt"

	"golang.org/x/sys/unix"
)

// forbidDumps protects the memory of palyrad, which holds keys and values of secrets, from other
// processes. A crash writes no core file (RLIMIT_CORE, getrlimit(2)), and no other process of the
// same user may read or trace palyrad (PR_SET_DUMPABLE(2const)). Programs that palyrad starts
// inherit only the limit. When a palyrad that is root starts a program as another user, the
// kernel sets the attribute to fs.suid_dumpable, which is 0 unless a crash handler has changed
// it.
func forbidDumps() error {
	if err := forbidCoreFiles(); err != nil {
		return err
	}
	if err := unix.Prctl(unix.PR_SET_DUMPABLE, 0, 0, 0, 0); err != nil {
		return fmt.Errorf("protecting the memory of palyrad from other processes: %w", err)
	}
	return nil
}
