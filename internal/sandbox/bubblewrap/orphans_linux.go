package bubblewrap

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// sweepOrphans ends bubblewrap processes that outlived their daemon. bubblewrap
// asks the kernel to die with its parent (--die-with-parent), but a daemon that is
// killed just before that leaves the process that builds the sandbox waiting for
// its other half for ever. Where there are control groups, Sweep finds it by its
// group as well.
func sweepOrphans(argv []string) error {
	entries, err := os.ReadDir("/proc")
	if err != nil {
		return fmt.Errorf("looking for processes: %w", err)
	}
	var failed error
	for _, entry := range entries {
		if pid, err := strconv.Atoi(entry.Name()); err == nil && isOrphan(pid, argv) {
			failed = errors.Join(failed, endOrphan(pid, argv))
		}
	}
	return failed
}

// isOrphan reports whether a process has exactly the command line that the
// runner gives bubblewrap, and process 1 as its parent: the kernel makes process 1
// the parent of orphans. If palyrad is process 1 itself (in a container), this is
// still right, because palyrad sweeps before it builds its first sandbox.
func isOrphan(pid int, argv []string) bool {
	line, err := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", pid))
	if err != nil || !bytes.Equal(line, []byte(strings.Join(argv, "\x00")+"\x00")) {
		return false
	}
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	return err == nil && bytes.Contains(status, []byte("\nPPid:\t1\n"))
}

// endOrphan kills a process once there is a hold on it: its number may have been
// another's before. Processes of other users stay.
func endOrphan(pid int, argv []string) error {
	fd, err := unix.PidfdOpen(pid, 0)
	if err != nil {
		return nil // it is gone
	}
	defer unix.Close(fd)
	if !isOrphan(pid, argv) {
		return nil
	}
	err = unix.PidfdSendSignal(fd, unix.SIGKILL, nil, 0)
	if errors.Is(err, unix.ESRCH) || errors.Is(err, unix.EPERM) {
		return nil
	}
	return err
}
