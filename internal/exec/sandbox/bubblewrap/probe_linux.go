package bubblewrap

import (
	"context"

	"palyra/internal/exec/sandbox"
	"palyra/internal/exec/sandbox/jail"
)

// Probe runs a program without effects in an empty workspace, and reports the proven layers or
// the obstacle. It also works while running programs is disabled.
func (r *Runner) Probe(ctx context.Context) sandbox.Status {
	report, err := r.try(ctx)
	version, _ := r.bwrap.identity()
	status := r.machine.Status(sandbox.TierC, sandbox.Full, version)
	return status.Tried(report, err)
}

func (r *Runner) try(ctx context.Context) (sandbox.Report, error) {
	if problem := r.obstacle(); problem != nil {
		return sandbox.Report{}, problem
	}
	return jail.Try(ctx, r.machine, func(ctx context.Context, s sandbox.Spec) (sandbox.Report, error) {
		if r.cfg.LayerDir != "" {
			s.Workspace = sandbox.CopyOnWrite
		}
		return r.run(ctx, s, nil)
	})
}

// Examine probes every layer individually; see sandbox.Runner.
func (r *Runner) Examine(ctx context.Context) []sandbox.Examination {
	if problem := r.obstacle(); problem != nil {
		return []sandbox.Examination{{Problem: problem.Message, Remedy: problem.NextStep()}}
	}
	requested := append([]string{jail.LayerNetwork, jail.AllowedHosts}, layers...)
	if r.cfg.LayerDir != "" {
		requested = append(requested, jail.LayerCopy)
	}
	return r.machine.Examine(ctx, requested, func(ctx context.Context, without []string, s sandbox.Spec, attempt []string) (sandbox.Report, error) {
		v := *r
		v.machine, v.pool, v.stray = r.machine.Variant(without...), &pool{}, true
		return v.run(ctx, s, attempt)
	})
}
