package main

import (
	"fmt"

	"golang.org/x/sys/unix"
)

// forbidDumps keeps the memory of palyrad, which holds keys and values of secrets, to
// palyrad. A crash writes no core file (RLIMIT_CORE, getrlimit(2)) and is handed to no crash
// handler, and no other process of the same user may read or trace palyrad (PR_SET_DUMPABLE(2const)).
// Programs that palyrad starts inherit the limit alone.
func forbidDumps() error {
	if err := forbidCoreFiles(); err != nil {
		return err
	}
	if err := unix.Prctl(unix.PR_SET_DUMPABLE, 0, 0, 0, 0); err != nil {
		return fmt.Errorf("keeping other processes from the memory of palyrad: %w", err)
	}
	return nil
}
