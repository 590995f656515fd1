package jobobject

import (
	"math"
	"time"

	"palyra/internal/exec/sandbox"
)

// Structures of winnt.h that golang.org/x/sys lacks. Their layout is the same on amd64 and arm64.

// accounting is JOBOBJECT_BASIC_ACCOUNTING_INFORMATION; times are in units of
// 100 ns.
type accounting struct {
	TotalUserTime             int64
	TotalKernelTime           int64
	ThisPeriodTotalUserTime   int64
	ThisPeriodTotalKernelTime int64
	TotalPageFaultCount       uint32
	TotalProcesses            uint32
	ActiveProcesses           uint32
	TotalTerminatedProcesses  uint32
}

func (a accounting) cpu() time.Duration {
	return time.Duration(a.TotalUserTime+a.TotalKernelTime) * tick
}

// port is JOBOBJECT_ASSOCIATE_COMPLETION_PORT.
type port struct {
	Key    uintptr
	Handle uintptr
}

// rate is JOBOBJECT_CPU_RATE_CONTROL_INFORMATION; Rate is in hundredths of a
// percent of all processors.
type rate struct {
	Flags uint32
	Rate  uint32
}

// tick is the unit of times in job objects.
const tick = 100 * time.Nanosecond

// Limit flags of JOBOBJECT_BASIC_LIMIT_INFORMATION. The breakaway flags are not set: no process
// may leave the job.
const (
	limitJobTime       = 0x00000004
	limitProcesses     = 0x00000008
	limitProcessMemory = 0x00000100
	limitJobMemory     = 0x00000200
	limitDieOnFault    = 0x00000400
	limitKillOnClose   = 0x00002000
	limitFlags         = limitJobTime | limitProcesses | limitProcessMemory | limitJobMemory | limitDieOnFault | limitKillOnClose
)

// Messages that a job sends to its completion port.
const (
	messageEndOfJobTime       = 1
	messageActiveProcessLimit = 3
	messageProcessMemory      = 9
	messageJobMemory          = 10
)

// quotaOf returns the limit of a message, "" for none.
func quotaOf(message uint32) sandbox.Quota {
	switch message {
	case messageEndOfJobTime:
		return sandbox.QuotaCPU
	case messageActiveProcessLimit:
		return sandbox.QuotaProcesses
	case messageProcessMemory, messageJobMemory:
		return sandbox.QuotaMemory
	}
	return ""
}

// bounds are the values of a job's limits.
type bounds struct {
	flags     uint32
	processes uint32
	// jobTime is user time over all processes, in ticks.
	jobTime int64
	// memory is the commit limit of one process and of all of them, in bytes.
	memory uint64
}

func boundsOf(l sandbox.Limits) bounds {
	return bounds{
		flags: limitFlags, processes: uint32(min(int64(l.Processes), math.MaxUint32)),
		jobTime: int64(l.CPU / tick), memory: uint64(l.Memory),
	}
}
