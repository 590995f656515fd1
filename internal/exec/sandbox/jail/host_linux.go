package jail

import (
	"fmt"
	"os"
	"strconv"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"
)

const (
	// leastLandlock is the minimum ABI. Below it, renaming between directories is always refused,
	// which breaks git.
	leastLandlock = 2
	// mostLandlock is the newest ABI that the helper supports.
	mostLandlock = 7
)

// host contains the properties of the host and of the daemon that a proof of layers depends on.
type host struct {
	// landlock is the ABI that sandboxes use, 0 for none.
	landlock int
	// own are the daemon's namespaces: a run must be in other namespaces.
	own map[string]uint64
	// filters is the number of system call filters of the daemon itself.
	filters int
	// hard are the daemon's hard limits, which a run cannot exceed.
	hard   map[int]uint64
	kernel string
	// userLimits are the limits of a sandbox's user namespace. They are nil where the daemon has no
	// writable /proc/sys/user, as in most containers.
	userLimits map[string]uint64
	// tracing decides how descriptors of the helper reach the daemon.
	tracing tracing
	// null is the host's null device, which covers masked files.
	null string
}

// newHost measures the host and the daemon.
func newHost() (host, error) {
	h := host{landlock: landlockABI(), own: map[string]uint64{}, hard: map[int]uint64{}, null: "/dev/null"}
	for _, n := range namespaceLayers {
		var st unix.Stat_t
		if err := unix.Stat("/proc/self/ns/"+n.kind, &st); err != nil {
			return h, fmt.Errorf("reading the daemon's namespaces: %w", err)
		}
		h.own[n.kind] = st.Ino
	}
	for resource := range unix.RLIMIT_RTTIME + 1 {
		var l syscall.Rlimit
		if err := syscall.Getrlimit(resource, &l); err != nil {
			return h, fmt.Errorf("reading the daemon's limits: %w", err)
		}
		h.hard[resource] = l.Max
	}
	status, err := os.ReadFile("/proc/thread-self/status")
	if err != nil {
		return h, fmt.Errorf("reading the daemon's filters and capabilities: %w", err)
	}
	for line := range strings.Lines(string(status)) {
		// Linux before 5.9 does not count the filters; the helper requires the count.
		if count, ok := strings.CutPrefix(line, "Seccomp_filters:"); ok {
			h.filters, _ = strconv.Atoi(strings.TrimSpace(count))
		}
		if effective, ok := strings.CutPrefix(line, "CapEff:"); ok {
			h.tracing = newTracing(strings.TrimSpace(effective))
		}
	}
	h.userLimits = newUserLimits()
	var name unix.Utsname
	if err := unix.Uname(&name); err != nil {
		return h, fmt.Errorf("reading the kernel version: %w", err)
	}
	h.kernel = unix.ByteSliceToString(name.Release[:])
	return h, nil
}

// sysctlDir contains the limits of a user namespace.
const sysctlDir = "/proc/sys/user"

// userShare is the share of the daemon's own limits that one run may use: 1 part in userShare.
const userShare = 4

// newUserLimits returns the limits of a run for inotify(7).
func newUserLimits() map[string]uint64 {
	var fs unix.Statfs_t
	if unix.Statfs(sysctlDir, &fs) != nil || fs.Flags&unix.ST_RDONLY != 0 {
		return nil
	}
	limits := map[string]uint64{}
	for _, name := range []string{"max_inotify_instances", "max_inotify_watches"} {
		text, err := os.ReadFile(sysctlDir + "/" + name)
		own, failed := strconv.ParseUint(strings.TrimSpace(string(text)), 10, 64)
		if err == nil && failed == nil {
			limits[name] = own / userShare
		}
	}
	return limits
}

// landlockABI queries the kernel (landlock_create_ruleset(2)); 0 means none.
func landlockABI() int {
	abi, _, errno := unix.Syscall(unix.SYS_LANDLOCK_CREATE_RULESET, 0, 0, unix.LANDLOCK_CREATE_RULESET_VERSION)
	if errno != 0 || abi < leastLandlock {
		return 0
	}
	return min(int(abi), mostLandlock)
}

// SystemDirs returns paths that are links into /usr on most machines, and directories on
// others.
func SystemDirs() []string {
	return []string{"/bin", "/sbin", "/lib", "/lib64", "/lib32", "/libx32"}
}

// Masks returns entries of /proc that disclose information about the host, its keys and the work of
// its other programs. Each mask costs a mount. Entries that programs need (stat, meminfo, loadavg,
// vmstat) and entries that only root may read are not masked.
func Masks() []string {
	return []string{
		"/proc/keys", "/proc/key-users", "/proc/kallsyms", "/proc/timer_list", "/proc/cmdline", "/proc/kcore", "/proc/sched_debug", "/proc/modules",
		"/proc/interrupts", "/proc/softirqs", "/proc/schedstat", "/proc/iomem", "/proc/ioports",
	}
}

// Devices returns harmless device nodes of /dev.
func Devices() []string {
	return []string{"/dev/null", "/dev/zero", "/dev/full", "/dev/random", "/dev/urandom"}
}
