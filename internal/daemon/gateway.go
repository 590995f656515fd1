package daemon

import (
	"context"
	"fmt"

	palyrav1 "palyra/gen/palyra/v1"
	"palyra/internal/access"
	"palyra/internal/approval"
	"palyra/internal/rpc"
	"palyra/internal/version"
)

var _ rpc.Gateway = (*gateway)(nil)

// Problems says why the gateway is not ready.
func (g *gateway) Problems(context.Context) []string {
	var problems []string
	if err := g.db.Healthy(); err != nil {
		problems = append(problems, "the journal cannot be written: "+err.Error())
		// A write that succeeds again makes the gateway ready again.
		if g.db.Probe() == nil {
			problems = nil
		}
	}
	return problems
}

// Status is what operators ask of the gateway.
func (g *gateway) Status(ctx context.Context) (rpc.Status, error) {
	set := g.engine.Current()
	s := rpc.Status{
		Version: version.Get().Version, StartedAt: g.startedAt, GatewayID: g.journal.Gateway(),
		PolicyVersion: set.Version(), SnapshotDigest: set.SnapshotDigest(),
		JournalSize: g.journal.Head().Seq, Freeze: g.freezeState(ctx), CallsInFlight: g.router.InFlight(),
		Sandbox: g.sandboxStatus(), Notices: g.notices(),
	}
	checkpoint, err := g.journal.Latest(ctx)
	if err != nil {
		return s, fmt.Errorf("reading the last checkpoint: %w", err)
	}
	s.LastCheckpointSize = checkpoint.Size
	counts := g.desk.Counts()
	s.PendingApprovals, s.LiveGrants = counts.Pending, counts.Grants
	for _, w := range g.cfg.Workspaces {
		s.Workspaces = append(s.Workspaces, &palyrav1.WorkspaceStatus{Name: w.Name, Path: w.Path, ReadOnly: w.ReadOnly})
	}
	return s, nil
}

// notices are what an operator should know about the settings.
func (g *gateway) notices() []string {
	var list []string
	if g.cfg.AllowSensitiveTools {
		list = append(list, "allow_sensitive_tools is true: sensitive tools run without asking anybody")
	}
	users := 0
	for _, m := range g.registry.List() {
		if m.Principal.Kind == access.KindUser && !m.Disabled {
			users++
		}
	}
	if users == 1 {
		list = append(list, "one user exists, who may approve their own calls; add a second with `palyrad operator add`")
	}
	if len(g.cfg.Workspaces) == 0 {
		list = append(list, "no workspace is declared: file tools and process.run have nothing to work in; add [[workspaces]] to palyra.toml")
	}
	return list
}

func (g *gateway) sandboxStatus() *palyrav1.SandboxStatus {
	st := g.sandbox
	return &palyrav1.SandboxStatus{
		Available: st.Available, Backend: st.Backend, LimitsBy: st.Limits, Layers: st.Layers, Problem: st.Problem, Remedy: st.Remedy,
	}
}

// Freeze makes the stop durable, then stops what runs. New calls are refused
// from before the first of the two: a freeze that cannot be recorded still
// stops.
func (g *gateway) Freeze(ctx context.Context, by access.Caller, why string) (rpc.FreezeState, int, error) {
	stopped := g.router.Freeze()
	if err := g.desk.Freeze(ctx, by, why); err != nil {
		return rpc.FreezeState{}, stopped, fmt.Errorf("calls are stopped, but the freeze was not recorded: %w", err)
	}
	return g.freezeState(ctx), stopped, nil
}

// Thaw lets calls run again once that is durable.
func (g *gateway) Thaw(ctx context.Context, by access.Caller) (rpc.FreezeState, error) {
	if err := g.desk.Thaw(ctx, by); err != nil {
		return rpc.FreezeState{}, err
	}
	g.router.Thaw()
	return g.freezeState(ctx), nil
}

func (g *gateway) freezeState(ctx context.Context) rpc.FreezeState {
	state, frozen := g.desk.Frozen(ctx)
	if !frozen {
		return rpc.FreezeState{Frozen: g.router.Frozen()}
	}
	return freezeOf(state)
}

func freezeOf(s approval.FreezeState) rpc.FreezeState {
	return rpc.FreezeState{Frozen: true, Reason: s.Reason, By: s.By.String(), At: s.At}
}
