package bubblewrap

import (
	"errors"
	"os"
	"path"

	"palyra/internal/core/reason"
	"palyra/internal/egress"
	"palyra/internal/exec/program/command"
	"palyra/internal/exec/sandbox"
	"palyra/internal/exec/sandbox/inside"
	"palyra/internal/exec/sandbox/jail"
)

// draft is a plan under construction.
type draft struct {
	runner *Runner
	spec   sandbox.Spec
	plan   *jail.Plan
	stage  *jail.Stage
	// guard is set for a call that writes to the workspace directly.
	guard  *jail.Guard
	layout layout
}

// plan returns the plan of the sandbox of a call. The plan depends only on the fields in the
// key of prepared sandboxes. The method takes ownership of the workspace.
func (r *Runner) plan(s sandbox.Spec, workspace *jail.Directory, guard *jail.Guard) (*jail.Plan, error) {
	plan, err := r.machine.NewPlan()
	if err != nil {
		return nil, errors.Join(err, workspace.Close())
	}
	plan.Workspace, plan.Spec.Inner.Dir = workspace, command.WorkspaceMount
	d := &draft{runner: r, spec: s, plan: plan, stage: r.machine.NewStage(plan), guard: guard}
	if err := d.build(); err != nil {
		d.stage.Abandon()
		return nil, errors.Join(err, r.machine.Discard(plan))
	}
	return plan, nil
}

func (d *draft) build() error {
	d.plan.Mode, d.plan.Limits, d.plan.ID = d.spec.Workspace, d.spec.Limits, jail.InsideID
	if d.spec.Session != nil {
		d.plan.Stdin = d.spec.Session.Stdin
	}
	d.layout = layout{
		readOnly: d.mode() == sandbox.ReadOnly, tmp: d.spec.Limits.Tmp,
		hostNetwork: d.spec.Egress != egress.Strict, without: d.runner.machine.Without,
	}
	for _, part := range []func() error{d.network, d.data, d.author, d.caches, d.toolchains, d.terminals, d.hostPath, d.workspace} {
		if err := part(); err != nil {
			return err
		}
	}
	d.inner()
	d.grant()
	d.describe()
	return nil
}

// mode returns how the workspace is mounted; without a copy the program writes to the workspace
// itself.
func (d *draft) mode() sandbox.WorkspaceMode {
	switch {
	case d.spec.Workspace == sandbox.CopyOnWrite && d.runner.machine.Without(jail.LayerCopy):
		return sandbox.Direct
	case d.spec.Workspace == "":
		return sandbox.ReadOnly
	}
	return d.spec.Workspace
}

// bundle is the file with the certificate authorities that programs must trust if connections to
// one of their hosts are inspected.
const bundle = "/etc/palyra-authorities.pem"

// network opens the connections to the allowed hosts. It does nothing if the call has no network, or if the network layer is omitted.
func (d *draft) network() error {
	if d.spec.Network == nil || d.runner.machine.Without(jail.LayerNetwork) {
		return nil
	}
	d.layout.listens = true
	if err := d.runner.machine.Open(d.plan, *d.spec.Network, d.runner.cfg.Outward); err != nil {
		return err
	}
	d.layout.captures = !d.plan.Proxy.Offline()
	content := d.plan.Proxy.Bundle()
	if content == nil {
		return nil
	}
	f, err := jail.DataFile("authorities", content)
	if err != nil {
		return err
	}
	d.plan.Bundle = bundle
	d.layout.files = append(d.layout.files, dataFile{d.plan.Extra(f), bundle})
	return nil
}

// data passes the files of /etc.
func (d *draft) data() error {
	if d.runner.stray {
		f, err := os.Open("/dev/zero")
		if err != nil {
			return err
		}
		d.plan.Extra(f)
	}
	if !d.runner.machine.Without(jail.LayerSeccomp) && d.runner.bwrap.takesFilters() {
		f, err := d.runner.machine.OuterFilter()
		if err != nil {
			return err
		}
		d.layout.filter, d.plan.Filters = d.plan.Extra(f), 1
	}
	return d.runner.root.etc.open(d.layout.hostNetwork, func(name string, f *os.File) {
		d.layout.files = append(d.layout.files, dataFile{d.plan.Extra(f), name})
	})
}

// author adds a git configuration to /etc. The configurations of the program's home and of a
// repository take precedence over it.
func (d *draft) author() error {
	content := d.spec.GitConfig()
	if content == "" {
		return nil
	}
	f, err := jail.DataFile("gitconfig", []byte(content))
	if err != nil {
		return err
	}
	d.layout.files = append(d.layout.files, dataFile{d.plan.Extra(f), "/etc/gitconfig"})
	return nil
}

