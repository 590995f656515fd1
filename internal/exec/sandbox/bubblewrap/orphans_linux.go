package bubblewrap

import (
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// sweepOrphans ends bubblewrap processes that outlived their daemon. With --die-with-parent, the
// kernel kills bubblewrap together with its parent. If the daemon is killed just before that
// takes effect, the process that builds the sandbox waits for its other half forever. With
// control groups, Sweep finds it by its group as well.
func sweepOrphans(argv []string) error {
	entries, err := os.ReadDir("/proc")
	if err != nil {
		return fmt.Errorf("searching for processes: %w", err)
	}
	var failed error
	for _, entry := range entries {
		if pid, err := strconv.Atoi(entry.Name()); err == nil && isOrphan(pid, argv) {
			failed = errors.Join(failed, endOrphan(pid, argv))
		}
	}
	return failed
}

// isOrphan reports whether a process is an orphaned second half of bubblewrap. Such a process
// has exactly the command line that the runner gives bubblewrap, and its parent has another
// command line. It is also the first process of a PID namespace, which bubblewrap creates for
// its second half. The parent of an orphan is process 1, the user's systemd, or any other
// process that adopts orphans (PR_SET_CHILD_SUBREAPER in prctl(2)).
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

// statusField returns a field of proc_pid_status(5), such as "NSpid:\t4711\t1": the numbers of a
// process in its namespaces, the outermost first.
func statusField(status []byte, name string) string {
	_, rest, _ := strings.Cut(string(status), "\n"+name+":")
	value, _, _ := strings.Cut(rest, "\n")
	return strings.TrimSpace(value)
}

// endOrphan kills a process. It opens a pidfd first and then checks the process again, because
// its number may have been reused. It leaves processes of other users running.
func endOrphan(pid int, argv []string) error {
	fd, err := unix.PidfdOpen(pid, 0)
	if err != nil {
		return nil // the process has exited
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
