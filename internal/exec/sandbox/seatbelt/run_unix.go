//go:build darwin || linux

package seatbelt

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"palyra/internal/core/reason"
	"palyra/internal/core/tool"
	"palyra/internal/exec/sandbox"
	"palyra/internal/exec/sandbox/output"
	"palyra/internal/exec/sandbox/supervise"
)

// run starts sandbox-exec, checks the findings of the helper, enforces the limits and leaves no
// process behind.
func (j *job) run(ctx context.Context) (sandbox.Report, error) {
	if err := j.descriptors(); err != nil {
		return sandbox.Report{}, fmt.Errorf("preparing the descriptors of a run: %w", err)
	}
	started := time.Now()
	p, err := j.start()
	if err != nil {
		return sandbox.Report{}, reason.Errorf(reason.SandboxUnavailable, "starting %s: %w", j.runner.exec, err)
	}
	t, err := j.runner.follow(p.Pid)
	if err != nil {
		_ = p.Kill()
		_, _ = p.Wait()
		return sandbox.Report{}, reason.Errorf(reason.SandboxUnavailable, "following the processes of a run: %w", err)
	}
	defer t.close()
	reading := output.Start(j.stdout, j.stderr, j.limits.Output, j.spec.Output)
	end, state := j.supervise(ctx, p, t, reading)
	gone := t.kill()
	report := j.report(end, state)
	report.Stdout, report.Stderr = reading.Finish()
	report.Started, report.Finished = started, time.Now()
	report.Usage.Wall = report.Finished.Sub(started)
	report.Limits = report.LimitUses(j.limits, sandbox.Measured{})
	switch {
	case gone != nil:
		return report, gone
	case end.Err != nil:
		return report, j.explain(end.Err, report)
	case end.Cancelled:
		return report, reason.Errorf(reason.Cancelled, "the call was cancelled and its program stopped")
	}
	return report, nil
}

// descriptors creates the pipes; the child's ends have the numbers that the helper expects.
func (j *job) descriptors() error {
	stdin, err := j.stdin()
	if err != nil {
		return err
	}
	j.child = []*os.File{stdin, nil, nil, nil, nil}
	for _, p := range []struct {
		mine **os.File
		fd   int
	}{{&j.stdout, 1}, {&j.stderr, 2}, {&j.findings, reportFD}} {
		if *p.mine, j.child[p.fd], err = os.Pipe(); err != nil {
			return err
		}
	}
	j.child[wordFD], j.word, err = os.Pipe()
	return err
}

// stdin returns an unnamed file, so that a program may seek in it and the daemon need not write
// to it during the run.
func (j *job) stdin() (*os.File, error) {
	if j.spec.Stdin == nil {
		return os.Open(os.DevNull)
	}
	f, err := os.CreateTemp(j.base, "stdin-")
	if err != nil {
		return nil, err
	}
	_, err = f.Write(j.spec.Stdin)
	if err == nil {
		_, err = f.Seek(0, io.SeekStart)
	}
	if err = errors.Join(err, os.Remove(f.Name())); err != nil {
		f.Close()
		return nil, err
	}
	return f, nil
}

func (j *job) start() (*os.Process, error) {
	p, err := os.StartProcess(j.runner.exec, j.args, &os.ProcAttr{
		Dir: "/", Env: []string{}, Files: j.child, Sys: &syscall.SysProcAttr{Setsid: true},
	})
	for _, f := range j.child {
		f.Close()
	}
	j.child = nil
	return p, err
}

// supervise waits for the first process to end and stops the run if necessary. It returns after
// the process was reaped and attend has ended.
func (j *job) supervise(ctx context.Context, p *os.Process, t tree, reading *output.Reading) (supervise.Ending, *os.ProcessState) {
	ended := make(chan *os.ProcessState, 1)
	go func() {
		state, _ := p.Wait()
		ended <- state
	}()
	attended := make(chan error, 1)
	go func() { attended <- j.attend() }()
	return supervise.Run{
		Wall: j.limits.Wall, Output: reading, Ended: ended, Attended: attended,
		Kill: func() {
			_ = p.Kill()
			_ = t.kill()
		},
		// The other end of the pipe is closed now.
		Hurry: func() { _ = j.findings.SetReadDeadline(time.Now().Add(output.EOFWait)) },
		Look: func() sandbox.Quota {
			if t.look() > j.limits.Processes {
				return sandbox.QuotaProcesses
			}
			return ""
		},
	}.Wait(ctx)
}

