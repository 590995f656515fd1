package jobobject

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"sync"
	"time"
	"unicode/utf16"
	"unsafe"

	"golang.org/x/sys/windows"

	"palyra/internal/core/reason"
	"palyra/internal/core/tool"
	"palyra/internal/exec/sandbox"
	"palyra/internal/exec/sandbox/output"
	"palyra/internal/exec/sandbox/supervise"
)

// run starts the program in its job, enforces its limits, and leaves none of its processes
// behind.
func (j *run) run(ctx context.Context) (sandbox.Report, error) {
	started := time.Now()
	if err := j.start(); err != nil {
		return sandbox.Report{}, err
	}
	reading := output.Start(j.stdout, j.stderr, j.limits.Output, j.spec.Output)
	var feeder sync.WaitGroup
	feeder.Go(j.feed)
	end := j.supervise(ctx, reading)
	report := j.report(end)
	gone := j.job.end()
	feeder.Wait()
	report.Stdout, report.Stderr = reading.Finish()
	report.Started, report.Finished = started, time.Now()
	report.Usage.Wall = report.Finished.Sub(started)
	report.Limits = report.LimitUses(j.limits, sandbox.Measured{Grouped: true})
	if gone != nil {
		return report, gone
	}
	if end.Cancelled {
		return report, reason.Errorf(reason.Cancelled, "the call was cancelled and its program stopped")
	}
	return report, nil
}

// start creates the process suspended, puts it into the job, verifies the layers, and resumes it.
func (j *run) start() error {
	if err := j.pipes(); err != nil {
		return fmt.Errorf("preparing the descriptors of a run: %w", err)
	}
	if err := j.create(); err != nil {
		return err
	}
	for _, f := range j.child {
		f.Close()
	}
	j.child = nil
	err := windows.AssignProcessToJobObject(j.job.handle, j.process.Process)
	if err != nil {
		_ = windows.TerminateProcess(j.process.Process, 1)
		return reason.Errorf(reason.SandboxUnavailable, "the program cannot be assigned to its job: %w", err)
	}
	if unproved := j.judge(); len(unproved) > 0 && !j.runner.tolerant {
		return errors.Join(reason.Errorf(reason.SandboxUnavailable, "these layers are not in force: %s", strings.Join(unproved, ", ")).
			WithRemedy("Nothing ran. See `palyra status` for the capabilities of this machine."), j.job.end())
	}
	if _, err := windows.ResumeThread(j.process.Thread); err != nil {
		return errors.Join(reason.Errorf(reason.SpawnFailed, "the program could not be started: %w", err), j.job.end())
	}
	return nil
}

// create creates the process, suspended. It inherits its three standard descriptors and no other
// handle.
func (j *run) create() error {
	attributes, err := windows.NewProcThreadAttributeList(1)
	if err != nil {
		return fmt.Errorf("preparing the start of a program: %w", err)
	}
	defer attributes.Delete()
	handles := make([]windows.Handle, 0, len(j.child))
	for _, f := range j.child {
		h := windows.Handle(f.Fd())
		if err := windows.SetHandleInformation(h, windows.HANDLE_FLAG_INHERIT, windows.HANDLE_FLAG_INHERIT); err != nil {
			return fmt.Errorf("preparing the descriptors of a program: %w", err)
		}
		handles = append(handles, h)
	}
	size := uintptr(len(handles)) * unsafe.Sizeof(handles[0])
	if err := attributes.Update(windows.PROC_THREAD_ATTRIBUTE_HANDLE_LIST, unsafe.Pointer(&handles[0]), size); err != nil {
		return fmt.Errorf("preparing the descriptors of a program: %w", err)
	}
	info := windows.StartupInfoEx{ProcThreadAttributeList: attributes.List()}
	info.Cb, info.Flags = uint32(unsafe.Sizeof(info)), windows.STARTF_USESTDHANDLES
	info.StdInput, info.StdOutput, info.StdErr = handles[0], handles[1], handles[2]
	program, line, dir, err := texts(j.spec.Executable.Path, windows.ComposeCommandLine(j.spec.Argv), j.cwd)
	if err != nil {
		return err
	}
	env := utf16.Encode([]rune(block(environment(j.environment(), j.runner.windows, j.home(), j.tmp()))))
	const flags = windows.CREATE_SUSPENDED | windows.CREATE_UNICODE_ENVIRONMENT | windows.EXTENDED_STARTUPINFO_PRESENT |
		windows.CREATE_NO_WINDOW | windows.CREATE_DEFAULT_ERROR_MODE
	if err := windows.CreateProcessAsUser(j.token, program, line, nil, nil, true, flags, &env[0], dir, &info.StartupInfo, &j.process); err != nil {
		return reason.Errorf(reason.SpawnFailed, "the program could not be started: %w", err)
	}
	return nil
}

