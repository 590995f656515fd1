package jobobject

import (
	"errors"
	"fmt"
	"sync"
	"time"
	"unsafe"

	"golang.org/x/sys/windows"

	"palyra/internal/exec/sandbox"
)

// JOB_OBJECT_CPU_RATE_CONTROL_ENABLE and _HARD_CAP.
const rateHardCap = 0x1 | 0x4

// mostRate reserves a tenth of the processors for the rest of the machine.
const mostRate = 9000

// uiRestrictions are all of JOB_OBJECT_UILIMIT_*: handles of other programs'
// windows, the clipboard, system parameters, display settings, global atoms,
// desktops, and ending the session.
const uiRestrictions = 0x000000ff

// stopKey is the completion key that ends the listener.
const stopKey = 1

// jobObject is a job with a listener for its messages.
type jobObject struct {
	handle, port windows.Handle
	// exceeded receives the first limit that is reached.
	exceeded chan sandbox.Quota
	listener sync.WaitGroup
	// refused contains the layers that the system refused to set, each with its error.
	refused map[string]error
}

// newJob creates a job with all its limits.
func newJob(b bounds) (*jobObject, error) {
	handle, err := windows.CreateJobObject(nil, nil)
	if err != nil {
		return nil, fmt.Errorf("CreateJobObject: %w", err)
	}
	j := &jobObject{handle: handle, exceeded: make(chan sandbox.Quota, 1), refused: map[string]error{}}
	if err := j.limit(b); err != nil {
		windows.CloseHandle(handle)
		return nil, err
	}
	if err := j.connect(); err != nil {
		windows.CloseHandle(handle)
		return nil, err
	}
	return j, nil
}

func (j *jobObject) limit(b bounds) error {
	var l windows.JOBOBJECT_EXTENDED_LIMIT_INFORMATION
	l.BasicLimitInformation.LimitFlags = b.flags
	l.BasicLimitInformation.ActiveProcessLimit = b.processes
	l.BasicLimitInformation.PerJobUserTimeLimit = b.jobTime
	l.JobMemoryLimit, l.ProcessMemoryLimit = uintptr(b.memory), uintptr(b.memory)
	if err := set(j.handle, windows.JobObjectExtendedLimitInformation, &l); err != nil {
		return fmt.Errorf("setting the limits of a job: %w", err)
	}
	if err := set(j.handle, windows.JobObjectBasicUIRestrictions, &windows.JOBOBJECT_BASIC_UI_RESTRICTIONS{UIRestrictionsClass: uiRestrictions}); err != nil {
		j.refused[layerUI] = err
	}
	if err := set(j.handle, windows.JobObjectCpuRateControlInformation, &rate{Flags: rateHardCap, Rate: mostRate}); err != nil {
		j.refused[layerRate] = err
	}
	return nil
}

// set and query pass a structure to the kernel.
func set[T any](job windows.Handle, class uint32, v *T) error {
	_, err := windows.SetInformationJobObject(job, class, uintptr(unsafe.Pointer(v)), uint32(unsafe.Sizeof(*v)))
	return err
}

func query[T any](job windows.Handle, class int32) (T, error) {
	var v T
	err := windows.QueryInformationJobObject(job, class, uintptr(unsafe.Pointer(&v)), uint32(unsafe.Sizeof(v)), nil)
	return v, err
}

// connect creates the completion port and starts to listen to it.
func (j *jobObject) connect() error {
	var err error
	if j.port, err = windows.CreateIoCompletionPort(windows.InvalidHandle, 0, 0, 1); err != nil {
		return fmt.Errorf("CreateIoCompletionPort: %w", err)
	}
	if err := set(j.handle, windows.JobObjectAssociateCompletionPortInformation, &port{Handle: uintptr(j.port)}); err != nil {
		windows.CloseHandle(j.port)
		return fmt.Errorf("connecting a job to its port: %w", err)
	}
	j.listener.Go(j.listen)
	return nil
}

func (j *jobObject) listen() {
	for {
		var message uint32
		var key uintptr
		var about *windows.Overlapped
		if err := windows.GetQueuedCompletionStatus(j.port, &message, &key, &about, windows.INFINITE); err != nil || key == stopKey {
			return
		}
		if quota := quotaOf(message); quota != "" {
			select {
			case j.exceeded <- quota:
			default: // only the first one is reported
			}
		}
	}
}

// holds reports whether the job has the requested limits.
func (j *jobObject) holds(b bounds) bool {
	l, err := query[windows.JOBOBJECT_EXTENDED_LIMIT_INFORMATION](j.handle, windows.JobObjectExtendedLimitInformation)
	basic := l.BasicLimitInformation
	return err == nil && basic.LimitFlags == b.flags && basic.ActiveProcessLimit == b.processes && basic.PerJobUserTimeLimit == b.jobTime &&
		uint64(l.JobMemoryLimit) == b.memory && uint64(l.ProcessMemoryLimit) == b.memory
}

// restrictsUI and capsRate read the other settings back.
func (j *jobObject) restrictsUI() bool {
	r, err := query[windows.JOBOBJECT_BASIC_UI_RESTRICTIONS](j.handle, windows.JobObjectBasicUIRestrictions)
	return err == nil && r.UIRestrictionsClass == uiRestrictions
}

func (j *jobObject) capsRate() bool {
	r, err := query[rate](j.handle, windows.JobObjectCpuRateControlInformation)
	return err == nil && r == rate{Flags: rateHardCap, Rate: mostRate}
}

// contains reports whether a process is in this job (IsProcessInJob).
func (j *jobObject) contains(process windows.Handle) bool {
	var in int32
	ok, _, _ := windows.NewLazySystemDLL("kernel32.dll").NewProc("IsProcessInJob").
		Call(uintptr(process), uintptr(j.handle), uintptr(unsafe.Pointer(&in)))
	return ok != 0 && in != 0
}

func (j *jobObject) accounting() accounting {
	a, err := query[accounting](j.handle, windows.JobObjectBasicAccountingInformation)
	if err != nil {
		return accounting{}
	}
	return a
}

// peakMemory returns the maximum committed memory of all processes, in bytes.
func (j *jobObject) peakMemory() int64 {
	l, err := query[windows.JOBOBJECT_EXTENDED_LIMIT_INFORMATION](j.handle, windows.JobObjectExtendedLimitInformation)
	if err != nil {
		return 0
	}
	return int64(l.PeakJobMemoryUsed)
}

// end kills all processes of the job and waits for their end.
func (j *jobObject) end() error {
	deadline := time.Now().Add(5 * time.Second)
	for wait := 50 * time.Microsecond; ; wait = min(2*wait, 10*time.Millisecond) {
		killed := windows.TerminateJobObject(j.handle, 1)
		a, err := query[accounting](j.handle, windows.JobObjectBasicAccountingInformation)
		if err == nil && a.ActiveProcesses == 0 {
			return nil
		}
		if time.Now().After(deadline) {
			return fmt.Errorf("processes of a run still exist: %w", errors.Join(killed, err))
		}
		time.Sleep(wait)
	}
}

// close ends the listener and the job, including its remaining processes.
func (j *jobObject) close() {
	_ = windows.PostQueuedCompletionStatus(j.port, 0, stopKey, nil)
	j.listener.Wait()
	windows.CloseHandle(j.port)
	windows.CloseHandle(j.handle)
}
