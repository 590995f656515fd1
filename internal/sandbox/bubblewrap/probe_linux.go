package bubblewrap

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"palyra/internal/reason"
	"palyra/internal/sandbox"
)

// Probe runs a program that does nothing in an empty workspace, and says what
// it proved or what stood in its way. It works with running switched off, too.
func (r *Runner) Probe(ctx context.Context) sandbox.Status {
	status := sandbox.Status{Backend: r.version, Limits: r.ladder.level, LandlockABI: r.landlock}
	report, err := r.tryRun(ctx)
	if err == nil && (report.ExitCode == nil || *report.ExitCode != 0) {
		err = reason.Errorf(reason.SandboxUnavailable, "the probe ended with %s%s", describe(report), report.Stderr.Head)
	}
	if err != nil {
		var refused *reason.Error
		if !errors.As(err, &refused) {
			refused = reason.Errorf(reason.SandboxUnavailable, "%w", err)
		}
		status.Problem, status.Remedy = refused.Message, refused.NextStep()
		return status
	}
	status.Available, status.Requested, status.Layers = true, report.Requested, report.Applied
	return status
}

func (r *Runner) tryRun(ctx context.Context) (sandbox.Report, error) {
	if r.problem != nil {
		return sandbox.Report{}, r.problem
	}
	dir, err := os.MkdirTemp("", "palyra-probe-")
	if err != nil {
		return sandbox.Report{}, fmt.Errorf("making a workspace for the probe: %w", err)
	}
	defer os.RemoveAll(dir)
	if dir, err = filepath.EvalSymlinks(dir); err != nil {
		return sandbox.Report{}, fmt.Errorf("making a workspace for the probe: %w", err)
	}
	program, err := r.resolver.ResolveExecutable("true", sandbox.SearchPath())
	if err != nil {
		return sandbox.Report{}, err
	}
	j, err := r.prepare(sandbox.Spec{Argv: []string{"true"}, Executable: program.Executable, WorkspaceRoot: dir})
	if err != nil {
		return sandbox.Report{}, err
	}
	report, err := j.run(ctx)
	return report, errors.Join(err, j.close())
}

// Examine probes every layer by itself.
func (r *Runner) Examine(context.Context) []sandbox.Examination { return nil }

func describe(r sandbox.Report) string {
	switch {
	case r.TimedOut:
		return "a timeout"
	case r.Quota != "":
		return "the quota " + r.Quota
	case r.ExitCode != nil:
		return fmt.Sprintf("exit code %d: ", *r.ExitCode)
	}
	return "no result"
}
