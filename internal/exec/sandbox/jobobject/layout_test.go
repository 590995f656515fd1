package jobobject

import (
	"testing"
	"time"
	"unsafe"

	"palyra/internal/exec/sandbox"
)

// Sizes and offsets equal the ones in winnt.h for 64-bit Windows.
func TestLayout(t *testing.T) {
	t.Parallel()
	var a accounting
	var p port
	var r rate
	for name, c := range map[string]struct{ got, want uintptr }{
		"accounting":                          {unsafe.Sizeof(a), 48},
		"accounting.TotalKernelTime":          {unsafe.Offsetof(a.TotalKernelTime), 8},
		"accounting.TotalPageFaultCount":      {unsafe.Offsetof(a.TotalPageFaultCount), 32},
		"accounting.TotalProcesses":           {unsafe.Offsetof(a.TotalProcesses), 36},
		"accounting.ActiveProcesses":          {unsafe.Offsetof(a.ActiveProcesses), 40},
		"accounting.TotalTerminatedProcesses": {unsafe.Offsetof(a.TotalTerminatedProcesses), 44},
		"port":                                {unsafe.Sizeof(p), 16},
		"port.Handle":                         {unsafe.Offsetof(p.Handle), 8},
		"rate":                                {unsafe.Sizeof(r), 8},
		"rate.Rate":                           {unsafe.Offsetof(r.Rate), 4},
	} {
		if c.got != c.want {
			t.Errorf("%s is %d, want %d", name, c.got, c.want)
		}
	}
}

func TestBounds(t *testing.T) {
	t.Parallel()
	b := boundsOf(sandbox.Limits{CPU: 3 * time.Second, Memory: 64 << 20, Processes: 9})
	if b != (bounds{flags: 0x270c, processes: 9, jobTime: 30_000_000, memory: 64 << 20}) {
		t.Errorf("the bounds are %+v", b)
	}
	const breakaway = 0x800 | 0x1000
	if b.flags&breakaway != 0 {
		t.Error("a process may leave the job")
	}
	if got := (accounting{TotalUserTime: 10_000_000, TotalKernelTime: 5_000_000}).cpu(); got != 1500*time.Millisecond {
		t.Errorf("processor time is %s", got)
	}
}

func TestQuotas(t *testing.T) {
	t.Parallel()
	for message, want := range map[uint32]sandbox.Quota{1: sandbox.QuotaCPU, 3: sandbox.QuotaProcesses, 9: sandbox.QuotaMemory, 10: sandbox.QuotaMemory, 4: "", 6: "", 7: "", 8: ""} {
		if got := quotaOf(message); got != want {
			t.Errorf("message %d is the quota %q, want %q", message, got, want)
		}
	}
}
