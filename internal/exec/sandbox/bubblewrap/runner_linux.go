package bubblewrap

import (
	"context"
	"errors"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"time"

	"palyra/internal/core/reason"
	"palyra/internal/exec/program/command"
	"palyra/internal/exec/sandbox"
	"palyra/internal/exec/sandbox/inside"
	"palyra/internal/exec/sandbox/jail"
	"palyra/internal/exec/sandbox/seccomp"
)

const defaultBwrap = "/usr/bin/bwrap"

// Runner runs programs in Tier C. It is safe for concurrent use.
type Runner struct {
	cfg     Config
	machine *jail.Machine
	bwrap   *installation
	// problem is the reason, other than bubblewrap, why programs cannot run on this machine, nil if
	// they can.
	problem *reason.Error
	root    root
	pool    *pool
	// stray adds to sandboxes a descriptor that programs must not see. Examinations use it.
	stray bool
}

// New inspects the machine and returns a Runner. Missing features of the machine are not an
// error: Probe reports them, and Run refuses.
func New(cfg Config) (*Runner, error) {
	return newRunner(cfg, jail.Helper())
}

func newRunner(cfg Config, helper []byte) (*Runner, error) {
	if cfg.Bwrap == "" {
		cfg.Bwrap = defaultBwrap
	}
	r := &Runner{cfg: cfg, bwrap: &installation{path: cfg.Bwrap, root: os.Geteuid() == 0}, problem: indispensable(cfg.Without)}
	if r.problem == nil && len(helper) == 0 {
		r.problem = reason.Errorf(reason.SandboxUnavailable, "palyrad was built without palyra-init").
			WithRemedy("Build it with `make build`, which embeds the helper.")
	}
	if cfg.Enabled && r.problem == nil {
		r.bwrap.findEarly()
	}
	var err error
	r.machine, err = jail.NewMachine(jail.Config{
		Helper: helper, FirstUser: cfg.FirstUser, Users: cfg.Users, UserRecord: cfg.UserRecord, State: cfg.LayerDir, Room: cfg.Room,
		Filter: seccomp.Options{StrictExec: cfg.StrictExec}, Without: cfg.Without,
	})
	if err != nil {
		r.bwrap.early.Wait()
		return nil, err
	}
	if r.root, err = newRoot(); err != nil {
		r.bwrap.early.Wait()
		return nil, errors.Join(err, r.machine.Close())
	}
	r.pool = &pool{most: cfg.Prepared, after: time.After, build: func(s sandbox.Spec) (*jail.Cell, error) {
		w, err := jail.OpenWorkspace(s.WorkspaceRoot)
		if err != nil {
			return nil, err
		}
		return r.build(s, w, nil)
	}}
	return r, nil
}

// indispensable returns an error for omitting a layer that bubblewrap always applies.
func indispensable(without []string) *reason.Error {
	for _, layer := range []string{jail.LayerUserNS, jail.LayerMounts, jail.LayerNNP} {
		if slices.Contains(without, layer) {
			return reason.Errorf(reason.SandboxUnavailable, "bubblewrap cannot omit the layer %s", layer)
		}
	}
	return nil
}

// Close releases the resources shared by sandboxes. No run may be in progress.
func (r *Runner) Close() error {
	r.bwrap.early.Wait()
	failed := r.pool.close()
	r.root.etc.close()
	return errors.Join(append(failed, r.machine.Close())...)
}

// Invalidate ends the prepared sandboxes, because their settings or policies may have changed.
func (r *Runner) Invalidate() { r.pool.empty() }

// Sweep ends and removes the remains of a dead daemon: its control groups and its orphaned
// bubblewrap processes. places.Sweep removes its layers.
func (r *Runner) Sweep(ctx context.Context) error {
	return errors.Join(r.machine.Sweep(ctx), sweepOrphans(r.argv()))
}

// argv returns bubblewrap's command line. All other arguments are passed in memory files.
func (r *Runner) argv() []string {
	return []string{filepath.Base(r.cfg.Bwrap), "--args", strconv.Itoa(inside.ArgsFD), "--", jail.SelfPath(inside.HelperFD), inside.StageInner}
}

