package daemon

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"slices"

	"palyra/internal/config"
	"palyra/internal/reason"
	"palyra/internal/sandbox"
	"palyra/internal/workspace/overlay"
)

// backend is a runner that somebody opens and closes.
type backend interface {
	sandbox.Runner
	// Sweep removes what a daemon that was killed left.
	Sweep(context.Context) error
	Close() error
}

// pooled is a backend that builds sandboxes before calls come.
type pooled interface {
	// Invalidate ends those that wait: what they were built for may have
	// changed.
	Invalidate()
}

// places are where a sandbox writes.
type places struct {
	// layers is for what runs write to their copies of workspaces.
	layers string
	// quarantine is for protected files that programs made in a workspace that
	// they wrote to directly.
	quarantine string
	// undo is for what commits replaced.
	undo string
	// log gets what goes wrong while connections are carried; nil means nowhere.
	log *slog.Logger
}

// box is the sandbox of this daemon: a backend that works, or why there is
// none.
type box struct {
	backend backend
	status  sandbox.Status
	// wanted is the rung that the settings ask for, and lack why the machine
	// does not have it; "" when it does.
	wanted  sandbox.Isolation
	lack    string
	caches  *caches
	history overlay.History
}

// runner is nil, and not a nil backend, when there is none.
func (b box) runner() sandbox.Runner {
	if b.backend == nil {
		return nil
	}
	return b.backend
}

// invalidate ends prepared sandboxes.
func (b box) invalidate() {
	if p, ok := b.backend.(pooled); ok {
		p.Invalidate()
	}
}

// lowered says that programs get less than the settings ask for, "" when not.
func (b box) lowered() string {
	if b.lack == "" || !b.status.Available {
		return ""
	}
	return fmt.Sprintf("programs run in Tier %s on the rung %s instead of %s: %s", b.status.Tier, b.status.Rung, b.wanted, b.lack)
}

// step is one backend of the ladder, best first.
type step struct {
	rung sandbox.Isolation
	open func() (backend, error)
}

// rungs of Linux, best first.
var rungs = []sandbox.Isolation{sandbox.Full, sandbox.UserNamespaces, sandbox.Landlocked}

// lowest is the rung below which nothing runs.
func lowest(p config.ProcessRunner) sandbox.Isolation {
	switch {
	case p.Fallback == config.FallbackLandlock:
		return sandbox.Landlocked
	case p.Fallback == config.FallbackUserNamespaces, p.Tier == config.TierB:
		return sandbox.UserNamespaces
	}
	return sandbox.Full
}

// reaches reports whether a rung is at or above another. The rungs of other
// systems are the only ones there.
func reaches(rung, low sandbox.Isolation) bool {
	at := slices.Index(rungs, rung)
	return at < 0 || at <= slices.Index(rungs, low)
}

// chooseBox opens the backends of the ladder until one works and reaches the
// lowest rung. Where none does, the first one's status says why, and nothing
// runs.
func chooseBox(ctx context.Context, steps []step, low sandbox.Isolation) (box, error) {
	chosen := box{wanted: steps[0].rung}
	for i, s := range steps {
		b, err := s.open()
		if err != nil {
			return box{}, fmt.Errorf("opening the sandbox: %w", err)
		}
		status := b.Probe(ctx)
		if status.Available && !reaches(status.Rung, low) {
			status = sandbox.Status{
				Backend: status.Backend, Tier: status.Tier, Rung: status.Rung, Limits: status.Limits,
				Problem: fmt.Sprintf("this machine gives no more than the rung %s, and process_runner.fallback does not allow it", status.Rung),
				Remedy:  "Let the user of palyrad make user namespaces, or set process_runner.fallback = \"landlock\".",
			}
		}
		if status.Available {
			if status.Rung == chosen.wanted {
				chosen.lack = ""
			} else if chosen.lack == "" {
				chosen.lack = "user namespaces are not available"
			}
			if chosen.backend != nil {
				err = chosen.backend.Close()
			}
			chosen.backend, chosen.status = b, status
			return chosen, err
		}
		if i == 0 {
			chosen.backend, chosen.status, chosen.lack = b, status, status.Problem
			continue
		}
		if err := b.Close(); err != nil {
			return box{}, fmt.Errorf("closing the sandbox: %w", err)
		}
	}
	return chosen, nil
}

