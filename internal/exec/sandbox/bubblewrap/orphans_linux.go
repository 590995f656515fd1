package bubblewrap

import (
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

// isOrphan reports whether a process has exactly the command line that the runner
// gives bubblewrap, is the first of a process namespace, which bubblewrap makes for its
// second half, and has a parent with another command line: the first half is gone. The
// parent of an orphan is process 1, the user's systemd, or any other process that asked
// the kernel for orphans (PR_SET_CHILD_SUBREAPER in prctl(2)).
func isOrphan(pid int, argv []string) bool {
	if !hasCommandLine(strconv.Itoa(pid), argv) {
		return false
	}
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		return false
	}
	numbers, parent := strings.Fields(statusField(text, "NSpid")), statusField(text, "PPid")
	return len(numbers) > 1 && numbers[len(numbers)-1] == "1" && parent != "" && !hasCommandLine(parent, argv)
}

// hasCommandLine reads proc_pid_cmdline(5).
func hasCommandLine(pid string, argv []string) bool {
	line, err := os.ReadFile("/proc/" + pid + "/cmdline")
	return err == nil && string(line) == strings.Join(argv, "\x00")+"\x00"
}

// statusField returns a field of proc_pid_status(5), such as "NSpid:\t4711\t1": the numbers
// of a process in the namespaces that it is in, the outermost first.
func statusField(status []byte, name string) string {
	_, rest, _ := strings.Cut(string(status), "\n"+name+":")
	value, _, _ := strings.Cut(rest, "\n")
	return strings.TrimSpace(value)
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
