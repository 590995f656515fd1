package jail

import (
	"context"
	"errors"
	"maps"
	"os"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"palyra/internal/core/reason"
	"palyra/internal/exec/sandbox/cgroup"
	"palyra/internal/exec/sandbox/disk"
	"palyra/internal/exec/sandbox/inside"
)

// Cell is a sandbox for one program, before, during or after its run. It must be used by one
// goroutine.
type Cell struct {
	Processes Processes

	machine *Machine
	plan    *Plan
	group   *cgroup.Group

	control        *os.File
	files          callFiles
	stdout, stderr *os.File
	started        time.Time
	argumentsSHA   string
	evidence       evidence
	disk           *disk.Meter
	// memory is nil if control groups count the memory.
	memory  *memoryMeter
	calls   callMonitor
	session proxySession
}

// Start builds a sandbox. It takes ownership of the plan.
func (m *Machine) Start(p *Plan) (*Cell, error) {
	started := time.Now()
	if m.files.helper.File == nil {
		return nil, errors.Join(errNoHelper(), m.Discard(p))
	}
	group, err := m.room.tree.Start(p.Limits)
	if err != nil {
		return nil, errors.Join(reason.Errorf(reason.SandboxUnavailable, "setting the limits of the run: %w", err), m.Discard(p))
	}
	c := &Cell{
		machine: m, plan: p, group: group, started: started,
		evidence: evidence{machine: m, plan: p, group: group},
		session:  proxySession{proxy: p.Proxy, served: make(chan error, 1)},
	}
	c.Processes.plan, c.Processes.group, c.Processes.ownSession = p, group, !m.Without(LayerSession)
	if err := c.start(); err != nil {
		return nil, errors.Join(err, c.Close())
	}
	return c, nil
}

func (c *Cell) start() error {
	if err := c.measureDisk(); err != nil {
		return err
	}
	files, err := c.descriptors()
	if err == nil {
		err = c.Processes.launch(files)
	}
	closeAll(files)
	closeAll(c.plan.Mounts)
	c.plan.Mounts = nil
	if err != nil {
		return startError(err)
	}
	return nil
}

// startError explains the errors by which clone(2) refuses a user namespace.
func startError(err error) *reason.Error {
	switch {
	case errors.Is(err, unix.ENOSPC) && noNamespaces():
		return reason.Errorf(reason.SandboxUnavailable, "starting the sandbox: the kernel permits no user namespaces (user.max_user_namespaces is 0)").
			WithRemedy("Raise user.max_user_namespaces with sysctl, as root.")
	case errors.Is(err, unix.ENOSPC):
		return reason.Errorf(reason.SandboxUnavailable, "starting the sandbox: the kernel's limit of user namespaces is reached: %w", err).
			WithRemedy("Raise user.max_user_namespaces with sysctl, as root.")
	case errors.Is(err, unix.EPERM):
		return reason.Errorf(reason.SandboxUnavailable, "starting the sandbox: the kernel or the container permits no user namespaces: %w", err).
			WithRemedy("`palyrad doctor` examines the settings that forbid them. A container needs a seccomp profile that permits unshare(2) and mount(2).")
	}
	return reason.Errorf(reason.SandboxUnavailable, "starting the sandbox: %w", err)
}

// noNamespaces reports whether the kernel's limit of user namespaces is 0. Creating one then fails
// with ENOSPC, as if others had reached the limit.
func noNamespaces() bool {
	limit, err := os.ReadFile("/proc/sys/user/max_user_namespaces")
	return err == nil && strings.TrimSpace(string(limit)) == "0"
}

func errNoHelper() error {
	return reason.Errorf(reason.SandboxUnavailable, "palyrad was built without palyra-init").
		WithRemedy("Build it with `make build`, which embeds the helper.")
}

// descriptors creates the pipes, the control socket and the memory files. It returns the first
// process's ends, by number. The caller closes them.
func (c *Cell) descriptors() ([]*os.File, error) {
	files := make([]*os.File, inside.ExtraFD)
	var err error
	if files[0], err = os.Open(os.DevNull); err != nil {
		return files, err
	}
	for _, p := range []struct {
		mine **os.File
		fd   int
	}{{&c.stdout, 1}, {&c.stderr, 2}, {&c.Processes.status, inside.StatusFD}} {
		read, write, err := os.Pipe()
		if err != nil {
			return files, err
		}
		*p.mine, files[p.fd] = read, write
	}
	if c.control, files[inside.ControlFD], err = controlPair(); err != nil {
		return files, err
	}
	c.plan.Spec.Inner.Pass = !c.machine.host.tracing.permits(c.plan, c.machine.Root())
	if limits := c.machine.host.userLimits; len(limits) > 0 && c.plan.ownUsers() {
		c.plan.Spec.Inner.UserLimits = &inside.UserLimits{Outside: c.machine.host.own["user"], Limits: limits}
	}
	if files[inside.SpecFD], err = DataFile("spec", inside.Encode(&c.plan.Spec)); err != nil {
		return files, err
	}
	list := []byte(strings.Join(c.plan.Arguments, "\x00") + "\x00")
	c.argumentsSHA = Digest(list)
	if files[inside.ArgsFD], err = DataFile("arguments", list); err != nil {
		return files, err
	}
	if c.files, err = newCallFiles(); err != nil {
		return files, err
	}
	filter, err := c.machine.filters.with(c.plan.Grants)
	if err != nil {
		return files, err
	}
	inherited := maps.Clone(c.files)
	inherited[inside.HelperFD], inherited[inside.FilterFD], inherited[inside.WatchedFD] =
		c.machine.files.helper.File, filter.plain.File, filter.watched.File
	if c.plan.Spec.Inner.UserLimits != nil {
		directory, err := os.OpenFile(sysctlDir, unix.O_PATH|unix.O_DIRECTORY, 0)
		if err != nil {
			return files, err
		}
		defer directory.Close()
		inherited[inside.SysctlFD] = directory
	}
	if c.plan.Stdin != nil {
		inherited[inside.StdinFD] = c.plan.Stdin
	}
	for fd, f := range inherited {
		if files[fd], err = duplicate(f); err != nil {
			return files, err
		}
	}
	files, c.plan.Files = append(files, c.plan.Files...), nil
	return files, nil
}

// duplicate returns another descriptor of the same open file.
func duplicate(f *os.File) (*os.File, error) {
	fd, err := unix.FcntlInt(f.Fd(), unix.F_DUPFD_CLOEXEC, 0)
	if err != nil {
		return nil, err
	}
	return os.NewFile(uintptr(fd), f.Name()), nil
}

// Close ends the rest of the sandbox and releases all its resources. The user of the sandbox is
// not reused while one of its processes may exist.
func (c *Cell) Close() error {
	err := errors.Join(c.Processes.End(), c.session.end(context.Canceled))
	_, failed := c.calls.end()
	err = errors.Join(err, failed)
	c.files.close()
	closeAll([]*os.File{c.control, c.Processes.status, c.stdout, c.stderr, c.Processes.init.Load()})
	if !c.Processes.alive {
		err = errors.Join(err, c.group.Close())
	}
	err = errors.Join(err, c.plan.close())
	if !c.Processes.alive {
		c.machine.users.give(c.plan.User)
	}
	return err
}
