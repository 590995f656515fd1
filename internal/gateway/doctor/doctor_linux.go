package doctor

import (
	"fmt"

	"golang.org/x/sys/unix"
)

// freeSpace returns the bytes that an ordinary user may still write below dir.
func freeSpace(dir string) (uint64, error) {
	var s unix.Statfs_t
	if err := unix.Statfs(dir, &s); err != nil {
		return 0, fmt.Errorf("statfs: %w", err)
	}
	return s.Bavail * uint64(s.Bsize), nil
}

// clockSynchronised queries the kernel (adjtimex) for whether a time service disciplines the clock.
func clockSynchronised() (bool, error) {
	var state unix.Timex
	if _, err := unix.Adjtimex(&state); err != nil {
		return false, fmt.Errorf("adjtimex: %w", err)
	}
	return state.Status&unix.STA_UNSYNC == 0, nil
}
