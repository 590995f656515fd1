package main

import (
	"fmt"

	"golang.org/x/sys/unix"
)

// forbidDumps keeps the memory of palyrad, which holds keys and values of secrets, to
// palyrad. A crash writes no core file (RLIMIT_CORE, getrlimit(2)), and no other process of the
// same user may read or trace palyrad (PR_SET_DUMPABLE(2const)). Programs that palyrad starts
// inherit the limit alone. A start as another user sets the attribute of a root palyrad to
// fs.suid_dumpable, which is 0 unless a crash handler has set it.
func forbidDumps() error {
	if err := forbidCoreFiles(); err != nil {
		return err
	}
	if err := unix.Prctl(unix.PR_SET_DUMPABLE, 0, 0, 0, 0); err != nil {
		return fmt.Errorf("keeping other processes from the memory of palyrad: %w", err)
	}
	return nil
}
