package jail

import (
	"fmt"
	"os"
	"strconv"

	"golang.org/x/sys/unix"

	"palyra/internal/exec/sandbox/inside"
)

// attach gives the calling thread its own mount namespace and attaches each detached mount at
// inside.MountAt of its position. Other threads do not see these mounts; processes started by
// this thread inherit them.
func attach(mounts []*os.File) error {
	if err := unix.Unshare(unix.CLONE_FS | unix.CLONE_NEWNS); err != nil {
		return fmt.Errorf("creating a mount namespace: %w", err)
	}
	if err := unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, ""); err != nil {
		return fmt.Errorf("making the mounts private: %w", err)
	}
	const flags = unix.MS_NOSUID | unix.MS_NODEV | unix.MS_NOEXEC
	if err := unix.Mount("tmpfs", inside.MountDir, "tmpfs", flags, "mode=0755,size=64k,nr_inodes=64"); err != nil {
		return fmt.Errorf("covering %s: %w", inside.MountDir, err)
	}
	for i, tree := range mounts {
		place := inside.MountAt(i)
		if err := unix.Mkdir(place, 0o755); err != nil {
			return fmt.Errorf("creating a mount point: %w", err)
		}
		if err := unix.MoveMount(int(tree.Fd()), "", unix.AT_FDCWD, place, unix.MOVE_MOUNT_F_EMPTY_PATH); err != nil {
			return fmt.Errorf("attaching a mount: %w", err)
		}
	}
	return nil
}

// mount makes the mounts of the plan on the calling thread. It returns the identity of the copy of
// the workspace if it mounts one.
func (p *Plan) mount() (*inside.Identity, error) {
	if err := attach(p.Mounts); err != nil || p.Layer == nil || p.Staged {
		return nil, err
	}
	if err := overlayOn(inside.MountAt(len(p.Mounts)-1), p.Layer.Upper().Name(), p.Layer.Work().Name()); err != nil {
		return nil, fmt.Errorf("mounting the copy of the workspace: %w", err)
	}
	if err := p.private.mount(); err != nil {
		return nil, err
	}
	var st unix.Stat_t
	if err := unix.Stat(inside.Mountpoint, &st); err != nil {
		return nil, fmt.Errorf("opening the copy of the workspace: %w", err)
	}
	return &inside.Identity{Dev: uint64(st.Dev), Ino: st.Ino}, nil
}

// overlayOn mounts the copy of a workspace like palyra-init's outer stage. The layers must be
// opened here, so that they belong to the thread's own mounts.
func overlayOn(lower, upper, work string) error {
	if err := unix.Mkdir(inside.Mountpoint, 0o755); err != nil {
		return err
	}
	options := "userxattr,volatile"
	for _, layer := range []struct{ option, path string }{{"lowerdir", lower}, {"upperdir", upper}, {"workdir", work}} {
		fd, err := unix.Openat2(unix.AT_FDCWD, layer.path, &unix.OpenHow{Flags: directoryFlags, Resolve: unix.RESOLVE_NO_SYMLINKS})
		if err != nil {
			return err
		}
		defer unix.Close(fd)
		options += "," + layer.option + "=/proc/thread-self/fd/" + strconv.Itoa(fd)
	}
	return unix.Mount("overlay", inside.Mountpoint, "overlay", unix.MS_NOSUID|unix.MS_NODEV, options)
}
