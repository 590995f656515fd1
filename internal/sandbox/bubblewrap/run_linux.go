package bubblewrap

import (
	"context"
	"errors"
	"fmt"
	"os"
	"runtime"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"palyra/internal/reason"
	"palyra/internal/sandbox"
	"palyra/internal/sandbox/inside"
	"palyra/internal/tool"
)

// eofWait is how long output is waited for once the program has ended: a
// descriptor of it may be held by something that never ends.
const eofWait = 250 * time.Millisecond

// ending is why a run was stopped; the first cause counts.
type ending struct {
	timedOut, cancelled bool
	quota               sandbox.Quota
	// err is a refusal: the program never started.
	err error
}

// streams reads both outputs of a run.
type streams struct {
	out, err *capture
	flooded  chan struct{}
	done     chan struct{}
}

// run starts the first process, judges what is read back, bounds the run and
// leaves nothing of it behind.
func (j *job) run(ctx context.Context) (sandbox.Report, error) {
	// The kernel kills the first process when the thread that started it
	// ends. Holding this thread until the process is gone makes that the same
	// as the end of the daemon.
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()

	started := time.Now()
	p, err := j.start()
	if err != nil {
		return sandbox.Report{}, reason.Errorf(reason.SandboxUnavailable, "starting bubblewrap: %w", err)
	}
	s := j.read()
	end, state := j.supervise(ctx, p, s)
	gone := j.verifyGone()
	j.finish(s)
	report := j.report(s, end, state)
	report.Started, report.Finished = started, time.Now()
	report.Usage.Wall = report.Finished.Sub(started)
	switch {
	case gone != nil:
		return report, gone
	case end.err != nil:
		return report, j.explain(end.err, report)
	case end.cancelled:
		return report, reason.Errorf(reason.Cancelled, "the call was cancelled and its program stopped")
	}
	return report, nil
}

func (j *job) start() (*os.Process, error) {
	sys := &syscall.SysProcAttr{Setsid: true, Pdeathsig: syscall.SIGKILL}
	if j.private {
		sys.Cloneflags = syscall.CLONE_NEWNS
	}
	if dir := j.group.dirs[""]; dir != "" {
		f, err := os.Open(dir)
		if err != nil {
			return nil, err
		}
		defer f.Close()
		sys.UseCgroupFD, sys.CgroupFD = true, int(f.Fd())
	}
	p, err := os.StartProcess(j.path, j.argv, &os.ProcAttr{Dir: "/", Env: []string{}, Files: j.child, Sys: sys})
	for fd, f := range j.child {
		if fd != inside.HelperFD {
			f.Close()
		}
	}
	j.child = nil
	return p, err
}

// read starts the two readers; s.done is closed when both have ended.
func (j *job) read() *streams {
	s := &streams{
		out: newCapture(j.limits.Output), err: newCapture(j.limits.Output),
		flooded: make(chan struct{}, 2), done: make(chan struct{}),
	}
	flooded := func() { s.flooded <- struct{}{} }
	limit := j.limits.Output * sandbox.OutputFactor
	var one sync.Mutex // Output gets one chunk at a time
	each := func(name string) func([]byte) {
		if j.spec.Output == nil {
			return nil
		}
		return func(chunk []byte) {
			one.Lock()
			defer one.Unlock()
			j.spec.Output(name, chunk)
		}
	}
	var readers sync.WaitGroup
	readers.Go(func() { _ = s.out.drain(j.stdout, limit, each("stdout"), flooded) })
	readers.Go(func() { _ = s.err.drain(j.stderr, limit, each("stderr"), flooded) })
	go func() {
		readers.Wait()
		close(s.done)
	}()
	return s
}

// finish waits for the rest of the output, for a while, and then for the
// readers.
func (j *job) finish(s *streams) {
	late := time.NewTimer(eofWait)
	defer late.Stop()
	select {
	case <-s.done:
		return
	case <-late.C:
	}
	j.stdout.Close()
	j.stderr.Close()
	<-s.done
}

