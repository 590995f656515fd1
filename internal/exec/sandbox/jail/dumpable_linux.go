package jail

import (
	"os"
	"sync"

	"golang.org/x/sys/unix"
)

// dumpable counts the current starts that require this process to be dumpable. Without such a
// start, the process is not dumpable.
var dumpable struct {
	mu     sync.Mutex
	starts int
}

// startProcess is os.StartProcess for processes that may begin in a new user namespace. Until it
// executes its program, such a process is a copy of this one. If this process is not dumpable
// (cmd/palyrad), only root may write the copy's /proc/PID/uid_map (proc_pid_uid_map(5)). For an
// ordinary user this process is therefore dumpable until the start ends.
func startProcess(name string, argv []string, attr *os.ProcAttr) (*os.Process, error) {
	if attr.Sys.Cloneflags&unix.CLONE_NEWUSER != 0 && os.Geteuid() != 0 {
		needed, err := beginDumpable()
		if err != nil {
			return nil, err
		}
		if needed {
			defer endDumpable()
		}
	}
	return os.StartProcess(name, argv, attr)
}

// beginDumpable reports whether endDumpable must be called.
func beginDumpable() (needed bool, err error) {
	dumpable.mu.Lock()
	defer dumpable.mu.Unlock()
	if dumpable.starts == 0 {
		if is, err := unix.PrctlRetInt(unix.PR_GET_DUMPABLE, 0, 0, 0, 0); err != nil || is != 0 {
			return false, err
		}
		if err := setDumpable(1); err != nil {
			return false, err
		}
	}
	dumpable.starts++
	return true, nil
}

func endDumpable() {
	dumpable.mu.Lock()
	defer dumpable.mu.Unlock()
	if dumpable.starts--; dumpable.starts == 0 {
		_ = setDumpable(0) // never fails for this value
	}
}

func setDumpable(value uintptr) error { return unix.Prctl(unix.PR_SET_DUMPABLE, value, 0, 0, 0) }