// openSandbox finds the best sandbox that the settings allow. A machine without
// one still serves the other tools; process.run then says what is missing.
func (g *gateway) openSandbox(ctx context.Context) error {
	at, remove, err := makePlaces(g.cfg.StateDir)
	if err != nil {
		return err
	}
	g.parts.add(func(context.Context) error { return remove() })
	at.log = g.log
	if g.box, err = chooseBox(ctx, ladder(g.cfg, at), lowest(g.cfg.ProcessRunner)); err != nil {
		return err
	}
	g.parts.add(func(context.Context) error { return g.box.backend.Close() })
	g.box.caches, g.box.history = newCaches(g.cfg, g.log), overlay.History{Dir: at.undo}
	if err := errors.Join(g.box.backend.Sweep(ctx), sweepPlaces(g.cfg.StateDir)); err != nil {
		g.log.WarnContext(ctx, "sweeping what an earlier run left", slog.String("error", err.Error()))
	}
	g.sayBox(ctx)
	return nil
}

// sayBox logs what programs get, so that less than asked for is never silent.
func (g *gateway) sayBox(ctx context.Context) {
	st := g.box.status
	switch {
	case !g.cfg.ProcessRunner.Enabled:
	case !st.Available:
		g.log.WarnContext(ctx, "process.run is unavailable", slog.String("problem", st.Problem), slog.String("remedy", st.Remedy))
	case g.box.lack != "":
		g.log.WarnContext(ctx, "programs run with less isolation than process_runner.tier asks for",
			slog.String("tier", string(st.Tier)), slog.String("rung", string(st.Rung)), slog.String("problem", g.box.lack))
	default:
		g.log.InfoContext(ctx, "sandbox", slog.String("tier", string(st.Tier)), slog.String("rung", string(st.Rung)), slog.String("limits", st.Limits))
	}
	if g.cfg.ProcessRunner.Enabled && st.Available && unconfined(g.cfg.ProcessRunner, st) {
		g.log.WarnContext(ctx, "hosts are allowed that nothing would hold programs to: calls that reach for them are refused", slog.String("rung", string(st.Rung)))
	}
}

// recoverCommits brings workspaces to where a commit that a crash interrupted
// has happened, or has not. It comes before the first commit.
func (g *gateway) recoverCommits(ctx context.Context) error {
	roots := make(map[string]string, len(g.cfg.Workspaces))
	for _, w := range g.cfg.Workspaces {
		root, err := g.workspaces.Open(w.Name)
		if err != nil {
			return err
		}
		roots[w.Name] = root.Path()
		root.Close()
	}
	done, err := g.box.history.Recover(roots)
	for _, r := range done {
		g.log.WarnContext(ctx, "a commit was interrupted by the last stop", slog.String("workspace", r.Workspace),
			slog.String("changes", r.ID), slog.Bool("committed", r.Committed))
	}
	if err != nil {
		// Somebody changed the same files since: a person has to look at them,
		// and the gateway is needed meanwhile.
		g.log.ErrorContext(ctx, "a commit that the last stop interrupted could not be taken back whole", slog.String("error", err.Error()))
	}
	return nil
}

func layersDir(stateDir string) string { return filepath.Join(stateDir, "sandbox") }

// makePlaces makes the directories of this daemon's runs. Those of a daemon that
// was killed are told apart by their mark.
func makePlaces(stateDir string) (places, func() error, error) {
	at := places{
		layers: filepath.Join(layersDir(stateDir), mark()), quarantine: filepath.Join(stateDir, "quarantine"), undo: filepath.Join(stateDir, "undo"),
	}
	for _, dir := range []string{at.layers, at.quarantine, at.undo} {
		if err := os.MkdirAll(dir, 0o700); err != nil {
			return places{}, nil, reason.Errorf(reason.ConfigInvalid, "making a directory for sandboxes: %w", err).
				WithRemedy("Let the user that palyrad runs as write to %s.", stateDir)
		}
	}
	return at, func() error { return os.RemoveAll(at.layers) }, nil
}
