package ladder

import (
	"context"

	"palyra/internal/core/config"
	"palyra/internal/exec/sandbox"
	"palyra/internal/exec/sandbox/bubblewrap"
	"palyra/internal/exec/sandbox/cgroup"
	"palyra/internal/exec/sandbox/cgroup/scope"
	"palyra/internal/exec/sandbox/places"
	"palyra/internal/exec/sandbox/process"
)

// Steps returns the backends of Linux that the settings allow, best first.
func Steps(p config.ProcessRunner, at places.Places) []sandbox.Step {
	tierC := sandbox.Step{Rung: sandbox.Full, Open: func() (sandbox.Backend, error) {
		c := bubblewrap.Config{
			Enabled: p.Enabled, FirstUser: p.UIDBase, Users: p.UIDCount, UserRecord: at.UserRecord, Prepared: p.Prepared, StrictExec: p.StrictExec,
			LayerDir: at.Layers, QuarantineDir: at.Quarantine, Room: room(p),
		}
		c.Outward.Log = at.Log
		return bubblewrap.New(c)
	}}
	tierB := sandbox.Step{Rung: sandbox.UserNamespaces, Open: func() (sandbox.Backend, error) {
		c := process.Config{
			Enabled: p.Enabled, Lowest: Lowest(p), FirstUser: p.UIDBase, Users: p.UIDCount, UserRecord: at.UserRecord, StrictExec: p.StrictExec,
			LayerDir: at.Layers, QuarantineDir: at.Quarantine, Room: room(p),
		}
		c.Outward.Log = at.Log
		return process.New(c)
	}}
	switch {
	case p.Tier == config.TierB:
		return []sandbox.Step{tierB}
	case p.Fallback != config.FallbackNone:
		return []sandbox.Step{tierC, tierB}
	}
	return []sandbox.Step{tierC}
}

// Settle moves the calling process to a control group in which groups for programs can be
// created, if necessary into a systemd scope. After an error the process is in its original group
// or in that scope, and limits apply per process.
func Settle(ctx context.Context) error {
	return cgroup.Settle(func(slice string) error { return scope.Ask(ctx, slice) })
}

// Foresee returns the expected effect of Settle without performing it. It returns how the
// calling process would obtain control groups for programs, or the error that prevents it. how
// is "" if the process needs no control groups.
func Foresee(ctx context.Context) (how string, err error) {
	return cgroup.Foresee(func() error { return scope.Reachable(ctx) })
}

// room returns the configured limits of all runs together.
func room(p config.ProcessRunner) sandbox.Room {
	return sandbox.Room{
		Reserve:    sandbox.Reserve{Processes: p.ReserveProcesses, Memory: p.ReserveMemoryBytes},
		Concurrent: p.MaxConcurrent,
		Each:       sandbox.Limits{Processes: p.MaxProcesses, Memory: p.MemoryLimitBytes},
	}
}
