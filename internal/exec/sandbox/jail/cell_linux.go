package jail

import (
	"context"
	"errors"
	"fmt"
	"os"
	"runtime"
	"strings"
	"sync/atomic"
	"syscall"
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
	machine *Machine
	plan    *Plan
	group   *cgroup.Group

	control, status *os.File
	stdout, stderr  *os.File
	process         *os.Process
	// ended receives the state of the first process after it was reaped.
	ended        chan *os.ProcessState
	reaped       bool
	started      time.Time
	argumentsSHA string
	seen         seen
	// init is a pidfd of the sandbox's first process, nil until the process is known.
	init     atomic.Pointer[os.File]
	meter    *disk.Meter
	listener *os.File
	observed chan observation
	// stopServing ends the proxy session of the program; it is nil without a session. served
	// receives the result of the session.
	stopServing context.CancelCauseFunc
	served      chan error
	// alive is true until no process of the sandbox is left.
	alive bool
}

// Start builds a sandbox. It takes ownership of the plan.
func (m *Machine) Start(p *Plan) (*Cell, error) {
	c := &Cell{machine: m, plan: p, started: time.Now(), served: make(chan error, 1)}
	if err := c.start(); err != nil {
		return nil, errors.Join(err, c.Close())
	}
	return c, nil
}

func (c *Cell) start() error {
	if c.machine.helper.File == nil {
		return errNoHelper()
	}
	var err error
	if c.group, err = c.machine.tree.Start(c.plan.Limits); err != nil {
		return reason.Errorf(reason.SandboxUnavailable, "setting the limits of the run: %w", err)
	}
	if err := c.measure(); err != nil {
		return err
	}
	files, err := c.descriptors()
	if err == nil {
		err = c.launch(files)
	}
	closeAll(files)
	closeAll(c.plan.Mounts)
	c.plan.Mounts = nil
	if err != nil {
		return reason.Errorf(reason.SandboxUnavailable, "starting the sandbox: %w", err)
	}
	return nil
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
	}{{&c.stdout, 1}, {&c.stderr, 2}, {&c.status, inside.StatusFD}} {
		read, write, err := os.Pipe()
		if err != nil {
			return files, err
		}
		*p.mine, files[p.fd] = read, write
	}
	if c.control, files[inside.ControlFD], err = controlPair(); err != nil {
		return files, err
	}
	if files[inside.SpecFD], err = DataFile("spec", inside.Encode(&c.plan.Spec)); err != nil {
		return files, err
	}
	list := []byte(strings.Join(c.plan.Arguments, "\x00") + "\x00")
	c.argumentsSHA = Digest(list)
	if files[inside.ArgsFD], err = DataFile("arguments", list); err != nil {
		return files, err
	}
	if files[inside.HelperFD], err = duplicate(c.machine.helper.File); err != nil {
		return files, err
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

// launch starts the first process on a dedicated thread. The kernel kills the process when its
// parent thread ends (PDEATHSIG, prctl(2)), so that the process ends with the daemon. The
// thread therefore stays until the process has ended. The thread is never unlocked, because it
// may be in control groups or mounts of the run. The runtime ends it with its goroutine.
func (c *Cell) launch(files []*os.File) error {
	begun := make(chan error, 1)
	c.ended = make(chan *os.ProcessState, 1)
	go func() {
		runtime.LockOSThread()
		p, err := c.fork(files)
		c.process = p
		begun <- err
		if p == nil {
			close(c.ended)
			return
		}
		state, _ := p.Wait()
		c.ended <- state
	}()
	err := <-begun
	c.alive = c.process != nil
	return err
}

// fork starts the first process inside the groups of the run. After an error it may still return
// a process, which must be killed.
func (c *Cell) fork(files []*os.File) (*os.Process, error) {
	if err := c.group.Enter(); err != nil {
		return nil, err
	}
	p, err := c.spawn(files)
	return p, errors.Join(err, c.group.Leave())
}

func (c *Cell) spawn(files []*os.File) (*os.Process, error) {
	if len(c.plan.Mounts) > 0 {
		if err := c.mount(); err != nil {
			return nil, err
		}
	}
	// A set-user-ID program would run as root; no_new_privs prevents that.
	if err := unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0); err != nil {
		return nil, err
	}
	attr := c.plan.Attr
	attr.Setsid, attr.Pdeathsig = !c.machine.Without(LayerSession), syscall.SIGKILL
	if dir := c.group.Dir(); dir != nil {
		attr.UseCgroupFD, attr.CgroupFD = true, int(dir.Fd())
	}
	path := c.plan.Path
	if path == "" {
		path = SelfPath(inside.HelperFD)
	}
	return startProcess(path, c.plan.Argv, &os.ProcAttr{Dir: "/", Env: append([]string{}, c.plan.Env...), Files: files, Sys: &attr})
}

