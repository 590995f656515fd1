package jail

import (
	"fmt"
	"os"

	"golang.org/x/sys/unix"

	"palyra/internal/sandbox/inside"
)

// attach gives the calling thread mounts of its own, in which each detached
// mount is attached at inside.MountPlace of its position. No other thread sees
// them, and what this one starts inherits them.
func attach(mounts []*os.File) error {
	if err := unix.Unshare(unix.CLONE_FS | unix.CLONE_NEWNS); err != nil {
		return fmt.Errorf("making a mount namespace: %w", err)
	}
	if err := unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, ""); err != nil {
		return fmt.Errorf("making the mounts private: %w", err)
	}
	const flags = unix.MS_NOSUID | unix.MS_NODEV | unix.MS_NOEXEC
	if err := unix.Mount("tmpfs", inside.PlaceDir, "tmpfs", flags, "mode=0755,size=64k,nr_inodes=32"); err != nil {
		return fmt.Errorf("covering %s: %w", inside.PlaceDir, err)
	}
	for i, tree := range mounts {
		place := inside.MountPlace(i)
		if err := unix.Mkdir(place, 0o755); err != nil {
			return fmt.Errorf("making the place of a mount: %w", err)
		}
		if err := unix.MoveMount(int(tree.Fd()), "", unix.AT_FDCWD, place, unix.MOVE_MOUNT_F_EMPTY_PATH); err != nil {
			return fmt.Errorf("attaching a mount: %w", err)
		}
	}
	return nil
}
