//go:build linux

package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"slices"
	"strings"

	"palyra/internal/exec/program/command"
	"palyra/internal/exec/sandbox"
	"palyra/internal/exec/sandbox/bubblewrap"
	"palyra/internal/exec/sandbox/process"
)

// confined is /bin/true in a sandbox, without a daemon.
type confined struct {
	runner interface {
		sandbox.Runner
		Close() error
	}
	spec sandbox.Spec
}

// once runs the program once.
func (c confined) once(ctx context.Context) error {
	report, err := c.runner.Run(ctx, c.spec)
	if report.Layer != nil {
		err = errors.Join(err, report.Layer.Close())
	}
	if err == nil && (report.ExitCode == nil || *report.ExitCode != 0) {
		err = fmt.Errorf("the program did not end well: %s", report.Stderr.Head)
	}
	return err
}

// proves runs the program once and checks that the sandbox has the required isolation: a weaker one
// would be faster.
func (c confined) proves(ctx context.Context, rung sandbox.Isolation, layers ...string) error {
	report, err := c.runner.Run(ctx, c.spec)
	if report.Layer != nil {
		err = errors.Join(err, report.Layer.Close())
	}
	if err != nil {
		return err
	}
	for _, layer := range layers {
		if !slices.Contains(report.Applied, layer) {
			return fmt.Errorf("this machine has no %s: %s", layer, strings.Join(report.Downgrades, "; "))
		}
	}
	if report.Rung != rung {
		return fmt.Errorf("this machine gives the rung %s and not %s", report.Rung, rung)
	}
	return nil
}

// spec returns the Spec of /bin/true in a new workspace.
func (b *bench) spec(mode sandbox.WorkspaceMode) (sandbox.Spec, error) {
	root, err := b.path("workspace")
	if err != nil {
		return sandbox.Spec{}, err
	}
	program, err := command.ResolveExecutable("/bin/true", nil)
	return sandbox.Spec{
		Argv: []string{"/bin/true"}, Executable: program.Executable, WorkspaceRoot: root, WorkspaceName: "bench", Workspace: mode, Owner: "user:bench",
	}, err
}

// tierC returns Tier C with a number of prepared sandboxes, and checks all of its layers.
func (b *bench) tierC(ctx context.Context, mode sandbox.WorkspaceMode, prepared int) (confined, error) {
	spec, err := b.spec(mode)
	if err != nil {
		return confined{}, err
	}
	layers, err := b.path("layers")
	if err != nil {
		return confined{}, err
	}
	runner, err := bubblewrap.New(bubblewrap.Config{Enabled: true, LayerDir: layers, Prepared: prepared})
	if err != nil {
		return confined{}, err
	}
	c := confined{runner, spec}
	if err := c.proves(ctx, sandbox.Full, "user_namespace", "network_namespace", "seccomp", "landlock", sandbox.ControlGroup); err != nil {
		return c, errors.Join(err, runner.Close())
	}
	return c, nil
}

// tierB returns Tier B with one kind of isolation.
func (b *bench) tierB(ctx context.Context, rung sandbox.Isolation) (confined, error) {
	spec, err := b.spec(sandbox.ReadOnly)
	if err != nil {
		return confined{}, err
	}
	cfg := process.Config{Enabled: true, Lowest: rung}
	if rung == sandbox.Landlocked {
		cfg.Without = []string{"user_namespace"}
	}
	// Without its own mounts the program traverses the directories above the workspace as another
	// user, who has no access to the harness' directories.
	if spec.WorkspaceRoot, err = os.MkdirTemp("", "palyra-bench-"); err != nil {
		return confined{}, err
	}
	if err := os.Chmod(spec.WorkspaceRoot, 0o755); err != nil { //nolint:gosec // an empty directory
		return confined{}, err
	}
	runner, err := process.New(cfg)
	if err != nil {
		return confined{}, errors.Join(err, os.Remove(spec.WorkspaceRoot))
	}
	c := confined{runner, spec}
	if err := c.proves(ctx, rung, "seccomp", "landlock", sandbox.ControlGroup); err != nil {
		return c, errors.Join(err, runner.Close(), os.Remove(spec.WorkspaceRoot))
	}
	return c, nil
}

// bubblewrapFloor checks that bubblewrap works on this machine, and returns the floor.
func bubblewrapFloor() (func() error, error) {
	bwrap, err := exec.LookPath("bwrap")
	if err != nil {
		return nil, fmt.Errorf("bubblewrap is not installed (%w); run `make deps-bench`", err)
	}
	raw := func() error { return rawBubblewrap(bwrap) }
	if err := raw(); err != nil {
		return nil, fmt.Errorf("bubblewrap does not run here: %w", err)
	}
	return raw, nil
}

