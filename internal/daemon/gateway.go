package daemon

import (
	"context"
	"fmt"
	"log/slog"
	"strings"
	"time"

	palyrav1 "palyra/gen/palyra/v1"
	"palyra/internal/access"
	"palyra/internal/approval"
	"palyra/internal/rpc"
	"palyra/internal/version"
)

var _ rpc.Gateway = (*gateway)(nil)

// Problems says why the gateway is not ready. It only reads what is known:
// anybody may ask, any number of times. mend tries the disk.
func (g *gateway) Problems(context.Context) []string { return problemsOf(g.db) }

// disk is the store as far as its health goes.
type disk interface {
	Healthy() error
	Probe() error
}

func problemsOf(store disk) []string {
	if err := store.Healthy(); err != nil {
		return []string{"the journal cannot be written: " + err.Error()}
	}
	return nil
}

// How often a store that cannot be written is tried: the wait doubles from
// the shortest to the longest.
const (
	shortestMend = time.Second
	longestMend  = 30 * time.Second
)

// mend makes the gateway ready again once a write succeeds. Calls that are
// proposed meanwhile try the disk as well.
func mend(ctx context.Context, log *slog.Logger, store disk) error {
	wait := shortestMend
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(wait):
		}
		if store.Healthy() == nil {
			wait = shortestMend
			continue
		}
		if err := store.Probe(); err != nil {
			wait = min(2*wait, longestMend)
			log.WarnContext(ctx, "the journal cannot be written", slog.String("error", err.Error()), slog.Duration("next_try", wait))
			continue
		}
		wait = shortestMend
		log.InfoContext(ctx, "the journal can be written again")
	}
}

// Status is what operators ask of the gateway.
func (g *gateway) Status(ctx context.Context) (rpc.Status, error) {
	set := g.engine.Current()
	s := rpc.Status{
		Version: version.Get().Version, StartedAt: g.startedAt, GatewayID: g.journal.Gateway(),
		PolicyVersion: set.Version(), SnapshotDigest: set.SnapshotDigest(),
		JournalSize: g.journal.Head().Seq, Freeze: g.freezeState(ctx), CallsInFlight: g.router.InFlight(),
		Sandbox: g.sandboxStatus(), Notices: g.notices(), ActiveRuns: g.runs.Active(), Models: g.models.status,
	}
	checkpoint, err := g.journal.Latest(ctx)
	if err != nil {
		return s, fmt.Errorf("reading the last checkpoint: %w", err)
	}
	s.LastCheckpointSize = checkpoint.Size
	counts := g.desk.Counts()
	s.PendingApprovals, s.LiveGrants = counts.Pending, counts.Grants
	s.Workspaces = g.workspaceStatus()
	return s, nil
}

func (g *gateway) workspaceStatus() []*palyrav1.WorkspaceStatus {
	var all []*palyrav1.WorkspaceStatus
	for _, w := range g.cfg.Workspaces {
		all = append(all, &palyrav1.WorkspaceStatus{Name: w.Name, Path: w.Path, ReadOnly: w.ReadOnly, Mode: w.WorkspaceMode()})
	}
	return all
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
	if text := g.box.lowered(); text != "" {
		list = append(list, text)
	}
	if text := reserveNotice(g.db.Reserve()); text != "" {
		list = append(list, text)
	}
	for _, m := range g.models.status {
		if !m.GetAvailable() {
			list = append(list, "model "+m.GetName()+" is unavailable: "+m.GetProblem()+"; "+m.GetRemedy())
		}
	}
	list = append(list, g.policies.notices()...)
	if names := g.policies.Suspended(); len(names) > 0 {
		list = append(list, "suspended, because their changed definition does not fit the policies: "+strings.Join(names, ", ")+
			"; see `palyra policy check`, correct the policy, then `palyra policy reload`")
	}
	return list
}

func (g *gateway) sandboxStatus() *palyrav1.SandboxStatus {
	st := g.box.status
	s := &palyrav1.SandboxStatus{
		Available: st.Available, Backend: st.Backend, LimitsBy: st.Limits, Layers: st.Layers, Problem: st.Problem, Remedy: st.Remedy,
		Tier: string(st.Tier), Rung: string(st.Rung), MissingLayers: without(st.Requested, st.Layers), LandlockAbi: int32(st.LandlockABI),
	}
	if _, ok := g.box.backend.(pooled); ok && st.Available {
		s.Prepared = int32(g.cfg.ProcessRunner.Prepared)
	}
	return s
}

// Freeze makes the stop durable, then stops what runs. New calls are refused
// from before the first of the two: a freeze that cannot be recorded still
// stops.
func (g *gateway) Freeze(ctx context.Context, by access.Caller, why string) (rpc.FreezeState, int, error) {
	stopped := g.router.Freeze()
	g.box.invalidate()
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
	g.box.invalidate()
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
