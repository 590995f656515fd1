package jail

import (
	"bytes"
	"context"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"palyra/internal/exec/sandbox"
	"palyra/internal/exec/sandbox/cgroup"
)

// Limits of the interval of a memoryMeter, and the assumed maximum growth of the memory of
// programs, in bytes per second.
const (
	memorySoonest = 20 * time.Millisecond
	memoryLatest  = 500 * time.Millisecond
	memoryRate    = 8 << 30
	// memoryShare limits the time spent measuring: 1 part in memoryShare.
	memoryShare = 20
)

// memoryMeter adds up the memory of a run's processes. It is used if no control group counts
// that memory: resource limits count reserved memory, and each process separately. It counts
// anonymous memory, and shared memory in proportion. It does not count pages of files, which the kernel can
// reclaim. It does not detect a memory file that no process has mapped.
type memoryMeter struct {
	// root is the process that all processes of the run descend from.
	root  int
	limit int64
	// peak, processes and cpu are the highest measured memory, number of processes and processor
	// time. They may be read after Watch has returned.
	peak      int64
	processes int
	cpu       time.Duration
}

// weigh starts to measure the memory of the run.
func (c *Cell) weigh() *memoryMeter {
	if c.machine.Level() != cgroup.Rlimit || c.machine.Without(LayerRlimits) {
		return nil
	}
	return &memoryMeter{root: c.Processes.first.Pid, limit: within(c.plan.Limits.Memory, c.machine.room.part.Memory)}
}

// Watch waits until the run exceeds its memory limit and returns sandbox.QuotaMemory. It returns
// "" when ctx ends.
func (m *memoryMeter) Watch(ctx context.Context) sandbox.Quota {
	timer := time.NewTimer(memorySoonest)
	defer timer.Stop()
	for {
		select {
		case <-ctx.Done():
			return ""
		case <-timer.C:
		}
		began := time.Now()
		used := m.used()
		m.peak = max(m.peak, used)
		if used > m.limit {
			return sandbox.QuotaMemory
		}
		timer.Reset(m.next(used, time.Since(began)))
	}
}

// next returns the time until the next measurement.
func (m *memoryMeter) next(used int64, took time.Duration) time.Duration {
	left := time.Duration(float64(m.limit-used) / memoryRate * float64(time.Second))
	return min(max(left, memorySoonest, memoryShare*took), memoryLatest)
}

// used returns the memory of the run, in bytes. Exact figures require a walk over the page
// tables, so they are read only if an upper bound exceeds the limit.
func (m *memoryMeter) used() int64 {
	processes := descendants(m.root)
	m.processes = max(m.processes, len(processes))
	var most, sum int64
	var spent time.Duration
	for _, pid := range processes {
		most += resident(pid)
		spent += processorTime(pid)
	}
	m.cpu = max(m.cpu, spent)
	if most <= m.limit {
		return most
	}
	for _, pid := range processes {
		sum += held(pid)
	}
	return sum
}

// descendants returns a process and all its descendants. A process whose parent ends becomes a
// child of the first process of the PID namespace, which descends from root.
func descendants(root int) []int {
	list := []int{root}
	for i := 0; i < len(list); i++ {
		threads, _ := filepath.Glob(proc(list[i], "task/*/children"))
		for _, name := range threads {
			text, _ := os.ReadFile(name)
			for _, field := range strings.Fields(string(text)) {
				if pid, err := strconv.Atoi(field); err == nil {
					list = append(list, pid)
				}
			}
		}
	}
	return list
}

func proc(pid int, name string) string { return "/proc/" + strconv.Itoa(pid) + "/" + name }

// resident returns the mapped memory of a process (proc_pid_statm(5)), 0 if it has ended.
func resident(pid int) int64 {
	text, _ := os.ReadFile(proc(pid, "statm"))
	fields := strings.Fields(string(text))
	if len(fields) < 2 {
		return 0
	}
	pages, _ := strconv.ParseInt(fields[1], 10, 64)
	return pages * int64(os.Getpagesize())
}

// processorTime returns the processor time of a process and of the children that it has waited for
// (proc_pid_stat(5), utime to cstime), 0 if it has ended.
func processorTime(pid int) time.Duration {
	const tick = time.Second / 100 // USER_HZ, the same on all architectures
	text, _ := os.ReadFile(proc(pid, "stat"))
	name := bytes.LastIndexByte(text, ')') // the name of the program may contain any character
	fields := strings.Fields(string(text[name+1:]))
	const utime, cstime = 11, 14
	if len(fields) <= cstime {
		return 0
	}
	var ticks int64
	for _, field := range fields[utime : cstime+1] {
		n, _ := strconv.ParseInt(field, 10, 64)
		ticks += n
	}
	return time.Duration(ticks) * tick
}

// held returns the process's share of anonymous and shared memory. If the shares cannot be read
// (proc_pid_smaps(5), smaps_rollup) it returns all mapped memory (proc_pid_status(5)).
func held(pid int) int64 {
	if text, err := os.ReadFile(proc(pid, "smaps_rollup")); err == nil && bytes.Contains(text, []byte("Pss_Anon:")) {
		return kilobytes(text, "Pss_Anon", "Pss_Shmem", "SwapPss")
	}
	text, _ := os.ReadFile(proc(pid, "status"))
	return kilobytes(text, "RssAnon", "RssShmem", "VmSwap")
}

// kilobytes returns the sum of the named lines, "Name: 12 kB", in bytes.
func kilobytes(text []byte, names ...string) (sum int64) {
	for line := range bytes.Lines(text) {
		name, value, _ := bytes.Cut(line, []byte(":"))
		for _, wanted := range names {
			if string(name) == wanted {
				n, _ := strconv.ParseInt(strings.TrimSuffix(strings.TrimSpace(string(value)), " kB"), 10, 64)
				sum += n << 10
			}
		}
	}
	return sum
}
