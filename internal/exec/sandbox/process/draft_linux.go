package process

import (
	"errors"
	"os"
	"path"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"

	"palyra/internal/core/reason"
	"palyra/internal/egress"
	"palyra/internal/exec/program/command"
	"palyra/internal/exec/sandbox"
	"palyra/internal/exec/sandbox/inside"
	"palyra/internal/exec/sandbox/jail"
)

// draft is the plan of a call with its additional resources.
type draft struct {
	runner *Runner
	spec   sandbox.Spec
	plan   *jail.Plan
	// dir is the workspace; home and tmp are directories of the run, inside.
	dir, home, tmp string
	// sources are the directories of caches that the helper mounts.
	sources []inside.Source
	// caches are the paths of the spec's caches inside, by position; "" means none.
	caches []string
	// gitConfig is the path of the git configuration with the spec's author inside; "" means
	// none.
	gitConfig string
	// guard protects a workspace with direct writes; it may be nil.
	guard *jail.Guard
	// scratch is the directory outside that contains home and tmp, "" for none.
	scratch string
}

// draft describes the sandbox of a call. The caller cleans up after the run.
func (r *Runner) draft(s sandbox.Spec) (*draft, error) {
	plan, err := r.machine.NewPlan()
	if err != nil {
		return nil, err
	}
	d := &draft{runner: r, spec: s, plan: plan}
	if err := d.build(); err != nil {
		return nil, errors.Join(err, r.machine.Discard(plan), d.guard.Close(), d.clean())
	}
	return d, nil
}

func (d *draft) build() error {
	w, err := jail.OpenWorkspace(d.spec.WorkspaceRoot)
	if err != nil {
		return err
	}
	d.plan.Workspace, d.plan.Mode, d.plan.Limits = w, d.spec.Workspace, d.spec.Limits
	if d.spec.Session != nil {
		d.plan.Stdin = d.spec.Session.Stdin
	}
	if d.spec.Workspace == sandbox.Direct {
		if d.guard, err = jail.NewGuard(w, d.spec, d.runner.cfg.QuarantineDir); err != nil {
			return err
		}
	}
	if d.runner.rung == sandbox.Landlocked {
		err = d.alone()
	} else {
		err = d.namespaced()
	}
	if err != nil {
		return err
	}
	d.inner()
	// A tracer cannot leave its Landlock domain, nor reach a process outside of its namespace. A
	// session traces nothing.
	d.plan.Grants.Tracing = d.spec.Session == nil && d.plan.Spec.Inner.First && d.plan.Spec.Inner.Landlock != nil
	d.describe()
	return d.stray()
}

// mode returns how the workspace is mounted; without a copy the program writes to the workspace
// itself.
func (d *draft) mode() sandbox.WorkspaceMode {
	switch {
	case d.spec.Workspace == sandbox.CopyOnWrite && d.without(jail.LayerCopy):
		return sandbox.Direct
	case d.spec.Workspace == "":
		return sandbox.ReadOnly
	}
	return d.spec.Workspace
}

func (d *draft) without(layer string) bool { return d.runner.machine.Without(layer) }

// hostNetwork reports whether the program stays in the host's network.
func (d *draft) hostNetwork() bool {
	return d.spec.Egress != egress.Strict || d.without(jail.LayerNetwork)
}

