package jail

import (
	"math"
	"slices"

	"golang.org/x/sys/unix"

	"palyra/internal/exec/sandbox"
	"palyra/internal/exec/sandbox/cgroup"
	"palyra/internal/exec/sandbox/inside"
)

// rlimits returns the limits that the helper sets on itself. They apply to every process of the
// run individually. Without control groups only RLIMIT_NPROC counts the processes of a whole
// run, since Linux 5.14 per user namespace. No limit then counts all runs together. The limit
// of palyrad, less a reserve, is therefore divided by the number of concurrent runs.
func (m *Machine) rlimits(p *Plan, limits sandbox.Limits) []inside.Rlimit {
	if m.Without(LayerRlimits) {
		return nil
	}
	const mib = 1 << 20
	cpu := uint64(math.Ceil(limits.CPU.Seconds()))
	processes := uint64(within(limits.Processes, m.room.part.Processes))
	if m.Level() != cgroup.Rlimit {
		// The control group refuses first and counts its refusals; RLIMIT_NPROC does not count them.
		processes += 16
	}
	list := []inside.Rlimit{
		{Name: "cpu", Resource: unix.RLIMIT_CPU, Soft: cpu, Hard: cpu + 2},
		{Name: "fsize", Resource: unix.RLIMIT_FSIZE, Soft: uint64(limits.FileSize), Hard: uint64(limits.FileSize)},
		{Name: "nofile", Resource: unix.RLIMIT_NOFILE, Soft: uint64(limits.OpenFiles), Hard: uint64(limits.OpenFiles)},
		{Name: "nproc", Resource: unix.RLIMIT_NPROC, Soft: processes, Hard: processes},
		{Name: "stack", Resource: unix.RLIMIT_STACK, Soft: 8 * mib, Hard: 64 * mib},
		{Name: "memlock", Resource: unix.RLIMIT_MEMLOCK, Soft: 64 << 10, Hard: 64 << 10},
		{Name: "sigpending", Resource: unix.RLIMIT_SIGPENDING, Soft: 1024, Hard: 1024},
		{Name: "core", Resource: unix.RLIMIT_CORE},
		{Name: "msgqueue", Resource: unix.RLIMIT_MSGQUEUE},
		{Name: "nice", Resource: unix.RLIMIT_NICE},
		{Name: "rtprio", Resource: unix.RLIMIT_RTPRIO},
		{Name: "rttime", Resource: unix.RLIMIT_RTTIME},
	}
	// Memory has no limit per process, also without control groups: RLIMIT_AS and RLIMIT_DATA count
	// what a runtime reserves, which is far more than it uses. V8 takes 10 GiB for each WebAssembly
	// memory, and a sanitizer 16 TiB of writable memory. The memoryMeter limits the used memory.
	if limits.AddressSpace > 0 {
		list = append(list, inside.Rlimit{Name: "as", Resource: unix.RLIMIT_AS, Soft: uint64(limits.AddressSpace), Hard: uint64(limits.AddressSpace)})
	}
	for i := range list {
		hard := m.host.hard[list[i].Resource]
		list[i].Hard = min(list[i].Hard, hard)
		list[i].Soft = min(list[i].Soft, list[i].Hard)
	}
	if p.Rung != sandbox.Landlocked || m.Root() {
		return list
	}
	// The program has neither a user namespace nor a separate user: the kernel would count all
	// processes of the daemon's user. The control group limits the processes instead.
	return slices.DeleteFunc(list, func(l inside.Rlimit) bool { return l.Resource == unix.RLIMIT_NPROC })
}

// within returns the smaller of a limit and a part. part 0 means no part.
func within[N int | int64](limit, part N) N {
	if part == 0 {
		return limit
	}
	return min(limit, part)
}
