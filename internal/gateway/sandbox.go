package gateway

import (
	"context"
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"strings"

	"palyra/internal/core/config"
	"palyra/internal/core/reason"
	"palyra/internal/core/statedir"
	"palyra/internal/core/version"
	"palyra/internal/exec/sandbox"
	"palyra/internal/exec/sandbox/author"
	"palyra/internal/exec/sandbox/caches"
	"palyra/internal/exec/sandbox/ladder"
	"palyra/internal/exec/sandbox/places"
	"palyra/internal/exec/sandbox/toolchain"
	"palyra/internal/exec/wasm"
	"palyra/internal/exec/wasm/guest"
	"palyra/internal/exec/wasm/module"
	"palyra/internal/exec/workspace/overlay"
	"palyra/internal/gateway/doctor"
)

// isolation holds the sandbox of programs: a working backend or the reason why none works, the
// shared caches, and the log of replaced changes.
type isolation struct {
	sandbox.Choice
	// watch is the chosen backend, whose status follows the machine.
	watch  *sandbox.Watch
	caches *caches.Caches
	// toolchains are the programs installed outside the system directories.
	toolchains *toolchain.Toolchains
	author     *author.Author
	history    overlay.History
}

// runner returns the sandbox of programs, or nil if none was chosen.
func (i isolation) runner() sandbox.Runner {
	if i.watch == nil {
		return nil
	}
	return i.watch
}

// degraded lists the configured features that are currently unavailable.
func (i isolation) degraded(p config.ProcessRunner) []string {
	st := i.watch.Status()
	if !p.Enabled || st.Available {
		return nil
	}
	return []string{"programs cannot run: " + st.Problem}
}

// openSandbox selects the best sandbox that the settings allow. A machine without one still serves
// the other tools; process.run then reports the missing feature.
func openSandbox(ctx context.Context, g *gateway, _ Options) error {
	at, remove, err := places.Make(g.cfg.StateDir)
	if err != nil {
		return err
	}
	g.parts.add(func(context.Context) error { return remove() })
	at.Log = g.log
	if g.cfg.ProcessRunner.Enabled {
		if err := ladder.Settle(ctx); err != nil {
			g.log.WarnContext(ctx, "no control groups can be made for programs: their limits hold per process",
				slog.String("error", err.Error()), slog.String("remedy", "Run palyrad as a systemd unit with Delegate=yes; docs/operations.md has more."))
		}
	}
	if g.isolation.Choice, err = sandbox.Choose(ctx, ladder.Steps(g.cfg.ProcessRunner, at), ladder.Lowest(g.cfg.ProcessRunner)); err != nil {
		return err
	}
	g.isolation.watch = g.isolation.Watch(g.log)
	g.parts.add(func(context.Context) error { return g.isolation.Backend.Close() })
	g.isolation.caches = caches.New(filepath.Join(g.cfg.StateDir, "cache"), g.cfg.ProcessRunner, g.log)
	tools := toolchain.For(g.cfg, g.isolation.Status.Tier)
	g.isolation.toolchains, g.isolation.author = toolchain.New(tools), author.New(tools.Home)
	logToolchains(ctx, g.log, g.isolation.toolchains.Now())
	g.isolation.history = overlay.History{Dir: at.Undo}
	if err := errors.Join(g.isolation.Backend.Sweep(ctx), places.Sweep(g.cfg.StateDir), places.SweepTemporary(os.TempDir())); err != nil {
		g.log.WarnContext(ctx, "sweeping what an earlier run left", slog.String("error", err.Error()))
	}
	logIsolation(ctx, g.log, g.cfg.ProcessRunner, g.isolation.Choice)
	return nil
}

// logToolchains logs the toolchains found and omitted. An omitted toolchain that the
// configuration names is a warning.
func logToolchains(ctx context.Context, log *slog.Logger, found toolchain.Found) {
	for _, t := range found.Toolchains {
		log.InfoContext(ctx, "programs are looked for in a toolchain, too", slog.String("toolchain", strings.Join(t.Bins, ":")))
	}
	for _, l := range found.Left {
		level := slog.LevelInfo
		if l.Asked {
			level = slog.LevelWarn
		}
		log.Log(ctx, level, "a toolchain is left out", slog.String("toolchain", l.Dir), slog.String("problem", "it "+l.Why))
	}
}

// openNetwork reports whether programs run with the network of the machine.
func openNetwork(p config.ProcessRunner) bool {
	return p.Enabled && p.EgressEnforcementMode == config.EgressUnrestricted
}

// asPrograms returns the sandbox status for programs: if no programs may run, it names no tier.
func asPrograms(p config.ProcessRunner, probed sandbox.Status) sandbox.Status {
	if p.Enabled {
		return probed
	}
	off := reason.Lookup(reason.SandboxDisabled)
	return sandbox.Status{Problem: strings.TrimSuffix(off.Sentence, "."), Remedy: off.Remedy}
}