// namespaced gives the sandbox separate namespaces, in which the helper mounts the workspace and
// empty file systems.
func (d *draft) namespaced() error {
	d.dir, d.home, d.tmp = inside.Mountpoint, inside.TmpHome, inside.Tmp
	d.plan.Spec.Inner.Dir = d.dir
	stage := d.runner.machine.NewStage(d.plan)
	if err := d.mount(stage); err != nil {
		stage.Abandon()
		return err
	}
	ground := inside.Ground{Tmp: d.spec.Limits.Tmp, Files: names(), Caches: d.sources}
	if content := d.spec.GitConfig(); content != "" {
		d.gitConfig = gitConfig
		ground.Files = append(ground.Files, inside.File{Path: gitConfig, Content: content})
	}
	powers := []uintptr{unix.CAP_NET_ADMIN, unix.CAP_SETPCAP, unix.CAP_SYS_RESOURCE}
	if d.spec.Network != nil && !d.hostNetwork() {
		if err := d.runner.machine.Open(d.plan, *d.spec.Network, d.runner.cfg.Outward); err != nil {
			stage.Abandon()
			return err
		}
		powers = append(powers, unix.CAP_NET_BIND_SERVICE)
		ground.Files = append(ground.Files, d.networkFiles()...)
	}
	var flags uintptr
	if !d.hostNetwork() {
		flags |= syscall.CLONE_NEWNET
		ground.Loopback = true
	}
	if !d.without(jail.LayerIPC) {
		flags |= syscall.CLONE_NEWIPC
	}
	if !d.without(jail.LayerPIDs) {
		flags |= syscall.CLONE_NEWPID
		ground.Proc, d.plan.Spec.Inner.First = true, true
	}
	if !d.without(jail.LayerMasks) {
		ground.Masks = jail.Masks()
	}
	// Landlock denies writing to /proc: the helper proves it there.
	ground.Writable = append([]string{"/proc", inside.Tmp, "/dev/shm"}, d.caches...)
	if d.mode() != sandbox.ReadOnly {
		ground.Writable = append(ground.Writable, inside.Mountpoint)
	}
	stage.Begin(inside.StageGround, flags, powers...)
	d.plan.Spec.Ground = ground
	return nil
}

func (d *draft) mount(stage *jail.Stage) error {
	for i, c := range d.spec.Caches {
		place, err := d.cache(stage, c.Dir, i)
		if err != nil {
			return reason.Errorf(reason.SandboxUnavailable, "the directory of the cache %s cannot be opened: %w", c.Name, err)
		}
		d.caches = append(d.caches, place)
	}
	switch d.mode() {
	case sandbox.CopyOnWrite:
		return stage.CopyOnWrite(d.spec, d.runner.cfg.LayerDir)
	case sandbox.Direct:
		if d.guard != nil {
			stage.Pin(d.guard.Pins)
		}
		return stage.Plain(false)
	}
	return stage.Plain(true)
}

// cache returns the path of a cache inside: the helper mounts it there, or the stage has a view
// of it for the sandbox's user.
func (d *draft) cache(stage *jail.Stage, path string, i int) (string, error) {
	if d.runner.machine.Root() {
		return stage.Shared(path)
	}
	dir, err := jail.OpenDirectory(path)
	if err != nil {
		return "", err
	}
	d.sources = append(d.sources, dir.Source())
	return inside.CacheAt(i), dir.Close()
}

// alone describes a sandbox without namespaces, in which the program shares the host's
// processes and paths. If the daemon is root, the program runs as another user. That user has
// only the access to the workspace that its owner gives to others, and no access to caches.
func (d *draft) alone() error {
	p := d.plan
	p.Argv = []string{"palyra-init", inside.StageInner}
	p.Spec.Inner.Parent, p.Spec.Inner.Workspace = os.Getpid(), p.Workspace.Identity
	d.dir, p.Spec.Inner.Dir = d.spec.WorkspaceRoot, d.spec.WorkspaceRoot
	for _, c := range d.spec.Caches {
		if d.runner.machine.Root() {
			c.Dir = ""
		}
		d.caches = append(d.caches, c.Dir)
	}
	if d.runner.machine.Root() {
		p.Attr.Credential = &syscall.Credential{Uid: uint32(p.User.UID), Gid: uint32(p.User.GID)}
		p.Attr.AmbientCaps = []uintptr{unix.CAP_SETPCAP} // for emptying the bounding set
	}
	if err := d.makeScratch(); err != nil {
		return err
	}
	return d.makeGitConfig()
}

// inner sets the layers that palyra-init applies.
func (d *draft) inner() {
	m := d.runner.machine
	i := &d.plan.Spec.Inner
	if d.plan.Staged {
		i.Masks = jail.Masks()
	}
	i.KeepDescriptors = m.Without(jail.LayerDescriptors)
	i.DropCapabilities, i.NoNewPrivs = !m.Without(jail.LayerCaps), true
	if abi := m.Landlock(); abi > 0 && !m.Without(jail.LayerLandlock) {
		i.Landlock = &inside.Landlock{ABI: abi, Rules: d.rules(), DenyTCP: d.runner.rung == sandbox.Landlocked}
	}
}

