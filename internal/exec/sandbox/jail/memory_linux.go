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

// Bounds of how often a memoryMeter looks, and how fast programs take memory at most, in bytes a
// second.
const (
	memorySoonest = 20 * time.Millisecond
	memoryLatest  = 500 * time.Millisecond
	memoryRate    = 8 << 30
	// memoryShare bounds the time that looking takes: one part in so many.
	memoryShare = 20
)

// memoryMeter adds up what the processes of a run hold, where no control group counts it:
// RLIMIT_DATA bounds each of them, and not all together. It counts anonymous and shared memory,
// what several hold in parts, and not pages of files, which the kernel takes back. A file
// of memory that no process has mapped is not seen.
type memoryMeter struct {
	// root is the process that all processes of the run descend from.
	root  int
	limit int64
}

// weigh begins to add up the memory of the run.
func (c *Cell) weigh() *memoryMeter {
	if c.machine.Level() != cgroup.Rlimit || c.machine.Without(LayerRlimits) {
		return nil
	}
	return &memoryMeter{root: c.process.Pid, limit: within(c.plan.Limits.Memory, c.machine.part.Memory)}
}

// Watch waits until the run holds more than it may and returns sandbox.QuotaMemory. It returns ""
// when ctx is done.
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
		if used > m.limit {
			return sandbox.QuotaMemory
		}
		timer.Reset(m.next(used, time.Since(began)))
	}
}

// next is how long to wait for the next look.
func (m *memoryMeter) next(used int64, took time.Duration) time.Duration {
	left := time.Duration(float64(m.limit-used) / memoryRate * float64(time.Second))
	return min(max(left, memorySoonest, memoryShare*took), memoryLatest)
}

// used is what the run holds, in bytes. Exact figures cost a walk over the page tables, so that
// they are looked up only where an upper bound is beyond the limit.
func (m *memoryMeter) used() int64 {
	processes := descendants(m.root)
	var most, sum int64
	for _, pid := range processes {
		most += resident(pid)
	}
	if most <= m.limit {
		return most
	}
	for _, pid := range processes {
		sum += held(pid)
	}
	return sum
}

// descendants are a process and all that descend from it. One whose parent ends becomes a child
// of the first process of the PID namespace, which descends from root.
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

// resident is how much memory of whatever kind a process has mapped (proc_pid_statm(5)), 0 for one
// that has ended.
func resident(pid int) int64 {
	text, _ := os.ReadFile(proc(pid, "statm"))
	fields := strings.Fields(string(text))
	if len(fields) < 2 {
		return 0
	}
	pages, _ := strconv.ParseInt(fields[1], 10, 64)
	return pages * int64(os.Getpagesize())
}

// held is the process's part of anonymous and shared memory. Where the parts cannot be read
// (proc_pid_smaps(5), smaps_rollup) it is all that is mapped (proc_pid_status(5)).
func held(pid int) int64 {
	if text, err := os.ReadFile(proc(pid, "smaps_rollup")); err == nil && bytes.Contains(text, []byte("Pss_Anon:")) {
		return kilobytes(text, "Pss_Anon", "Pss_Shmem", "SwapPss")
	}
	text, _ := os.ReadFile(proc(pid, "status"))
	return kilobytes(text, "RssAnon", "RssShmem", "VmSwap")
}

// kilobytes is the sum of the named lines, "Name:   12 kB", in bytes.
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
