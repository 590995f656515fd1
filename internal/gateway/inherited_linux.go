package gateway

import (
	"fmt"

	"golang.org/x/sys/unix"
)

// KeepInherited marks the descriptors that palyrad inherited as close-on-exec, so that programs
// started by palyrad do not inherit them. bubblewrap would keep them open until its sandbox is
// built.
func KeepInherited() error {
	const first = 3
	if err := unix.CloseRange(first, ^uint(0)>>1, unix.CLOSE_RANGE_CLOEXEC); err != nil {
		return fmt.Errorf("keeping inherited descriptors to palyrad: %w", err)
	}
	return nil
}