func texts(program, line, dir string) (p, l, d *uint16, err error) {
	if p, err = windows.UTF16PtrFromString(program); err == nil {
		if l, err = windows.UTF16PtrFromString(line); err == nil {
			d, err = windows.UTF16PtrFromString(dir)
		}
	}
	if err != nil {
		err = reason.Errorf(reason.InvalidInput, "a path or an argument contains a NUL")
	}
	return p, l, d, err
}

// environment returns the variables of the call. It adds the variables of caches only for a
// program that may write to the caches.
func (j *run) environment() []string {
	env := append([]string{}, j.spec.Env...)
	if j.readOnly {
		return env
	}
	for _, cache := range j.spec.Caches {
		for _, pair := range cache.Env {
			env = append(env, strings.ReplaceAll(pair, sandbox.CacheMount+"/"+cache.Name, cache.Dir))
		}
	}
	return env
}

// supervise waits for the program to end and stops the job if necessary.
func (j *run) supervise(ctx context.Context, reading *output.Reading) supervise.Ending {
	ended := make(chan *os.ProcessState)
	go func() {
		defer close(ended)
		_, _ = windows.WaitForSingleObject(j.process.Process, windows.INFINITE)
	}()
	end, _ := supervise.Run{
		Wall: j.limits.Wall, Output: reading, Ended: ended, Exceeded: j.job.exceeded,
		Kill: func() { _ = windows.TerminateJobObject(j.job.handle, 1) },
		Look: func() sandbox.Quota {
			// The job's own limit does not count kernel time.
			if j.job.accounting().cpu() > j.limits.CPU {
				return sandbox.QuotaCPU
			}
			return ""
		},
	}.Wait(ctx)
	select {
	case quota := <-j.job.exceeded: // the message about a limit may arrive after the end of the program
		if end.ByItself() {
			end.Quota = quota
		}
	default:
	}
	return end
}

// report returns the report of the run without its output and times.
func (j *run) report(end supervise.Ending) sandbox.Report {
	mode := sandbox.Direct
	if j.readOnly {
		mode = sandbox.ReadOnly
	}
	used := j.job.accounting()
	r := sandbox.Report{
		TimedOut: end.TimedOut, Quota: end.Quota,
		Tier: sandbox.TierB, Rung: sandbox.JobObject, Backend: j.runner.backend,
		Requested: requested(j.readOnly), Applied: j.applied, Downgrades: j.downgrades,
		Isolation: tool.Isolation{Measured: tool.Measured{LimitsBy: "job_object", Kernel: j.runner.kernel, Rung: string(sandbox.JobObject), Workspace: string(mode)}},
		Usage:     tool.Usage{CPU: used.cpu(), PeakMemory: j.job.peakMemory(), Processes: int(used.TotalProcesses)},
	}
	if !end.ByItself() {
		return r
	}
	var code uint32
	if windows.GetExitCodeProcess(j.process.Process, &code) == nil {
		exit := int(code)
		r.ExitCode = &exit
	}
	return r
}
