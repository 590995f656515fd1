package disk

import (
	"errors"
	"os"
	"strings"

	"golang.org/x/sys/unix"

	"palyra/internal/exec/sandbox/origin"
	"palyra/internal/exec/workspace/overlay"
)

// Sweep removes the remains of dead daemons from a directory. It removes entries named by an
// origin.Mark, which may be followed by "-" and any text. All other entries, and entries of
// living daemons, stay.
func Sweep(dir string) error {
	return sweep(dir, func(_ int, name string) bool { return origin.Orphaned(markOf(name)) })
}

// sweep removes the entries of a directory that are left over.
func sweep(dir string, left func(parent int, name string) bool) error {
	f, err := os.Open(dir)
	if err != nil {
		return err
	}
	defer f.Close()
	entries, err := f.Readdirnames(-1)
	for _, name := range entries {
		if left(int(f.Fd()), name) {
			err = errors.Join(err, overlay.RemoveTree(f, name))
		}
	}
	return err
}

// Hold locks a new directory of this process, so that SweepUnheld keeps it. The lock ends with the
// process, or when the file is closed.
func Hold(dir string) (*os.File, error) {
	f, err := os.Open(dir)
	if err != nil {
		return nil, err
	}
	if err := unix.Flock(int(f.Fd()), unix.LOCK_EX); err != nil {
		f.Close()
		return nil, err
	}
	return f, nil
}

// sharedPrefix begins the names of SharedPattern. Directories of people have other names.
const sharedPrefix = "palyra-tmp-"

// SharedPattern returns the pattern (os.MkdirTemp) of the directories of this process in a
// directory such as /tmp.
func SharedPattern() string { return sharedPrefix + origin.Mark() + "-" }

// SweepUnheld removes the directories of SharedPattern of dead processes from a directory that
// other programs, users and PID namespaces share, such as /tmp. It removes only directories of this
// user that no process holds, because a process of another PID namespace looks dead.
func SweepUnheld(dir string) error {
	return sweep(dir, func(parent int, name string) bool {
		mark, ok := sharedMark(name)
		return ok && origin.Orphaned(mark) && unheld(parent, name)
	})
}

// sharedMark returns the mark in a name of SharedPattern: the prefix, the two numbers of the mark,
// and the number of os.MkdirTemp.
func sharedMark(name string) (mark string, ok bool) {
	rest, ok := strings.CutPrefix(name, sharedPrefix)
	at := strings.LastIndexByte(rest, '-')
	if !ok || at < 0 || at == len(rest)-1 || strings.Trim(rest[at+1:], "0123456789") != "" {
		return "", false
	}
	return rest[:at], true
}

// unheld reports whether a name is a directory of this user without a lock.
func unheld(parent int, name string) bool {
	fd, err := openDir(parent, name)
	if err != nil {
		return false
	}
	defer unix.Close(fd)
	var st unix.Stat_t
	return unix.Fstat(fd, &st) == nil && int(st.Uid) == os.Geteuid() && unix.Flock(fd, unix.LOCK_EX|unix.LOCK_NB) == nil
}

// markOf returns the mark at the start of a name.
func markOf(name string) string {
	parts := strings.SplitN(name, "-", 3)
	return strings.Join(parts[:min(len(parts), 2)], "-")
}
