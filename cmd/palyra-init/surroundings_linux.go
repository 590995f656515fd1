package main

import (
	"errors"
	"slices"
	"strconv"

	"golang.org/x/sys/unix"

	"palyra/internal/exec/sandbox/inside"
)

// readSurroundings measures the view from inside.
func readSurroundings(i inside.Inner, r *inside.Report) (err error) {
	if r.Workspace, err = identify(i.Dir); err != nil {
		return err
	}
	var fs unix.Statfs_t
	if err := unix.Statfs(i.Dir, &fs); err != nil {
		return fail("opening the workspace", err)
	}
	r.Overlay = fs.Type == unix.OVERLAYFS_SUPER_MAGIC
	// A sandbox on the host's root may not be allowed to list it.
	if r.Root, err = names("/"); err != nil && !errors.Is(err, unix.EACCES) {
		return fail("reading back the root directory", err)
	}
	if r.Session, err = unix.Getsid(0); err != nil {
		return fail("reading back the session", err)
	}
	if r.Strays, err = strays(); err != nil {
		return fail("reading back the descriptors", err)
	}
	for _, name := range i.Masks {
		if !isMasked(name) {
			r.Unmasked = append(r.Unmasked, name)
		}
	}
	return nil
}

// environmentShows reports whether the environment of the sandbox's first process is readable and
// not empty; without a process namespace that is this process. It runs before Landlock, which
// hides every other process.
func environmentShows(i inside.Inner) bool {
	first := "/proc/1/environ"
	if i.Parent != 0 {
		first = "/proc/self/environ"
	}
	text, err := readFile(first)
	return err == nil && len(text) > 0
}

// names lists a directory, sorted.
func names(dir string) ([]string, error) {
	fd, err := unix.Open(dir, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, err
	}
	defer unix.Close(fd)
	var list []string
	chunk := make([]byte, 4096)
	for {
		n, err := unix.ReadDirent(fd, chunk)
		if err != nil {
			return nil, err
		}
		if n == 0 {
			slices.Sort(list)
			return list, nil
		}
		_, _, list = unix.ParseDirent(chunk[:n], -1, list)
	}
}

// strays counts the descriptors beyond the first three that remain open across execve.
func strays() (int, error) {
	list, err := names("/proc/thread-self/fd")
	if err != nil {
		return 0, err
	}
	count := 0
	for _, name := range list {
		fd, err := strconv.Atoi(name)
		if err != nil || fd < inside.ControlFD {
			continue
		}
		flags, err := unix.FcntlInt(uintptr(fd), unix.F_GETFD, 0)
		if err == nil && flags&unix.FD_CLOEXEC == 0 {
			count++
		}
	}
	return count, nil
}

// isMasked reports whether a file is missing or /dev/null.
func isMasked(name string) bool {
	var st unix.Stat_t
	err := unix.Lstat(name, &st)
	if err != nil {
		return err == unix.ENOENT
	}
	return st.Mode&unix.S_IFMT == unix.S_IFCHR && st.Rdev == unix.Mkdev(1, 3)
}
