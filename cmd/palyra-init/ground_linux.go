package main

import (
	"errors"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"palyra/internal/exec/sandbox/inside"
)

// ground is the first process of a Tier B sandbox with separate namespaces. It keeps the host's
// root, which Landlock will restrict, and mounts over it the workspace, the process list, and
// every directory that programs commonly share. Then it continues like inner.
func ground(spec inside.Spec) error {
	if err := unix.Prctl(unix.PR_SET_PDEATHSIG, uintptr(unix.SIGKILL), 0, 0, 0); err != nil {
		return fail("asking to die with the daemon", err)
	}
	// The host directories that are covered next may contain the caches.
	caches := make([]int, len(spec.Ground.Caches))
	for i, source := range spec.Ground.Caches {
		fd, err := open(source)
		if err != nil {
			return fail("opening a cache", err)
		}
		caches[i] = fd
	}
	mounted, err := assemble(spec.Outer)
	if err != nil {
		return err
	}
	for i, fd := range caches {
		if err := attachCache(fd, inside.CacheAt(i)); err != nil {
			return fail("mounting a cache", err)
		}
	}
	if err := coverShared(spec.Ground); err != nil {
		return err
	}
	if err := remountReadOnly(spec.Ground); err != nil {
		return fail("making the host's mounts read-only", err)
	}
	if spec.Ground.Loopback {
		if err := raiseLoopback(); err != nil {
			return fail("raising the loopback interface", err)
		}
	}
	// If the daemon died before the request above, the other end of the control socket is closed.
	// In a process namespace the parent's pid cannot be checked.
	if err := send(inside.Report{Mounted: &mounted}); err != nil {
		return fail("sending the report", err)
	}
	return inner(spec.Inner)
}

// coverShared covers the host directories that programs of several users share.
func coverShared(g inside.Ground) error {
	if g.Proc {
		if err := unix.Mount("proc", "/proc", "proc", unix.MS_NOSUID|unix.MS_NODEV|unix.MS_NOEXEC, ""); err != nil {
			return fail("mounting the process list", err)
		}
	}
	for _, name := range g.Masks {
		if err := unix.Mount("/dev/null", name, "", unix.MS_BIND, ""); err != nil && !errors.Is(err, unix.ENOENT) {
			return fail("masking "+name, err)
		}
	}
	for i, f := range g.Files {
		if err := coverFile(f, inside.MountDir+"/file-"+strconv.Itoa(i)); err != nil {
			return fail("covering "+f.Path, err)
		}
	}
	options := "mode=1777,size=" + strconv.FormatInt(g.Tmp, 10)
	for _, dir := range []string{inside.Tmp, "/dev/shm"} {
		if err := unix.Mount("tmpfs", dir, "tmpfs", unix.MS_NOSUID|unix.MS_NODEV, options); err != nil {
			return fail("covering "+dir, err)
		}
	}
	return fail("making the home directory", unix.Mkdir(inside.TmpHome, 0o700))
}

func attachCache(fd int, target string) error {
	if err := unix.Mkdir(target, 0o755); err != nil {
		return err
	}
	return bind(fd, target)
}

// remountReadOnly makes every mount read-only that does not belong to the run.
func remountReadOnly(g inside.Ground) error {
	if err := unix.MountSetattr(unix.AT_FDCWD, "/", unix.AT_RECURSIVE, &unix.MountAttr{Attr_set: unix.MOUNT_ATTR_RDONLY}); err != nil {
		return err
	}
	for _, dir := range g.Writable {
		if err := unix.MountSetattr(unix.AT_FDCWD, dir, 0, &unix.MountAttr{Attr_clr: unix.MOUNT_ATTR_RDONLY}); err != nil {
			return err
		}
	}
	return nil
}

// coverFile covers a file with another one, which is created in a directory of the run. A file
// that does not exist on the host cannot be covered. A link is covered itself, because its target
// may be covered by now.
func coverFile(f inside.File, target string) error {
	own := strings.HasPrefix(f.Path, inside.MountDir+"/")
	if own {
		target = f.Path
	}
	fd, err := unix.Open(target, unix.O_WRONLY|unix.O_CREAT|unix.O_EXCL|unix.O_CLOEXEC, 0o444)
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	if n, err := unix.Write(fd, []byte(f.Content)); err != nil || n != len(f.Content) {
		return errors.Join(err, unix.EIO)
	}
	if own {
		return nil
	}
	tree, err := unix.OpenTree(unix.AT_FDCWD, target, unix.OPEN_TREE_CLONE|unix.OPEN_TREE_CLOEXEC)
	if err != nil {
		return err
	}
	defer unix.Close(tree)
	if err := unix.MoveMount(tree, "", unix.AT_FDCWD, f.Path, unix.MOVE_MOUNT_F_EMPTY_PATH); err != unix.ENOENT {
		return err
	}
	return nil
}

// raiseLoopback brings up the loopback interface, which is down in a new network namespace.
func raiseLoopback() error {
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	request, err := unix.NewIfreq("lo")
	if err != nil {
		return err
	}
	request.SetUint16(unix.IFF_UP | unix.IFF_RUNNING)
	return unix.IoctlIfreq(fd, unix.SIOCSIFFLAGS, request)
}
