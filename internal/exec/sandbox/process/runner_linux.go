package process

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"palyra/internal/core/reason"
	"palyra/internal/egress"
	"palyra/internal/exec/sandbox"
	"palyra/internal/exec/sandbox/cgroup"
	"palyra/internal/exec/sandbox/jail"
	"palyra/internal/exec/sandbox/seccomp"
)

// Runner runs programs in Tier B. It is safe for concurrent use.
type Runner struct {
	cfg     Config
	machine *jail.Machine
	rung    sandbox.Isolation
	// lack is the reason why the rung is not the best one.
	lack string
	// problem is the reason why programs cannot run on this machine, nil if they can.
	problem *reason.Error
}

// leastAlone and leastSameUser are the minimum Landlock ABIs without namespaces. ABI 4 can deny
// TCP. ABI 6 also restricts signals; it is required unless programs run as a separate user,
// which restricts signals as well.
const (
	leastAlone     = 4
	leastSameUser  = 6
	settlingWithin = 10 * time.Second
)

// New inspects the machine and returns a Runner. Missing features of the machine are not an
// error: Probe reports them, and Run refuses.
func New(cfg Config) (*Runner, error) {
	return newRunner(cfg, jail.Helper())
}

// newRunner finds the best rung by trial, because the machine's settings for user namespaces are
// not reliable.
func newRunner(cfg Config, helper []byte) (*Runner, error) {
	r := &Runner{cfg: cfg}
	if cfg.Lowest == "" {
		r.cfg.Lowest = sandbox.UserNamespaces
	}
	if err := r.open(sandbox.UserNamespaces, helper); err != nil {
		return nil, err
	}
	if len(helper) == 0 {
		r.problem = reason.Errorf(reason.SandboxUnavailable, "palyrad was built without palyra-init").
			WithRemedy("Build it with `make build`, which embeds the helper.")
		return r, nil
	}
	if r.problem = r.tryNamespaces(); r.problem != nil && sandbox.Passing(r.problem) {
		r.problem = nil // each call proves its layers, and the machine may have them
	}
	if r.problem == nil || r.cfg.Lowest != sandbox.Landlocked {
		return r, nil
	}
	r.lack = r.problem.Message
	if err := r.machine.Close(); err != nil {
		return nil, err
	}
	if err := r.open(sandbox.Landlocked, helper); err != nil {
		return nil, err
	}
	r.problem = r.checkAlone()
	return r, nil
}

func (r *Runner) open(rung sandbox.Isolation, helper []byte) error {
	r.rung = rung
	alone := rung == sandbox.Landlocked
	var err error
	r.machine, err = jail.NewMachine(jail.Config{
		Helper: helper, FirstUser: r.cfg.FirstUser, Users: r.cfg.Users, UserRecord: r.cfg.UserRecord, State: r.cfg.LayerDir, Room: r.cfg.Room,
		Filter: seccomp.Options{NoNetwork: alone, NoIPC: alone, NoProcesses: alone, StrictExec: r.cfg.StrictExec}, Without: r.cfg.Without,
	})
	return err
}

// tryNamespaces runs a program without effects in a sandbox with user namespaces.
func (r *Runner) tryNamespaces() *reason.Error {
	for _, layer := range []string{jail.LayerUserNS, jail.LayerMounts} {
		if r.machine.Without(layer) {
			return reason.Errorf(reason.SandboxUnavailable, "the layer %s is omitted", layer)
		}
	}
	if err := r.checkLandlock(1); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(context.Background(), settlingWithin)
	defer cancel()
	_, err := r.try(ctx, sandbox.ReadOnly)
	return asReason(err)
}

func (r *Runner) checkLandlock(least int) *reason.Error {
	if abi := r.machine.Landlock(); abi < least && !r.machine.Without(jail.LayerLandlock) {
		return reason.Errorf(reason.SandboxUnavailable, "Tier B requires Landlock of ABI %d here, and the kernel has %d", least, abi).
			WithRemedy("Use a newer kernel with Landlock among its security modules (lsm=landlock,...), or Tier C.")
	}
	return nil
}

// checkAlone returns an error if Landlock and seccomp are not sufficient.
func (r *Runner) checkAlone() *reason.Error {
	least := leastSameUser
	if r.machine.Root() {
		least = leastAlone
	}
	if err := r.checkLandlock(least); err != nil {
		return err
	}
	if r.machine.Level() == cgroup.Rlimit && !r.machine.Without(jail.LayerGroup) {
		return reason.Errorf(reason.SandboxUnavailable, "without a process namespace and without control groups, processes that a program leaves behind cannot be ended").
			WithRemedy("Delegate a control group to palyrad (systemd: Delegate=yes), or allow user namespaces.")
	}
	return nil
}

// Close releases the resources shared by sandboxes. No run may be in progress.
func (r *Runner) Close() error { return r.machine.Close() }

// Run runs one program; see sandbox.Runner.
func (r *Runner) Run(ctx context.Context, s sandbox.Spec) (sandbox.Report, error) {
	if !r.cfg.Enabled {
		return sandbox.Report{}, reason.Errorf(reason.SandboxDisabled, "running programs is disabled (process_runner.enabled)")
	}
	if err := jail.Check(s); err != nil {
		return sandbox.Report{}, err
	}
	if r.problem != nil {
		return sandbox.Report{}, r.problem
	}
	if err := r.checkRung(s); err != nil {
		return sandbox.Report{}, err
	}
	if err := ctx.Err(); err != nil {
		return sandbox.Report{}, reason.Errorf(reason.Cancelled, "the call was cancelled before the program started")
	}
	report, err := r.run(ctx, s, nil)
	return report, report.Explain(err)
}

