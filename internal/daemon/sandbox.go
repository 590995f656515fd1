package daemon

import (
	"context"
	"errors"
	"log/slog"
	"path/filepath"

	"palyra/internal/config"
	"palyra/internal/doctor"
	"palyra/internal/sandbox"
	"palyra/internal/sandbox/caches"
	"palyra/internal/sandbox/ladder"
	"palyra/internal/sandbox/places"
	"palyra/internal/workspace/overlay"
)

// isolation is what programs run in: a backend that works, or why there is none,
// the caches that they share, and what was replaced by what they changed.
type isolation struct {
	sandbox.Choice
	caches  *caches.Caches
	history overlay.History
}

// openSandbox finds the best sandbox that the settings allow. A machine without
// one still serves the other tools; process.run then says what is missing.
func openSandbox(ctx context.Context, g *gateway, _ Options) error {
	at, remove, err := places.Make(g.cfg.StateDir)
	if err != nil {
		return err
	}
	g.parts.add(func(context.Context) error { return remove() })
	at.Log = g.log
	if g.isolation.Choice, err = sandbox.Choose(ctx, ladder.Steps(g.cfg.ProcessRunner, at), ladder.Lowest(g.cfg.ProcessRunner)); err != nil {
		return err
	}
	g.parts.add(func(context.Context) error { return g.isolation.Backend.Close() })
	g.isolation.caches = caches.New(filepath.Join(g.cfg.StateDir, "cache"), g.cfg.ProcessRunner, g.log)
	g.isolation.history = overlay.History{Dir: at.Undo}
	if err := errors.Join(g.isolation.Backend.Sweep(ctx), places.Sweep(g.cfg.StateDir)); err != nil {
		g.log.WarnContext(ctx, "sweeping what an earlier run left", slog.String("error", err.Error()))
	}
	logIsolation(ctx, g.log, g.cfg.ProcessRunner, g.isolation.Choice)
	return nil
}

// logIsolation logs what programs get, so that less than asked for is never silent.
func logIsolation(ctx context.Context, log *slog.Logger, p config.ProcessRunner, chosen sandbox.Choice) {
	st := chosen.Status
	switch {
	case !p.Enabled:
	case !st.Available:
		log.WarnContext(ctx, "process.run is unavailable", slog.String("problem", st.Problem), slog.String("remedy", st.Remedy))
	case chosen.Lack != "":
		log.WarnContext(ctx, "programs run with less isolation than process_runner.tier asks for",
			slog.String("tier", string(st.Tier)), slog.String("rung", string(st.Rung)), slog.String("problem", chosen.Lack))
	default:
		log.InfoContext(ctx, "sandbox", slog.String("tier", string(st.Tier)), slog.String("rung", string(st.Rung)), slog.String("limits", st.Limits))
	}
	if p.Enabled && st.Available && doctor.Unconfined(p, st) {
		log.WarnContext(ctx, "hosts are allowed that nothing would hold programs to: calls that reach for them are refused", slog.String("rung", string(st.Rung)))
	}
}