// tierCAlone is goal 4: Tier C without a daemon, compared with bubblewrap alone.
func tierCAlone(ctx context.Context, b *bench) (_ []*line, err error) {
	raw, err := bubblewrapFloor()
	if err != nil {
		return nil, err
	}
	plain, err := b.tierC(ctx, sandbox.ReadOnly, 0)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, plain.runner.Close()) }()
	layered, err := b.tierC(ctx, sandbox.CopyOnWrite, 0)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, layered.runner.Close()) }()
	ready, err := b.tierC(ctx, sandbox.CopyOnWrite, 1)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, ready.runner.Close()) }()

	const floor = "raw bwrap p50"
	cold := &line{goal: "4", what: "sandbox alone, Tier C cold, p50", floorName: floor, unit: "us", limit: atMost(1.4)}
	copied := &line{goal: "4", what: "sandbox alone, Tier C cold with copy-on-write workspace, p50", floorName: floor, unit: "us", limit: atMost(1.9)}
	warm := &line{goal: "4", what: "sandbox alone, Tier C prepared with copy-on-write workspace, p50", floorName: floor, unit: "us"}
	return []*line{cold, copied, warm}, b.each(ctx, func() error {
		p, err := inTurns(b.size.sandboxes, 0, raw,
			func() error { return plain.once(ctx) }, func() error { return layered.once(ctx) })
		if err != nil {
			return err
		}
		cold.add(p[0], p[1])
		copied.add(p[0], p[2])
		if p, err = inTurns(b.size.sandboxes, b.size.refill, raw, func() error { return ready.once(ctx) }); err != nil {
			return err
		}
		warm.add(p[0], p[1])
		return nil
	})
}

// sandboxExec measures `palyrad sandbox exec` as a whole process, compared with bubblewrap alone.
func sandboxExec(ctx context.Context, b *bench) ([]*line, error) {
	raw, err := bubblewrapFloor()
	if err != nil {
		return nil, err
	}
	l := &line{goal: "4", what: "palyrad sandbox exec --read-only, p50", floorName: "raw bwrap p50", unit: "us", limit: atMost(5)}
	once := func() error {
		return run(exec.CommandContext(ctx, b.palyrad, "sandbox", "exec", "--read-only", "--", "/bin/true"))
	}
	return []*line{l}, b.each(ctx, func() error {
		p, err := inTurns(b.size.sandboxes, 0, raw, once)
		if err == nil {
			l.add(p[0], p[1])
		}
		return err
	})
}

// tierBAlone is goal 5: Tier B without a daemon, compared with a plain start of the same program.
func tierBAlone(ctx context.Context, b *bench) (_ []*line, err error) {
	const floor = "fork+exec of /bin/true p50"
	lines := []*line{
		{goal: "5", what: "sandbox alone, Tier B with Landlock and seccomp, p50", floorName: floor, unit: "us", limit: atMost(3)},
		{goal: "5", what: "sandbox alone, Tier B with user namespaces as well, p50", floorName: floor, unit: "us"},
	}
	for i, rung := range []sandbox.Isolation{sandbox.Landlocked, sandbox.UserNamespaces} {
		c, err := b.tierB(ctx, rung)
		if err != nil {
			return nil, err
		}
		err = b.each(ctx, func() error {
			p, err := inTurns(b.size.sandboxes, 0, forkAndExec, func() error { return c.once(ctx) })
			if err == nil {
				lines[i].add(p[0], p[1])
			}
			return err
		})
		if err := errors.Join(err, c.runner.Close(), os.RemoveAll(c.spec.WorkspaceRoot)); err != nil {
			return nil, err
		}
	}
	return lines, nil
}

// forkAndExec starts /bin/true with fork and exec.
func forkAndExec() error {
	cmd := exec.Command("/bin/true")
	cmd.Env = []string{}
	return cmd.Run()
}

// governedTierC is goal 3: a call of process.run through the daemon, with the default number of
// prepared sandboxes, and with none.
func governedTierC(ctx context.Context, b *bench) (_ []*line, err error) {
	raw, err := bubblewrapFloor()
	if err != nil {
		return nil, err
	}
	const floor = "raw bwrap p50"
	lines := []*line{
		{goal: "3", what: "governed Tier C call, prepared, p50", floorName: floor, unit: "us", limit: atMost(0.6)},
		{goal: "3", what: "governed Tier C call, cold, p50", floorName: floor, unit: "us"},
	}
	for i, tables := range []string{"", "[process_runner]\nprepared = 0\n"} {
		if err := b.governed(ctx, lines[i], raw, tables); err != nil {
			return nil, err
		}
	}
	return lines, nil
}

// governed measures calls of a daemon with given settings.
func (b *bench) governed(ctx context.Context, l *line, raw func() error, tables string) (err error) {
	g, c, err := b.running(unasked, tables)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, g.stop()) }()
	call := func() error { return c.call(ctx, "process.run", `{"argv":["true"]}`) }
	if err := call(); err != nil {
		return err
	}
	return b.each(ctx, func() error {
		p, err := inTurns(b.size.sandboxes, b.size.refill, raw, call)
		if err == nil {
			l.add(p[0], p[1])
		}
		return err
	})
}