// layers returns the layers that every run must prove. namespaces returns the layers that only
// the better rung has.
func layers() []string {
	return []string{
		jail.LayerUID, jail.LayerCaps, jail.LayerNNP, jail.LayerSeccomp, jail.LayerLandlock, jail.LayerGroup, jail.LayerRlimits,
		jail.LayerDescriptors, jail.LayerEnvironment, jail.LayerSession,
	}
}

func namespaces() []string {
	return []string{jail.LayerUserNS, jail.LayerMounts, jail.LayerPIDs, jail.LayerIPC, jail.LayerMasks}
}

// describe completes the plan. Layers that the lower rung lacks are requested as well, so that
// its level is correct.
func (d *draft) describe() {
	p, r := d.plan, d.runner
	p.Requested = append(namespaces(), layers()...)
	if d.spec.Egress == egress.Strict {
		p.Requested = append(p.Requested, jail.LayerNetwork)
	}
	if d.spec.Workspace == sandbox.CopyOnWrite {
		p.Requested = append(p.Requested, jail.LayerCopy)
	}
	if r.rung == sandbox.Landlocked {
		for _, layer := range append(namespaces(), jail.LayerNetwork) {
			p.Excused[layer] = "user namespaces are not available: " + r.lack
		}
	}
	p.Backend, p.Tier, p.Rung = r.backend(), sandbox.TierB, r.rung
	if r.machine.Without(jail.LayerEnvironment) {
		p.Env = os.Environ()
	}
}

// stray opens a descriptor for the program if the layer that closes descriptors is omitted.
func (d *draft) stray() error {
	if !d.without(jail.LayerDescriptors) {
		return nil
	}
	f, err := os.Open(os.DevNull)
	if err == nil {
		d.plan.Extra(f)
	}
	return err
}

// weaknesses returns the actions that no layer prevents for a program without separate mounts.
func (d *draft) weaknesses() []string {
	var list []string
	if !d.runner.machine.Root() {
		list = append(list, "metadata: Landlock does not cover modes, times and attributes; the program could change the metadata of any file of its user")
	}
	list = append(list, "tmp: temporary files are on the machine's disk, and only the size of each is limited")
	if d.guard != nil && len(d.guard.Pins) > 0 {
		list = append(list, "direct: without separate mounts, the program could change existing protected files")
	}
	return list
}

// work returns the parameters of a call that are not part of its sandbox.
func (d *draft) work(probe []string) (jail.Work, error) {
	w := jail.Work{Spec: d.spec, Probe: probe, Env: d.environment()}
	var err error
	if probe == nil {
		if w.Exec, w.InWorkspace, err = jail.Visible(d.spec, d.dir); err != nil {
			return w, err
		}
	}
	cwd, err := d.plan.Workspace.CheckCwd(d.spec.Cwd)
	w.Cwd = path.Join(d.dir, cwd)
	return w, err
}

// environment returns the variables of the program. HOME and TMPDIR are directories of the run,
// and the variables of a cache contain its path inside.
func (d *draft) environment() []string {
	s := d.spec
	s.Caches = nil
	for i, c := range d.spec.Caches {
		if d.caches[i] == "" {
			continue
		}
		env := make([]string, len(c.Env))
		for n, pair := range c.Env {
			env[n] = strings.ReplaceAll(pair, path.Join(sandbox.CacheMount, c.Name), d.caches[i])
		}
		c.Env = env
		s.Caches = append(s.Caches, c)
	}
	env := command.Environment(s.Executable.Path, jail.Environment(s), s.Toolchains)
	for i, pair := range env {
		if strings.HasPrefix(pair, "HOME=") {
			env[i] = "HOME=" + d.home
		}
	}
	return append(env, "TMPDIR="+d.tmp, d.gitSystem())
}

// gitSystem returns the variable with the path that git uses as the machine's configuration.
// Git would fail with the host's file, which exists but is not readable.
func (d *draft) gitSystem() string {
	if d.gitConfig == "" {
		return "GIT_CONFIG_NOSYSTEM=1"
	}
	return "GIT_CONFIG_SYSTEM=" + d.gitConfig
}
