package jail

import (
	"context"
	"errors"
	"math"
	"os"
	"path"
	"slices"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"palyra/internal/core/reason"
	"palyra/internal/core/tool"
	"palyra/internal/exec/program/command"
	"palyra/internal/exec/sandbox"
	"palyra/internal/exec/sandbox/cgroup"
	"palyra/internal/exec/sandbox/output"
	"palyra/internal/exec/sandbox/supervise"
	"palyra/internal/exec/workspace/overlay"
)

// Run runs the Cell's one program to its end; see sandbox.Runner. When Run returns, no process
// of the sandbox is left.
func (c *Cell) Run(ctx context.Context, w Work) (sandbox.Report, error) {
	o, err := newOrder(c.machine, c.plan, c.files, w)
	if err != nil {
		return sandbox.Report{}, err
	}
	read := output.Start
	if w.Spec.Session != nil {
		read, w.Spec.Limits.Wall = output.Follow, math.MaxInt64
	}
	started := time.Now()
	if !w.Prepared {
		started = c.started
	}
	streams := read(c.session.scrubbed(w, c.stdout), c.session.scrubbed(w, c.stderr), w.Spec.Limits.Output, w.Spec.Output)
	end, state := c.supervise(ctx, w, o, streams)
	gone := errors.Join(c.Processes.End(), c.session.end(causeOf(end)))
	log, unwatched := c.calls.end()
	report := c.report(w, end, state)
	report.Stdout, report.Stderr = streams.Finish()
	report.Violations, report.ViolationsMissed = log.Violations, log.Missed
	report.Refusals, report.RefusalsMissed = log.Refusals, log.RefusalsMissed
	report.Connections, report.ConnectionsMissed = c.session.connections()
	report.Started, report.Finished = started, time.Now()
	report.Usage.Wall = report.Finished.Sub(started)
	report.Limits = report.LimitUses(c.limits(w), c.measured())
	switch {
	case gone != nil || unwatched != nil:
		return report, errors.Join(gone, unwatched)
	case end.Err != nil:
		return report, explain(end.Err, c.plan.Backend, report.Stderr.Head)
	case end.Cancelled:
		return report, reason.Errorf(reason.Cancelled, "the call was cancelled and its program stopped")
	}
	return report, nil
}

// known returns the part of the report that is known when the program has started.
func (c *Cell) known(w Work) sandbox.Report {
	r := sandbox.Report{
		Backend: c.plan.Backend, Tier: c.plan.Tier, Rung: c.plan.Rung, Requested: c.plan.Requested,
		Applied: c.evidence.applied, Downgrades: c.evidence.downgrades, Unpinned: c.evidence.unpinned, Started: c.started,
	}
	if c.evidence.report.Namespaces != nil {
		r.Isolation = c.evidence.isolation(w.Prepared, c.argumentsSHA)
	}
	return r
}

// wrote reports whether the program has written to its copy of the workspace.
func wrote(layer *overlay.Layer) func() (bool, error) {
	if layer == nil {
		return func() (bool, error) { return false, nil }
	}
	return layer.Touched
}

// report returns the report of the run without its output.
func (c *Cell) report(w Work, end supervise.Ending, state *os.ProcessState) sandbox.Report {
	r := c.known(w)
	r.TimedOut, r.Quota = end.TimedOut, end.Quota
	r.Usage = c.usage()
	if c.evidence.started {
		r.Layer, c.plan.Layer = c.plan.Layer, nil
	}
	if state != nil {
		// The kernel adds a child's time when its parent waits for it, which can be less.
		r.Usage.CPU = max(r.Usage.CPU, state.UserTime()+state.SystemTime())
	}
	if !c.evidence.started || !end.ByItself() || state == nil {
		return r
	}
	code := exitCode(state)
	r.ExitCode = &code
	if r.Quota = c.group.Verdict(code != 0); r.Quota == "" && c.overDisk() {
		r.Quota = sandbox.QuotaDisk
	}
	if signal := syscall.Signal(code - 128); code > 128 && unix.SignalName(signal) != "" {
		r.Signal = unix.SignalName(signal)
		switch signal {
		case unix.SIGXCPU:
			r.Quota = sandbox.QuotaCPU
		case unix.SIGXFSZ:
			r.Quota = sandbox.QuotaFileSize
		}
	}
	return r
}

// usage returns the use of the run's resources: as its control group counts it, or without one as
// it was measured.
func (c *Cell) usage() tool.Usage {
	use := c.group.Counters
	u := tool.Usage{CPU: use.CPU(), PeakMemory: use.PeakMemory(), Processes: use.PeakProcesses()}
	if c.memory != nil {
		u.CPU, u.PeakMemory, u.Processes = c.memory.cpu, c.memory.peak, c.memory.processes
	}
	return u
}

// limits returns the limits in force. Without control groups, each run gets a part of palyrad's own
// limits.
func (c *Cell) limits(w Work) sandbox.Limits {
	l, part := w.Spec.Limits, c.machine.room.part
	l.Memory, l.Processes = within(l.Memory, part.Memory), within(l.Processes, part.Processes)
	return l
}

// measured returns the measurements of the run's limits.
func (c *Cell) measured() sandbox.Measured {
	m := sandbox.Measured{Grouped: c.machine.Level() != cgroup.Rlimit, RefusedProcesses: c.group.Counters.RefusedProcesses()}
	if c.disk != nil {
		m.Disk, m.Files = c.disk.Used()
	}
	return m
}

// exitCode returns 128 plus the signal for a process that a signal killed, like bubblewrap and
// shells.
func exitCode(state *os.ProcessState) int {
	if status, ok := state.Sys().(syscall.WaitStatus); ok && status.Signaled() {
		return 128 + int(status.Signal())
	}
	return state.ExitCode()
}

// Visible maps the program of a call to its path inside. Programs are below /usr or one of
// SystemDirs, in a toolchain, or in the workspace, which is mounted at mount.
func Visible(s sandbox.Spec, mount string) (at string, inWorkspace bool, err error) {
	program := s.Executable.Path
	if rest, ok := strings.CutPrefix(program, s.WorkspaceRoot+"/"); ok {
		return path.Join(mount, rest), true, nil
	}
	if slices.ContainsFunc(s.Toolchains, func(t command.Toolchain) bool { return t.Holds(program) }) {
		return program, false, nil
	}
	for _, dir := range append([]string{"/usr"}, SystemDirs()...) {
		if strings.HasPrefix(program, dir+"/") {
			return program, false, nil
		}
	}
	return "", false, reason.Errorf(reason.ExecutableDenied, "the program %s is outside of /usr, the toolchains and the workspace, which are the only visible directories in the sandbox", program).
		WithRemedy("Install it below /usr (the distribution's package or /usr/local), or ask the operator to name its directory in process_runner.toolchains; `palyrad doctor` lists the toolchains that are found and skipped.")
}