// Run runs one program; see sandbox.Runner.
func (r *Runner) Run(ctx context.Context, s sandbox.Spec) (sandbox.Report, error) {
	if !r.cfg.Enabled {
		return sandbox.Report{}, reason.Errorf(reason.SandboxDisabled, "running programs is disabled (process_runner.enabled)")
	}
	if err := jail.Check(s); err != nil {
		return sandbox.Report{}, err
	}
	if problem := r.obstacle(); problem != nil {
		return sandbox.Report{}, problem
	}
	if err := ctx.Err(); err != nil {
		return sandbox.Report{}, reason.Errorf(reason.Cancelled, "the call was cancelled before the program started")
	}
	report, err := r.run(ctx, s, nil)
	return report, report.Explain(err)
}

// obstacle returns the reason why programs cannot run on this machine, nil if they can.
func (r *Runner) obstacle() *reason.Error {
	if r.problem != nil {
		return r.problem
	}
	return r.bwrap.find()
}

// run obtains a sandbox for a call and runs the call in it. If probe is not nil, it contains the
// arguments of the helper's own probe, which runs instead.
func (r *Runner) run(ctx context.Context, s sandbox.Spec, probe []string) (sandbox.Report, error) {
	s.Limits = s.Limits.OrDefault()
	workspace, err := jail.OpenWorkspace(s.WorkspaceRoot)
	if err != nil {
		return sandbox.Report{}, err
	}
	w, err := work(s, workspace, probe)
	if err != nil {
		return sandbox.Report{}, errors.Join(err, workspace.Close())
	}
	guard, err := r.guard(s, workspace)
	if err != nil {
		return sandbox.Report{}, errors.Join(err, workspace.Close())
	}
	if s.Session != nil {
		return r.converse(ctx, s, workspace, guard, w)
	}
	kind := key(s, workspace.Identity)
	r.pool.begin()
	defer r.pool.end(kind, s)
	cell, err := r.cell(kind, s, workspace, guard, &w)
	if err != nil {
		return sandbox.Report{}, errors.Join(err, guard.Close())
	}
	report, err := cell.Run(ctx, w)
	err = errors.Join(err, cell.Close(), guard.Settle(&report))
	return report, err
}

// converse runs a session in a separate sandbox. No sandbox is prepared for sessions, and a
// session does not prevent preparing others, because it may run for days. It takes ownership of
// the workspace.
func (r *Runner) converse(ctx context.Context, s sandbox.Spec, workspace *jail.Directory, guard *jail.Guard, w jail.Work) (sandbox.Report, error) {
	cell, err := r.build(s, workspace, guard)
	if err != nil {
		return sandbox.Report{}, errors.Join(err, guard.Close())
	}
	report, err := cell.Run(ctx, w)
	return report, errors.Join(err, cell.Close(), guard.Settle(&report))
}

// cell returns a prepared or a new sandbox for a call. It takes ownership of the workspace.
func (r *Runner) cell(kind string, s sandbox.Spec, workspace *jail.Directory, guard *jail.Guard, w *jail.Work) (*jail.Cell, error) {
	cell := r.pool.take(kind)
	if cell == nil {
		return r.build(s, workspace, guard)
	}
	w.Prepared = true
	if err := workspace.Close(); err != nil {
		return nil, errors.Join(err, cell.Close())
	}
	return cell, nil
}

// build creates and starts a sandbox. It takes ownership of the workspace.
func (r *Runner) build(s sandbox.Spec, workspace *jail.Directory, guard *jail.Guard) (*jail.Cell, error) {
	plan, err := r.plan(s, workspace, guard)
	if err != nil {
		return nil, err
	}
	return r.machine.Start(plan)
}

// work returns the parameters of a call that are not part of its sandbox.
func work(s sandbox.Spec, workspace *jail.Directory, probe []string) (w jail.Work, err error) {
	w = jail.Work{Spec: s, Probe: probe, Env: command.Environment(s.Executable.Path, jail.Environment(s), s.Toolchains)}
	if probe == nil {
		if w.Exec, w.InWorkspace, err = jail.Visible(s, command.WorkspaceMount); err != nil {
			return w, err
		}
	}
	cwd, err := workspace.CheckCwd(s.Cwd)
	w.Cwd = path.Join(command.WorkspaceMount, cwd)
	return w, err
}
