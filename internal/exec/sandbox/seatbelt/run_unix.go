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

// run starts sandbox-exec, judges what the helper found inside, bounds the run
// and leaves nothing of it behind.
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

// descriptors makes the pipes; the child's are at the numbers that the helper
// expects.
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

// stdin is a file without a name, so that a program may seek in it and nobody
// has to feed it.
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

// supervise waits for the first process to end and stops the run when it has
// to. It returns when the process is reaped and nobody attends any more.
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
		// The pipe has no other end now.
		Hurry: func() { _ = j.findings.SetReadDeadline(time.Now().Add(output.EOFWait)) },
		Look: func() sandbox.Quota {
			if t.look() > j.limits.Processes {
				return sandbox.QuotaProcesses
			}
			return ""
		},
	}.Wait(ctx)
}

// errNoReport means that the helper said nothing.
var errNoReport = errors.New("no report from inside")

// attend gives the helper its order, judges what it found, lets the program
// start, and waits until it has. An error means that it never did.
func (j *job) attend() error {
	defer j.word.Close()
	if err := json.NewEncoder(j.word).Encode(j.order); err != nil {
		return errNoReport
	}
	said := bufio.NewReader(j.findings)
	if err := receive(said, &j.seen); err != nil {
		return err
	}
	if unproved := j.judge(); len(unproved) > 0 && !j.open {
		return reason.Errorf(reason.SandboxUnavailable, "these layers are not in force inside: %s", strings.Join(unproved, ", ")).
			WithRemedy("Nothing ran. See `palyra status` for what this machine can do.")
	}
	if _, err := io.WriteString(j.word, goWord); err != nil {
		return errNoReport
	}
	// The pipe closes when the program takes the helper's place.
	if err := receive(said, &finding{}); !errors.Is(err, errNoReport) {
		return err
	}
	j.started = true
	return nil
}

// receive reads one finding; a failure that the helper tells is an error.
func receive(said *bufio.Reader, f *finding) error {
	line, err := said.ReadBytes('\n')
	if err != nil {
		return errNoReport
	}
	if err := json.Unmarshal(line, f); err != nil {
		return fmt.Errorf("reading the report from inside: %w", err)
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

// explain adds what sandbox-exec wrote when it ended before the helper could
// speak, such as a line of the profile that it does not know.
func (j *job) explain(err error, r sandbox.Report) error {
	if !errors.Is(err, errNoReport) {
		return err
	}
	said := strings.TrimSpace(string(r.Stderr.Head))
	const most = 300
	if len(said) > most {
		said = strings.ToValidUTF8(said[:most], "")
	}
	return reason.Errorf(reason.SandboxUnavailable, "the sandbox could not be built: %s", said).
		WithRemedy("sandbox-exec must not be started from inside another sandbox. See `palyra status`.")
}

// report puts together what is known of the run but its output and times.
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