// caches mounts the directories that are kept between runs.
func (d *draft) caches() error {
	for _, c := range d.spec.Caches {
		source, err := d.stage.Shared(c.Dir)
		if err != nil {
			return reason.Errorf(reason.SandboxUnavailable, "the directory of the cache %s cannot be opened: %w", c.Name, err)
		}
		d.layout.caches = append(d.layout.caches, place{source, path.Join(sandbox.CacheMount, c.Name)})
	}
	return nil
}

// toolchains mounts the installed toolchains.
func (d *draft) toolchains() error {
	for _, dir := range command.Shown(d.spec.Toolchains) {
		show := d.stage.Shown
		if d.private() {
			show = d.stage.Layered
		}
		source, err := show(dir)
		if err != nil {
			return reason.Errorf(reason.SandboxUnavailable, "the toolchain at %s cannot be opened: %w", dir, err).
				WithRemedy("Try again: palyrad detects the installed toolchains again.")
		}
		d.layout.toolchains = append(d.layout.toolchains, place{source, dir})
	}
	return nil
}

// hostPath links the host's path of the workspace to its mount, if the call requests it. It
// creates no link that conflicts with an entry of the sandbox.
func (d *draft) hostPath() error {
	if root := d.spec.WorkspaceRoot; d.spec.HostPath && linkable(root, d.layout) {
		d.layout.hostPath = root
	}
	return nil
}

// workspace selects the first process. The first process is bubblewrap if bubblewrap can bind
// an existing directory: the workspace itself, or a mount that the daemon made as root.
// Otherwise it is the outer stage of palyra-init, which makes mounts before it starts
// bubblewrap. These mounts are an overlay for a copy if the daemon is not root, or pins over
// protected paths.
func (d *draft) workspace() (err error) {
	switch {
	case d.mode() == sandbox.CopyOnWrite && !d.runner.machine.Root():
		err = d.stage.CopyOnWrite(d.spec, d.runner.cfg.LayerDir)
		d.staged()
		return err
	case d.mode() == sandbox.Direct && d.guard != nil && len(d.guard.Pins) > 0:
		err = d.stage.Plain(false)
		d.stage.Pin(d.guard.Pins)
		d.staged()
		return err
	case d.mode() == sandbox.CopyOnWrite:
		d.layout.source, err = d.stage.CopyOnThread(d.spec, d.runner.cfg.LayerDir)
	default:
		d.layout.source, err = d.stage.OnThread(d.layout.readOnly)
	}
	d.plan.Path, d.plan.Argv = d.runner.cfg.Bwrap, d.runner.argv()
	return err
}

func (d *draft) staged() {
	d.stage.Then(d.runner.cfg.Bwrap, d.runner.argv())
	d.stage.Begin(inside.StageOuter, 0)
	d.layout.source = inside.Mountpoint
}

// inner sets the layers that palyra-init applies inside the sandbox.
func (d *draft) inner() {
	m := d.runner.machine
	i := &d.plan.Spec.Inner
	i.Masks = jail.Masks()
	i.KeepDescriptors = m.Without(jail.LayerDescriptors)
	i.DropCapabilities, i.NoNewPrivs = !m.Without(jail.LayerCaps), true
	if d.landlocked() {
		i.Landlock = &inside.Landlock{ABI: m.Landlock(), Rules: d.runner.root.rules(d.layout)}
	}
}

// layers are the layers that every run of this backend must prove, in addition to the network
// namespace and the copy of the workspace.
var layers = []string{
	jail.LayerUserNS, jail.LayerMounts, jail.LayerPIDs, jail.LayerIPC, jail.LayerUTS, jail.LayerCgroupNS,
	jail.LayerUID, jail.LayerCaps, jail.LayerNNP, jail.LayerSeccomp, jail.LayerLandlock, jail.LayerGroup, jail.LayerRlimits,
	jail.LayerMasks, jail.LayerDescriptors, jail.LayerEnvironment, jail.LayerRoot, jail.LayerSession,
}

// describe completes the plan after the layout is known.
func (d *draft) describe() {
	p, r := d.plan, d.runner
	p.Arguments = r.root.arguments(d.layout)
	p.Requested = append([]string{}, layers...)
	if !d.layout.hostNetwork {
		p.Requested = append(p.Requested, jail.LayerNetwork)
	}
	if d.spec.Workspace == sandbox.CopyOnWrite {
		p.Requested = append(p.Requested, jail.LayerCopy)
	}
	p.Excused[jail.LayerCgroupNS] = "bubblewrap could not create one"
	p.Root = r.root.entries(d.layout)
	p.Backend, p.BackendSHA = r.bwrap.identity()
	p.Tier, p.Rung = sandbox.TierC, sandbox.Full
	if r.machine.Without(jail.LayerEnvironment) {
		p.Env = os.Environ()
	}
}
