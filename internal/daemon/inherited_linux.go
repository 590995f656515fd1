package daemon

import (
	"fmt"

	"golang.org/x/sys/unix"
)

// KeepInherited keeps what whoever started palyrad left open from the programs
// that palyrad starts: bubblewrap would hold it until its sandbox is built.
func KeepInherited() error {
	const first = 3
	if err := unix.CloseRange(first, ^uint(0)>>1, unix.CLOSE_RANGE_CLOEXEC); err != nil {
		return fmt.Errorf("keeping inherited descriptors to palyrad: %w", err)
	}
	return nil
}