// Waiting reports whether the sandbox is still ready for a run.
func (c *Cell) Waiting() bool {
	select {
	case state := <-c.ended:
		c.ended <- state // for a later receiver
		c.reaped = true
	default:
	}
	return c.alive && !c.reaped
}

// patience is the timeout for events that normally happen at once: bubblewrap reaps the first
// process of a sandbox without other processes, and sockets and pipes close when their
// processes end.
const patience = 10 * time.Second

// kill ends every process of the sandbox. The first process of a process namespace is killed
// first. The kernel ends all others with it, and bubblewrap reaps it and exits. If bubblewrap
// were killed at the same time, the host's first process would have to reap it. In containers,
// that process may not reap others.
func (c *Cell) kill() {
	if init := c.init.Load(); init != nil && c.plan.Arguments != nil && unix.PidfdSendSignal(int(init.Fd()), unix.SIGKILL, nil, 0) == nil {
		select {
		case state := <-c.ended:
			c.ended <- state // the buffer is empty, and there is no other writer
		case <-time.After(patience):
		}
	}
	if c.process != nil {
		_ = c.process.Kill() // through a pidfd
	}
	c.group.Kill()
}

// End kills all remaining processes and waits for their end. The kernel reports the end of a
// pid namespace's first process only after all of its processes have ended.
func (c *Cell) End() error {
	if !c.alive {
		return nil
	}
	if c.init.Load() == nil {
		// The pid of the first process is still unread if the sandbox had no run.
		_ = c.status.SetReadDeadline(time.Now().Add(patience))
		_ = c.learnInit()
	}
	if !c.reaped {
		c.kill()
		<-c.ended
		c.reaped = true
	}
	deadline := time.Now().Add(patience)
	if init := c.init.Load(); init != nil {
		fds := []unix.PollFd{{Fd: int32(init.Fd()), Events: unix.POLLIN}}
		for {
			_ = unix.PidfdSendSignal(int(fds[0].Fd), unix.SIGKILL, nil, 0)
			if n, err := unix.Poll(fds, 100); n > 0 && err == nil {
				break
			}
			if time.Now().After(deadline) {
				return fmt.Errorf("the first process of the run %s still exists", c.group.Name())
			}
		}
	}
	if err := c.group.End(); err != nil {
		return err
	}
	c.alive = false
	return nil
}

// Close ends the rest of the sandbox and releases all its resources. The user of the sandbox is
// not reused while one of its processes may exist.
func (c *Cell) Close() error {
	err := errors.Join(c.End(), c.part(context.Canceled))
	if c.listener != nil {
		_, failed := c.violations()
		err = errors.Join(err, failed)
	}
	for _, f := range []*os.File{c.control, c.status, c.stdout, c.stderr, c.init.Load()} {
		if f != nil {
			f.Close()
		}
	}
	if c.group != nil && !c.alive {
		err = errors.Join(err, c.group.Close())
	}
	err = errors.Join(err, c.plan.close())
	if !c.alive {
		c.machine.users.give(c.plan.User)
	}
	return err
}
