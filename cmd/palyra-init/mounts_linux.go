package main

import (
	"errors"
	"strconv"

	"golang.org/x/sys/unix"

	"palyra/internal/exec/sandbox/inside"
)

// assemble makes all mounts and returns the root of the workspace's mount.
func assemble(o inside.Outer) (root inside.Identity, err error) {
	if err := unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, ""); err != nil {
		return root, fail("making the mounts private", err)
	}
	sources := []inside.Source{o.Workspace}
	if o.Overlay != nil {
		sources = append(sources, o.Overlay.Upper, o.Overlay.Work)
	}
	sources = append(sources, o.Layered...)
	fds := make([]int, len(sources))
	for i, s := range sources {
		if fds[i], err = open(s); err != nil {
			return root, fail(inside.StepWorkspace, err)
		}
	}
	if err := cover(o.Mounts); err != nil {
		return root, err
	}
	if o.Overlay != nil {
		err = fail(inside.StepOverlay, overlay(fds[0], fds[1], fds[2]))
	} else {
		err = fail("attaching the workspace", bind(fds[0], inside.Mountpoint))
	}
	if err != nil {
		return root, err
	}
	if err := pinPaths(o.Pins); err != nil {
		return root, err
	}
	if err := private(fds[len(fds)-len(o.Layered):], o.Terminals); err != nil {
		return root, fail(inside.StepPrivate, err)
	}
	return identify(inside.Mountpoint)
}

// open returns a descriptor of a source, after verifying its identity.
func open(s inside.Source) (int, error) {
	fd := s.FD
	if fd == 0 {
		const flags = unix.O_PATH | unix.O_DIRECTORY | unix.O_CLOEXEC
		var err error
		if fd, err = unix.Openat2(unix.AT_FDCWD, s.Path, &unix.OpenHow{Flags: flags, Resolve: unix.RESOLVE_NO_SYMLINKS}); err != nil {
			return -1, err
		}
	}
	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err != nil {
		return -1, err
	}
	if !matches(st, s.Identity) {
		return -1, unix.ESTALE
	}
	return fd, nil
}

// cover mounts an empty file system over a directory that every user may enter, and attaches the
// detached mounts there, because only attached mounts can be layers.
func cover(mounts []int) error {
	const flags = unix.MS_NOSUID | unix.MS_NODEV | unix.MS_NOEXEC
	if err := unix.Mount("tmpfs", inside.MountDir, "tmpfs", flags, "mode=0755,size=4m,nr_inodes=64"); err != nil {
		return fail("covering "+inside.MountDir, err)
	}
	if err := unix.Mkdir(inside.Mountpoint, 0o755); err != nil {
		return fail("making the place of the workspace", err)
	}
	for i, fd := range mounts {
		target := inside.MountAt(i)
		if err := unix.Mkdir(target, 0o755); err != nil {
			return fail("making the place of a mount", err)
		}
		if err := unix.MoveMount(fd, "", unix.AT_FDCWD, target, unix.MOVE_MOUNT_F_EMPTY_PATH); err != nil {
			return fail("attaching a mount", err)
		}
	}
	return nil
}

// overlay mounts the copy of the workspace. Layers are named by descriptor, so that their paths
// are not visible inside. The layer is used once, so it need not be written to the disk
// (volatile).
func overlay(lower, upper, work int) error {
	options := "userxattr,volatile,lowerdir=" + descriptor(lower) + ",upperdir=" + descriptor(upper) + ",workdir=" + descriptor(work)
	return unix.Mount("overlay", inside.Mountpoint, "overlay", unix.MS_NOSUID|unix.MS_NODEV, options)
}

// private mounts what lets a run use Unix sockets and terminals of its own. A socket in a layered
// directory cannot be connected, because it belongs to another file than the one on the overlay.
func private(layered []int, terminals bool) error {
	if len(layered) > 0 {
		if err := unix.Mkdir(inside.EmptyLayer, 0o755); err != nil {
			return err
		}
	}
	for i, fd := range layered {
		if err := mountNew("overlay", inside.LayeredAt(i), unix.MS_RDONLY|unix.MS_NODEV, inside.LayeredOptions(descriptor(fd))); err != nil {
			return err
		}
	}
	if !terminals {
		return nil
	}
	return mountNew("devpts", inside.TerminalDir, unix.MS_NOEXEC, inside.TerminalOptions)
}

// mountNew mounts a file system at a new directory.
func mountNew(kind, at string, flags uintptr, options string) error {
	if err := unix.Mkdir(at, 0o755); err != nil {
		return err
	}
	return unix.Mount(kind, at, kind, flags|unix.MS_NOSUID, options)
}

// bind mounts a directory, with the mounts below it, at another place.
func bind(fd int, target string) error {
	tree, err := clone(fd)
	if err != nil {
		return err
	}
	defer unix.Close(tree)
	return unix.MoveMount(tree, "", unix.AT_FDCWD, target, unix.MOVE_MOUNT_F_EMPTY_PATH)
}

func clone(fd int) (int, error) {
	return unix.OpenTree(fd, "", unix.OPEN_TREE_CLONE|unix.OPEN_TREE_CLOEXEC|unix.AT_RECURSIVE|unix.AT_EMPTY_PATH)
}

// pinPaths binds each path over itself: a mount point cannot be renamed or removed, and a
// read-only mount cannot be written to. Paths are opened here, beneath the workspace and without
// links, not by bubblewrap.
func pinPaths(pins []inside.Pin) error {
	if len(pins) == 0 {
		return nil
	}
	root, err := unix.Open(inside.Mountpoint, unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		return fail("pinning protected paths", err)
	}
	defer unix.Close(root)
	for _, p := range pins {
		if err := pinPath(root, p); err != nil {
			return fail("pinning "+p.Path, err)
		}
	}
	return nil
}

func pinPath(root int, p inside.Pin) error {
	how := unix.OpenHow{Flags: unix.O_PATH | unix.O_CLOEXEC | unix.O_NOFOLLOW, Resolve: unix.RESOLVE_BENEATH | unix.RESOLVE_NO_SYMLINKS}
	at, err := unix.Openat2(root, p.Path, &how)
	if errors.Is(err, unix.ENOENT) {
		return nil // removed since palyrad looked; any replacement is new
	}
	if err != nil {
		return err
	}
	defer unix.Close(at)
	tree, err := clone(at)
	if err != nil {
		return err
	}
	defer unix.Close(tree)
	if p.ReadOnly {
		if err := unix.MountSetattr(tree, "", unix.AT_EMPTY_PATH|unix.AT_RECURSIVE, &unix.MountAttr{Attr_set: unix.MOUNT_ATTR_RDONLY}); err != nil {
			return err
		}
	}
	return unix.MoveMount(tree, "", at, "", unix.MOVE_MOUNT_F_EMPTY_PATH|unix.MOVE_MOUNT_T_EMPTY_PATH)
}

func identify(path string) (inside.Identity, error) {
	var st unix.Stat_t
	if err := unix.Stat(path, &st); err != nil {
		return inside.Identity{}, fail("looking at the workspace", err)
	}
	return inside.Identity{Dev: uint64(st.Dev), Ino: st.Ino}, nil
}

// descriptor returns a path to an open file.
func descriptor(fd int) string { return "/proc/self/fd/" + strconv.Itoa(fd) }
