package origin

import (
	"fmt"
	"os"
	"strconv"
	"strings"
)

// Mark is that of this process.
func Mark() string {
	return fmt.Sprintf("%d-%s", os.Getpid(), startTime(os.Getpid()))
}

// Orphaned reports whether mark is that of a process that is gone. Text that
// is no mark is nobody's, and not orphaned either.
func Orphaned(mark string) bool {
	number, start, ok := strings.Cut(mark, "-")
	pid, err := strconv.Atoi(number)
	if !ok || err != nil || pid <= 0 || !digits(number) || !digits(start) {
		return false
	}
	return startTime(pid) != start
}

func digits(s string) bool {
	return s != "" && strings.Trim(s, "0123456789") == ""
}

// startTime is when a process started, in clock ticks since boot, "" when
// there is no such process (field 22 of proc_pid_stat(5)).
func startTime(pid int) string {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return ""
	}
	return startField(string(text))
}

func startField(stat string) string {
	// The second field, a name in parentheses, may hold anything.
	fields := strings.Fields(stat[strings.LastIndexByte(stat, ')')+1:])
	const index = 22 - 3
	if len(fields) <= index {
		return ""
	}
	return fields[index]
}