// errNoReport reports that the helper sent no report.
var errNoReport = errors.New("the sandbox helper sent no report")

// attend sends the order to the helper, checks its findings, lets the program start, and waits
// until it has started. An error means that the program did not start.
func (j *job) attend() error {
	defer j.word.Close()
	if err := json.NewEncoder(j.word).Encode(j.order); err != nil {
		return errNoReport
	}
	reader := bufio.NewReader(j.findings)
	if err := receive(reader, &j.seen); err != nil {
		return err
	}
	if unproved := j.judge(); len(unproved) > 0 && !j.open {
		return reason.Errorf(reason.SandboxUnavailable, "these layers are not in force inside: %s", strings.Join(unproved, ", ")).
			WithRemedy("Nothing ran. See `palyra status` for the capabilities of this machine.")
	}
	if _, err := io.WriteString(j.word, goWord); err != nil {
		return errNoReport
	}
	// The pipe closes when the program replaces the helper.
	if err := receive(reader, &finding{}); !errors.Is(err, errNoReport) {
		return err
	}
	j.started = true
	return nil
}

// receive reads one finding; a failure reported by the helper is returned as an error.
func receive(reader *bufio.Reader, f *finding) error {
	line, err := reader.ReadBytes('\n')
	if err != nil {
		return errNoReport
	}
	if err := json.Unmarshal(line, f); err != nil {
		return fmt.Errorf("reading the report of the sandbox helper: %w", err)
	}
	switch f.Failed {
	case "":
		return nil
	case stepExec:
		return reason.Errorf(reason.SpawnFailed, "the program could not be started: %s", f.Error)
	case stepProgram:
		return reason.Errorf(reason.BindingMismatch, "the program changed between the check and its start")
	case stepWorkspace:
		return reason.Errorf(reason.WorkspaceScope, "the workspace changed while the sandbox was built: %s", f.Error)
	}
	return reason.Errorf(reason.SandboxUnavailable, "%s failed: %s", f.Failed, f.Error)
}

// explain adds the output of sandbox-exec if it ended before the helper could send a report, for
// example because of an unknown line in the profile.
func (j *job) explain(err error, r sandbox.Report) error {
	if !errors.Is(err, errNoReport) {
		return err
	}
	reader := strings.TrimSpace(string(r.Stderr.Head))
	const most = 300
	if len(reader) > most {
		reader = strings.ToValidUTF8(reader[:most], "")
	}
	return reason.Errorf(reason.SandboxUnavailable, "the sandbox could not be built: %s", reader).
		WithRemedy("sandbox-exec must not be started from inside another sandbox. See `palyra status`.")
}

// report returns the report of the run without its output and times.
func (j *job) report(end supervise.Ending, state *os.ProcessState) sandbox.Report {
	r := sandbox.Report{
		TimedOut: end.TimedOut, Quota: end.Quota,
		Tier: sandbox.TierC, Rung: sandbox.Seatbelt, Backend: j.runner.backend,
		Requested: requested(j.network()), Applied: j.applied, Downgrades: j.downgrades,
	}
	if j.seen.Rlimits != nil {
		r.Isolation = tool.Isolation{
			Measured: tool.Measured{
				UID: j.seen.UID, GID: j.seen.GID, LimitsBy: "rlimit",
				Kernel: j.runner.kernel, Rung: string(sandbox.Seatbelt), Workspace: string(j.mode()),
			},
			Rlimits: j.seen.Rlimits, HelperSHA: j.runner.helperSHA, ArgumentsSHA: digest(j.args...), BackendSHA: j.runner.execSHA,
		}
	}
	if state == nil {
		return r
	}
	r.Usage = tool.Usage{CPU: state.UserTime() + state.SystemTime()}
	if u, ok := state.SysUsage().(*syscall.Rusage); ok {
		r.Usage.PeakMemory = peakMemory(u)
	}
	if !j.started || !end.ByItself() {
		return r
	}
	code := state.ExitCode()
	if status, ok := state.Sys().(syscall.WaitStatus); ok && status.Signaled() {
		code = 128 + int(status.Signal())
		r.Signal = unix.SignalName(status.Signal())
		switch status.Signal() {
		case unix.SIGXCPU:
			r.Quota = sandbox.QuotaCPU
		case unix.SIGXFSZ:
			r.Quota = sandbox.QuotaFileSize
		}
	}
	r.ExitCode = &code
	return r
}
