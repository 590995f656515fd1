//go:build darwin || linux

package seatbelt

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"

	"palyra/internal/core/reason"
	"palyra/internal/exec/program/command"
	"palyra/internal/exec/sandbox"
)

// Probe runs a program without effects in an empty workspace, and reports the proven layers or
// the obstacle. It also works while running programs is disabled.
func (r *Runner) Probe(ctx context.Context) sandbox.Status {
	status := sandbox.Status{Backend: r.backend, Tier: sandbox.TierC, Rung: sandbox.Seatbelt, Limits: "rlimit"}
	report, err := r.try(ctx, false)
	return status.Tried(report, err)
}

// try runs /usr/bin/true. With open, it uses a profile that forbids nothing.
func (r *Runner) try(ctx context.Context, open bool) (sandbox.Report, error) {
	if r.problem != nil {
		return sandbox.Report{}, r.problem
	}
	dir, err := os.MkdirTemp(r.cfg.RunDir, "palyra-probe-")
	if err != nil {
		return sandbox.Report{}, fmt.Errorf("creating a workspace for the probe: %w", err)
	}
	defer os.RemoveAll(dir)
	if dir, err = filepath.EvalSymlinks(dir); err != nil {
		return sandbox.Report{}, fmt.Errorf("creating a workspace for the probe: %w", err)
	}
	program, err := r.resolver.ResolveExecutable("true", command.SearchPath())
	if err != nil {
		return sandbox.Report{}, err
	}
	report, err := r.run(ctx, sandbox.Spec{Argv: []string{"true"}, Executable: program.Executable, WorkspaceRoot: dir, Workspace: sandbox.Direct}, open)
	if err == nil && (report.ExitCode == nil || *report.ExitCode != 0) {
		err = reason.Errorf(reason.SandboxUnavailable, "the probe failed: %s", report.Stderr.Head)
	}
	return report, err
}

// tried describes the attempt for each layer of the profile.
var tried = []struct{ layer, what string }{
	{layerFiles, "reading and writing a file of the daemon"},
	{layerProtected, "creating a protected name in a workspace"},
	{layerNetwork, "connecting to a listener on the loopback interface"},
}

// Examine tries the actions that the profile forbids, once under that profile and once under a
// profile that forbids nothing.
func (r *Runner) Examine(ctx context.Context) []sandbox.Examination {
	with, err := r.try(ctx, false)
	without, openErr := r.try(ctx, true)
	list := make([]sandbox.Examination, 0, len(tried))
	for _, t := range tried {
		e := sandbox.Examination{
			Layer: t.layer, Detail: t.what,
			Denied:  err == nil && slices.Contains(with.Applied, t.layer),
			Control: openErr == nil && !slices.Contains(without.Applied, t.layer),
		}
		list = append(list, e.Judged(errors.Join(err, openErr), "Start palyrad outside of any other sandbox, on a macOS that has sandbox-exec."))
	}
	return list
}