// checkRung refuses features that require user namespaces, and features that Tier B never
// provides, because its temporary files are on the machine's disk.
func (r *Runner) checkRung(s sandbox.Spec) error {
	if s.HasSecretFiles() {
		return sandbox.NoSecretFiles()
	}
	if r.rung != sandbox.Landlocked {
		return nil
	}
	if s.Egress != egress.Strict {
		return reason.Errorf(reason.EgressDenied, "without user namespaces programs run offline; egress %s is not available", s.Egress)
	}
	if s.Network != nil && len(s.Network.Rules.Allow) > 0 {
		return reason.Errorf(reason.EgressDenied, "without user namespaces programs run offline; hosts cannot be enforced: %s", r.lack).
			WithRemedy("Allow user namespaces (`palyrad doctor` shows the obstacle), or call the tool with an empty list of hosts.")
	}
	if s.Workspace == sandbox.CopyOnWrite && !r.machine.Without(jail.LayerCopy) {
		return reason.Errorf(reason.SandboxUnavailable, "a copy of the workspace requires user namespaces: %s", r.lack).
			WithRemedy("Allow user namespaces, or use workspace_mode read_only or direct.")
	}
	return nil
}

// run builds a sandbox for a call and runs the call in it. If probe is not nil, it contains the
// arguments of the helper's own probe, which runs instead.
func (r *Runner) run(ctx context.Context, s sandbox.Spec, probe []string) (sandbox.Report, error) {
	s.Limits = s.Limits.OrDefault()
	d, err := r.draft(s)
	if err != nil {
		return sandbox.Report{}, err
	}
	report, err := d.run(ctx, probe)
	if r.rung == sandbox.Landlocked {
		report.Downgrades = append(report.Downgrades, d.weaknesses()...)
	}
	return report, errors.Join(err, d.guard.Settle(&report), d.clean())
}

// run executes the draft and releases its plan.
func (d *draft) run(ctx context.Context, probe []string) (sandbox.Report, error) {
	w, err := d.work(probe)
	if err != nil {
		return sandbox.Report{}, errors.Join(err, d.runner.machine.Discard(d.plan))
	}
	cell, err := d.runner.machine.Start(d.plan)
	if err != nil {
		return sandbox.Report{}, err
	}
	report, err := cell.Run(ctx, w)
	return report, errors.Join(err, cell.Close())
}

func asReason(err error) *reason.Error {
	if err == nil {
		return nil
	}
	var refused *reason.Error
	if !errors.As(err, &refused) {
		refused = reason.Errorf(reason.SandboxUnavailable, "%w", err)
	}
	return refused
}

// Sweep ends and removes the remains of a dead daemon: control groups, and directories of runs.
func (r *Runner) Sweep(ctx context.Context) error {
	return errors.Join(r.machine.Sweep(ctx), sweepScratch(), jail.SweepLayers(r.cfg.LayerDir))
}

// Probe runs a program without effects in an empty workspace, and reports the proven layers or
// the obstacle. It also works while running programs is disabled.
func (r *Runner) Probe(ctx context.Context) sandbox.Status {
	status := r.machine.Status(sandbox.TierB, r.rung, r.backend())
	mode := sandbox.ReadOnly
	if r.cfg.LayerDir != "" && r.rung == sandbox.UserNamespaces {
		mode = sandbox.CopyOnWrite
	}
	report, err := r.try(ctx, mode)
	return status.Tried(report, err)
}

// backend returns the mechanism and its version.
func (r *Runner) backend() string { return fmt.Sprintf("landlock %d", r.machine.Landlock()) }

func (r *Runner) try(ctx context.Context, mode sandbox.WorkspaceMode) (sandbox.Report, error) {
	if r.problem != nil {
		return sandbox.Report{}, r.problem
	}
	return jail.Try(ctx, r.machine, func(ctx context.Context, s sandbox.Spec) (sandbox.Report, error) {
		s.Workspace = mode
		return r.run(ctx, s, nil)
	})
}

// Examine probes every layer individually; see sandbox.Runner.
func (r *Runner) Examine(ctx context.Context) []sandbox.Examination {
	if r.problem != nil {
		return []sandbox.Examination{{Problem: r.problem.Message, Remedy: r.problem.NextStep()}}
	}
	asked := layers()
	if r.rung == sandbox.UserNamespaces {
		asked = append(asked, append(namespaces(), jail.LayerNetwork, jail.AllowedHosts)...)
		if r.cfg.LayerDir != "" {
			asked = append(asked, jail.LayerCopy)
		}
	}
	asked = slices.DeleteFunc(asked, r.untellable)
	return r.machine.Examine(ctx, asked, func(ctx context.Context, without []string, s sandbox.Spec, attempt []string) (sandbox.Report, error) {
		v := *r
		v.machine = r.machine.Variant(without...)
		return v.run(ctx, s, attempt)
	})
}

// untellable reports whether no attempt can show the effect of a layer. Without namespaces a
// program is never root, and is in a session of the host with and without the layer. It has no
// temporary file system to fill memory with. It has no capabilities to lose unless the daemon
// is root.
func (r *Runner) untellable(layer string) bool {
	alone := r.rung == sandbox.Landlocked
	switch layer {
	case jail.LayerGroup:
		return alone || r.machine.Level() == cgroup.Rlimit
	case jail.LayerUID, jail.LayerSession:
		return alone
	case jail.LayerCaps:
		return alone && !r.machine.Root()
	}
	return false
}
