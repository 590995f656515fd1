package cgroup

import "time"

// Counters read the resource use of the groups of a run. They are safe for concurrent use.
type Counters struct{ directories }

// CPU returns the processor time of the whole run, 0 if no group counts it.
func (c Counters) CPU() time.Duration {
	if c.dirs["cpuacct"] != "" {
		return time.Duration(number(c.read("cpuacct", "cpuacct.usage")))
	}
	return time.Duration(keyed(c.read("", "cpu.stat"), "usage_usec")) * time.Microsecond
}

// PeakMemory returns the peak memory use in bytes, 0 if no group records it.
func (c Counters) PeakMemory() int64 {
	if c.level == V2 {
		return number(c.read("", "memory.peak"))
	}
	return number(c.read("memory", "memory.max_usage_in_bytes"))
}

// PeakProcesses returns the peak number of processes, including threads. It is 0 on kernels
// that do not record it.
func (c Counters) PeakProcesses() int {
	return int(number(c.read(c.limiting("pids"), "pids.peak")))
}

// processes returns the number of processes and threads in a group and its subgroups.
func (c Counters) processes() int {
	return int(number(c.read(c.limiting("pids"), "pids.current")))
}

func (c Counters) killedForMemory() bool {
	if c.level == V2 {
		return keyed(c.read("", "memory.events"), "oom_kill") > 0
	}
	return keyed(c.read("memory", "memory.oom_control"), "oom_kill") > 0
}

// RefusedProcesses returns the number of processes and threads that the kernel refused.
func (c Counters) RefusedProcesses() int64 {
	return keyed(c.read(c.limiting("pids"), "pids.events"), "max")
}
