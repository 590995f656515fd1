package origin

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strconv"
	"strings"
	"sync"
	"syscall"
)

// own is the start time of this process, "" until it has been read.
var own struct {
	sync.Mutex
	start string
}

// Mark returns the mark of this process. It reads the start time once, because it never changes.
func Mark() string {
	own.Lock()
	defer own.Unlock()
	if own.start == "" {
		own.start, _ = startTime(os.Getpid())
	}
	return fmt.Sprintf("%d-%s", os.Getpid(), own.start)
}

// Orphaned reports whether mark belongs to a process that has exited. It returns false for any
// other text.
func Orphaned(mark string) bool {
	number, start, ok := strings.Cut(mark, "-")
	pid, err := strconv.Atoi(number)
	if !ok || err != nil || pid <= 0 || !digits(number) || !digits(start) {
		return false
	}
	found, err := startTime(pid)
	if err != nil {
		// An unreadable process may be alive.
		return errors.Is(err, fs.ErrNotExist) || errors.Is(err, syscall.ESRCH)
	}
	return found != start
}

func digits(s string) bool {
	return s != "" && strings.Trim(s, "0123456789") == ""
}

// startTime returns the start time of a process in clock ticks since boot (field 22 of
// proc_pid_stat(5)).
func startTime(pid int) (string, error) {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	return startField(string(text)), err
}

func startField(stat string) string {
	// The second field, a name in parentheses, may contain any characters.
	fields := strings.Fields(stat[strings.LastIndexByte(stat, ')')+1:])
	const index = 22 - 3
	if len(fields) <= index {
		return ""
	}
	return fields[index]
}
