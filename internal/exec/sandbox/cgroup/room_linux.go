package cgroup

import (
	"math"
	"path/filepath"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"palyra/internal/exec/sandbox"
)

// Bounds returns the resource limits of palyrad and its runs together: the minimum of the limits
// of its control groups, their parents, its user and the machine.
func Bounds() sandbox.Share {
	b := machine()
	own := ownGroups()
	for _, f := range []struct{ controller, file string }{{"", "pids.max"}, {"pids", "pids.max"}} {
		b.Processes = least(b.Processes, int(lowest(own[f.controller], f.file)))
	}
	for _, f := range []struct{ controller, file string }{{"", "memory.max"}, {"memory", "memory.limit_in_bytes"}} {
		b.Memory = least(b.Memory, lowest(own[f.controller], f.file))
	}
	return b
}

// machine returns the limits of the kernel and of the user.
func machine() sandbox.Share {
	var b sandbox.Share
	for _, file := range []string{"/proc/sys/kernel/threads-max", "/proc/sys/kernel/pid_max"} {
		b.Processes = least(b.Processes, int(number(readFile(file))))
	}
	var own unix.Rlimit
	// A limit of a user does not apply to root.
	if unix.Geteuid() != 0 && unix.Getrlimit(unix.RLIMIT_NPROC, &own) == nil && own.Cur < math.MaxInt32 {
		b.Processes = least(b.Processes, int(own.Cur))
	}
	for line := range strings.Lines(readFile("/proc/meminfo")) {
		if value, ok := strings.CutPrefix(line, "MemTotal:"); ok {
			kib, _ := strconv.ParseInt(strings.TrimSuffix(strings.TrimSpace(value), " kB"), 10, 64)
			b.Memory = kib << 10
		}
	}
	return b
}

// lowest returns the lowest limit of a group and its parents, 0 for none.
func lowest(dir, file string) int64 {
	var limit int64
	for ; dir != "" && isGroup(dir); dir = filepath.Dir(dir) {
		limit = least(limit, number(readFile(filepath.Join(dir, file))))
	}
	return limit
}

// least returns the smaller of two limits; 0 is no limit.
func least[N int | int64](a, b N) N {
	if a == 0 || b != 0 && b < a {
		return b
	}
	return a
}
