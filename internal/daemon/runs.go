package daemon

import (
	"context"
	"log/slog"
	"slices"

	"palyra/internal/access"
	"palyra/internal/run"
	"palyra/internal/sqlite"
	"palyra/internal/tool"
)

// openRuns makes the manager of runs, and ends those that the last stop cut
// off.
func (g *gateway) openRuns(ctx context.Context) error {
	g.models = openModels(ctx, g.cfg.Models, g.log)
	tellSecrets(ctx, g.cfg.Secrets, g.log)
	cfg := run.Config{
		Calls: g.pipeline, Models: g.models.byName, Catalog: g.catalog, Store: sqlite.NewRuns(g.db), Approvals: g.desk, Log: g.log, Admit: g.quotas.admit,
		Limits: run.Limits{
			Budget:             run.Budget{Calls: g.cfg.MaxCallsPerRun, Tokens: g.cfg.Runs.MaxTokens, WallClock: g.cfg.Runs.MaxDuration},
			ActivePerPrincipal: g.cfg.Runs.MaxActivePerPrincipal, ParallelCalls: g.cfg.Runs.ParallelCalls,
		},
	}
	if len(g.cfg.Models) > 0 {
		cfg.DefaultModel = g.cfg.Models[0].Name
	}
	for _, w := range g.cfg.Workspaces {
		cfg.Workspaces = append(cfg.Workspaces, run.Workspace{Name: w.Name, ReadOnly: w.ReadOnly})
	}
	var err error
	if g.runs, err = run.New(cfg); err != nil {
		return err
	}
	closed, err := g.runs.CloseInterrupted(ctx)
	if closed > 0 {
		g.log.WarnContext(ctx, "runs were interrupted by the last stop; `palyra runs list` shows them", slog.Int("runs", closed))
	}
	return err
}

// catalog lists the tools that policy could ever let the caller call.
func (g *gateway) catalog(caller access.Caller) []tool.Descriptor {
	listed := make(map[string]bool)
	for _, entry := range g.engine.Current().Catalog(caller) {
		listed[entry.Tool] = true
	}
	return slices.DeleteFunc(slices.Clone(g.router.Descriptors()), func(d tool.Descriptor) bool { return !listed[d.Name] })
}