// supervise waits for the first process to end and stops the run when it has
// to. It returns when the process is reaped and the gate's keeper has ended.
func (j *job) supervise(ctx context.Context, p *os.Process, s *streams) (ending, *os.ProcessState) {
	waited := make(chan *os.ProcessState, 1)
	go func() {
		state, _ := p.Wait()
		waited <- state
	}()
	attended := make(chan error, 1)
	go func() { attended <- j.attend() }()

	deadline := time.NewTimer(j.limits.Wall)
	defer deadline.Stop()
	watch := time.NewTicker(25 * time.Millisecond)
	defer watch.Stop()

	var end ending
	var state *os.ProcessState
	stop := func(why ending) {
		if end == (ending{}) {
			end = why
		}
		_ = p.Kill() // through a pidfd
		j.group.kill()
	}
	cancelled, gate := ctx.Done(), (<-chan error)(attended)
	for state == nil {
		select {
		case <-cancelled:
			cancelled = nil
			late := errors.Is(ctx.Err(), context.DeadlineExceeded)
			stop(ending{timedOut: late, cancelled: !late})
		case <-deadline.C:
			stop(ending{timedOut: true})
		case <-s.flooded:
			stop(ending{quota: sandbox.QuotaOutput})
		case <-watch.C:
			if quota := j.overQuota(); quota != "" {
				stop(ending{quota: quota})
			}
		case err := <-gate:
			gate = nil
			if err != nil {
				stop(ending{err: err})
			}
		case state = <-waited:
		}
	}
	if gate != nil {
		// The keeper's socket has no other end now, unless something inside
		// holds it.
		_ = j.control.SetReadDeadline(time.Now().Add(eofWait))
		if err := <-gate; err != nil && end == (ending{}) {
			end.err = err
		}
	}
	return end, state
}

func (j *job) overQuota() sandbox.Quota {
	if quota := j.group.exceeded(); quota != "" {
		return quota
	}
	if j.group.cpu() > j.limits.CPU {
		return sandbox.QuotaCPU
	}
	return ""
}

// verifyGone kills what may be left and waits until nothing is: the kernel
// tells the end of a pid namespace's first process only when all of its
// processes have ended.
func (j *job) verifyGone() error {
	j.group.kill()
	deadline := time.Now().Add(5 * time.Second)
	if j.seen.initFD != nil {
		fds := []unix.PollFd{{Fd: int32(j.seen.initFD.Fd()), Events: unix.POLLIN}}
		for time.Now().Before(deadline) {
			if n, err := unix.Poll(fds, 100); n > 0 && err == nil {
				break
			}
			_ = unix.PidfdSendSignal(int(fds[0].Fd), unix.SIGKILL, nil, 0)
		}
	}
	for wait := 50 * time.Microsecond; len(j.group.members()) > 0; wait = min(2*wait, 10*time.Millisecond) {
		if time.Now().After(deadline) {
			return fmt.Errorf("processes of the run %s are still there", j.group.name)
		}
		j.group.kill()
		time.Sleep(wait)
	}
	return nil
}

// report puts together what is known of the run.
func (j *job) report(s *streams, end ending, state *os.ProcessState) sandbox.Report {
	r := sandbox.Report{
		TimedOut: end.timedOut, Quota: end.quota,
		Stdout: s.out.stream(), Stderr: s.err.stream(),
		Backend: j.runner.version, Requested: requested(),
		Applied: j.seen.applied, Downgrades: j.seen.downgrades,
		Usage: tool.Usage{CPU: j.group.cpu(), PeakMemory: j.group.peakMemory(), Processes: j.group.peakProcesses()},
	}
	if j.seen.report.Namespaces != nil {
		r.Isolation = j.isolation()
	}
	if state != nil && r.Usage.CPU == 0 {
		r.Usage.CPU = state.UserTime() + state.SystemTime()
	}
	if !j.seen.started || end != (ending{}) || state == nil {
		return r
	}
	r.Quota = j.group.exceeded()
	code := state.ExitCode()
	r.ExitCode = &code
	// bubblewrap tells a death by signal as shells do.
	if signal := syscall.Signal(code - 128); code > 128 && unix.SignalName(signal) != "" {
		r.Signal = unix.SignalName(signal)
		switch {
		case signal == unix.SIGXCPU:
			r.Quota = sandbox.QuotaCPU
		case signal == unix.SIGXFSZ:
			r.Quota = sandbox.QuotaFileSize
		case signal == unix.SIGKILL && r.Quota == "" && j.group.cpu() > j.limits.CPU:
			r.Quota = sandbox.QuotaCPU
		}
	}
	return r
}
