package jail

import (
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"

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

// private are mounts that let a run use Unix sockets and terminals of its own.
type private struct {
	// layered are the directories of the host that the run sees through an overlay. In a mount
	// namespace of the thread, the daemon finds them at the paths from.
	layered, from []string
	// terminals is true if the thread mounts the run's terminals.
	terminals bool
}

// Layered is like Shown, but mounts the directory as an overlay without a writable layer. A program
// cannot connect to a socket in it: the kernel looks up sockets by their files, and the files of an
// overlay are others than those below it.
func (s *Stage) Layered(path string) (string, error) {
	p := &s.plan.private
	if s.machine.Root() {
		from, err := s.Shown(path)
		if err != nil {
			return "", err
		}
		p.from = append(p.from, from)
	} else {
		dir, err := OpenDirectory(path)
		if err != nil {
			return "", err
		}
		defer dir.File.Close()
		s.outer.Layered = append(s.outer.Layered, dir.Source())
	}
	p.layered = append(p.layered, path)
	return inside.LayeredAt(len(p.layered) - 1), nil
}

// Terminals mounts pseudo terminals of the run's own, and returns their path.
func (s *Stage) Terminals() string {
	if s.machine.Root() {
		s.plan.private.terminals = true
	} else {
		s.outer.Terminals = true
	}
	return inside.TerminalDir
}

// mount makes the mounts on the calling thread of a daemon that is root, like palyra-init's outer
// stage.
func (p *private) mount() error {
	if len(p.from) > 0 {
		if err := unix.Mkdir(inside.EmptyLayer, 0o755); err != nil {
			return fmt.Errorf("creating an empty layer: %w", err)
		}
	}
	for i, from := range p.from {
		if err := mountNew("overlay", inside.LayeredAt(i), unix.MS_RDONLY|unix.MS_NODEV, inside.LayeredOptions(from)); err != nil {
			return fmt.Errorf("mounting the toolchain %s: %w", strconv.Quote(p.layered[i]), err)
		}
	}
	if !p.terminals {
		return nil
	}
	if err := mountNew("devpts", inside.TerminalDir, unix.MS_NOEXEC, inside.TerminalOptions); err != nil {
		return fmt.Errorf("mounting the run's terminals: %w", err)
	}
	return nil
}

// mountNew mounts a file system at a new directory.
func mountNew(kind, at string, flags uintptr, options string) error {
	if err := unix.Mkdir(at, 0o755); err != nil {
		return err
	}
	return unix.Mount(kind, at, kind, flags|unix.MS_NOSUID, options)
}

// holds reports whether a path is below a layered directory.
func (p *private) holds(path string) bool {
	return slices.ContainsFunc(p.layered, func(dir string) bool { return strings.HasPrefix(path, dir+"/") })
}