// logIsolation logs the isolation of programs, so that a level below the configured one is never
// silent.
func logIsolation(ctx context.Context, log *slog.Logger, p config.ProcessRunner, chosen sandbox.Choice) {
	st := chosen.Status
	switch {
	case !p.Enabled:
	case !st.Available:
		log.WarnContext(ctx, "process.run is unavailable", slog.String("problem", st.Problem), slog.String("layer", st.Layer), slog.String("file", st.File), slog.String("remedy", st.Remedy))
	case chosen.Lack != "":
		log.WarnContext(ctx, "programs run with less isolation than process_runner.tier asks for",
			slog.String("tier", string(st.Tier)), slog.String("rung", string(st.Rung)), slog.String("problem", chosen.Lack))
	default:
		log.InfoContext(ctx, "sandbox", slog.String("tier", string(st.Tier)), slog.String("rung", string(st.Rung)), slog.String("limits", st.Limits))
	}
	if openNetwork(p) {
		log.WarnContext(ctx, "programs have the network of the machine (process_runner.egress_enforcement_mode), and their connections are not restricted",
			slog.String("remedy", "Set it to \"strict\", or permit context.egress.mode == \"none\" by a policy; the default policies deny such calls."))
	}
	if p.Enabled && st.Available && st.Tight != "" {
		log.WarnContext(ctx, "programs at their limits do not fit in addition to palyrad", slog.String("problem", st.Tight), slog.String("remedy", doctor.MoreRoom))
	}
	if p.Enabled && st.Available && doctor.Unconfined(p, st) {
		log.WarnContext(ctx, "hosts are allowed that nothing would hold programs to: calls that reach for them are refused", slog.String("rung", string(st.Rung)))
	}
}

// guests holds the runtime of WebAssembly guests (Tier A), or the reason why it is disabled.
type guests struct {
	runner  *wasm.OnDemand
	problem *reason.Error
}

// openGuests creates Tier A, which opens when its worker and Tier C are available. No other part
// depends on it.
func openGuests(_ context.Context, g *gateway, _ Options) error {
	if !g.cfg.WASM.Enabled {
		g.guests.problem = reason.Errorf(reason.SandboxDisabled, "wasm_runtime.enabled is false").WithRemedy("Set it to true.")
		return nil
	}
	tierC := func() sandbox.Runner {
		if st := g.isolation.watch.Status(); !st.Available || st.Tier != sandbox.TierC {
			return nil
		}
		return g.isolation.runner()
	}
	runner := wasm.NewOnDemand(wasm.Config{
		Worker: wasmWorker(g.cfg), Dir: statedir.Compiled(g.cfg.StateDir), Workers: g.cfg.WASM.MaxConcurrent, Log: g.log, Limits: guestLimits(g.cfg.WASM),
	}, tierC)
	g.guests.runner = runner
	g.parts.add(func(context.Context) error { runner.Close(); return nil })
	_ = runner.Ready() // a problem is logged, and each call attempts again
	return nil
}

// wasmWorker returns the path of the worker's program.
func wasmWorker(cfg *config.Config) string {
	if cfg.WASM.Worker != "" {
		return cfg.WASM.Worker
	}
	return besidePalyrad(wasm.Worker)
}

// probeGuests tests whether a worker starts in a sandbox, and returns its engine.
func probeGuests(ctx context.Context, cfg *config.Config, tierC sandbox.Runner, dir string) (engine string, err error) {
	runner, err := wasm.Open(wasm.Config{Sandbox: tierC, Worker: wasmWorker(cfg), Dir: dir, Log: slog.New(slog.DiscardHandler)})
	if err != nil {
		return "", err
	}
	defer runner.Close()
	return runner.Probe(ctx)
}

// besidePalyrad returns the path of a program in the directory of palyrad.
func besidePalyrad(name string) string {
	own, err := os.Executable()
	if err != nil {
		return name
	}
	return filepath.Join(filepath.Dir(own), name)
}

// ready returns the reason why no guest can run.
func (g guests) ready() error {
	if g.problem != nil {
		return g.problem
	}
	return g.runner.Ready()
}

func (g guests) canRun() bool { return g.ready() == nil }

// inline returns the tool wasm.run under the settings.
func (g guests) inline(c config.WASMRuntime) wasm.Inline {
	return wasm.Inline{
		Guests: g.runner, Ready: g.ready, FuelCeiling: uint64(c.FuelCeiling), ModuleBytes: c.MaxModuleBytes, Version: version.Get().Version,
		Limits: guestLimits(c), Modules: &module.Known{},
	}
}

// guestLimits returns the default limits of a guest.
func guestLimits(c config.WASMRuntime) guest.Limits {
	return guest.Limits{
		Fuel: uint64(c.FuelBudget), MemoryBytes: c.MaxMemoryBytes, TableElements: c.MaxTableElements, Wall: c.TimeLimit(), Output: int(c.MaxOutputBytes),
	}
}
