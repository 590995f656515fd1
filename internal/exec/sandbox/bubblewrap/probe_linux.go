package bubblewrap

import (
	"context"

	"palyra/internal/exec/sandbox"
	"palyra/internal/exec/sandbox/jail"
)

// Probe runs a program that does nothing in an empty workspace, and says what
// it proved or what stood in its way. It works with running switched off, too.
func (r *Runner) Probe(ctx context.Context) sandbox.Status {
	status := r.machine.Status(sandbox.TierC, sandbox.Full, r.version)
	report, err := r.try(ctx)
	return status.Tried(report, err)
}

func (r *Runner) try(ctx context.Context) (sandbox.Report, error) {
	if r.problem != nil {
		return sandbox.Report{}, r.problem
	}
	return jail.Try(ctx, r.machine, func(ctx context.Context, s sandbox.Spec) (sandbox.Report, error) {
		if r.cfg.LayerDir != "" {
			s.Workspace = sandbox.CopyOnWrite
		}
		return r.run(ctx, s, nil)
	})
}

// Examine probes every layer by itself; see sandbox.Runner.
func (r *Runner) Examine(ctx context.Context) []sandbox.Examination {
	if r.problem != nil {
		return []sandbox.Examination{{Problem: r.problem.Message, Remedy: r.problem.NextStep()}}
	}
	asked := append([]string{jail.LayerNetwork, jail.AllowedHosts}, layers...)
	if r.cfg.LayerDir != "" {
		asked = append(asked, jail.LayerCopy)
	}
	return r.machine.Examine(ctx, asked, func(ctx context.Context, without []string, s sandbox.Spec, attempt []string) (sandbox.Report, error) {
		v := *r
		v.machine, v.pool, v.stray = r.machine.Variant(without...), &pool{}, true
		return v.run(ctx, s, attempt)
	})
}
