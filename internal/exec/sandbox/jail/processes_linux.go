package jail

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"runtime"
	"sync/atomic"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"palyra/internal/core/reason"
	"palyra/internal/exec/sandbox/cgroup"
	"palyra/internal/exec/sandbox/inside"
)

// Processes are the processes of a sandbox, from its first process on. They must be used by one
// goroutine, but learnInit may run while another goroutine kills.
type Processes struct {
	plan       *Plan
	group      *cgroup.Group
	ownSession bool

	first *os.Process
	// mounted is the copy of the workspace that was mounted for the first process, if any.
	mounted *inside.Identity
	// ended receives the state of the first process after it was reaped.
	ended  chan *os.ProcessState
	reaped bool
	// status is the pipe on which bubblewrap reports the sandbox's first process.
	status *os.File
	// init is a pidfd of the sandbox's first process, nil until the process is known, and initPID
	// is the pid of that process on the host.
	init    atomic.Pointer[os.File]
	initPID int
	// alive is true until no process of the sandbox is left.
	alive bool
}

// launch starts the first process on a dedicated thread. The kernel kills the process when its
// parent thread ends (PDEATHSIG, prctl(2)), so that the process ends with the daemon. The
// thread therefore stays until the process has ended. The thread is never unlocked, because it
// may be in control groups or mounts of the run. The runtime ends it with its goroutine.
func (p *Processes) launch(files []*os.File) error {
	begun := make(chan error, 1)
	p.ended = make(chan *os.ProcessState, 1)
	go func() {
		runtime.LockOSThread()
		first, err := p.fork(files)
		p.first = first
		begun <- err
		if first == nil {
			close(p.ended)
			return
		}
		state, _ := first.Wait()
		p.ended <- state
	}()
	err := <-begun
	p.alive = p.first != nil
	return err
}

// fork starts the first process inside the groups of the run. After an error it may still return
// a process, which must be killed.
func (p *Processes) fork(files []*os.File) (*os.Process, error) {
	if err := p.group.Enter(); err != nil {
		return nil, err
	}
	first, err := p.spawn(files)
	return first, errors.Join(err, p.group.Leave())
}

func (p *Processes) spawn(files []*os.File) (*os.Process, error) {
	if len(p.plan.Mounts) > 0 {
		var err error
		if p.mounted, err = p.plan.mount(); err != nil {
			return nil, err
		}
	}
	// A set-user-ID program would run as root; no_new_privs prevents that.
	if err := unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0); err != nil {
		return nil, err
	}
	attr := p.plan.Attr
	attr.Setsid, attr.Pdeathsig = p.ownSession, syscall.SIGKILL
	if dir := p.group.Dir(); dir != nil {
		attr.UseCgroupFD, attr.CgroupFD = true, int(dir.Fd())
	}
	path := p.plan.Path
	if path == "" {
		path = SelfPath(inside.HelperFD)
	}
	return startProcess(path, p.plan.Argv, &os.ProcAttr{Dir: "/", Env: append([]string{}, p.plan.Env...), Files: files, Sys: &attr})
}

// Waiting reports whether the sandbox is still ready for a run.
func (p *Processes) Waiting() bool {
	select {
	case state := <-p.ended:
		p.ended <- state // for a later receiver
		p.reaped = true
	default:
	}
	return p.alive && !p.reaped
}

// patience is the timeout for events that normally happen at once: bubblewrap reaps the first
// process of a sandbox without other processes, and sockets and pipes close when their
// processes end.
const patience = 10 * time.Second

// kill ends every process of the sandbox. The first process of a process namespace is killed
// first. The kernel ends all others with it, and bubblewrap reaps it and exits. If bubblewrap
// were killed at the same time, the host's first process would have to reap it. In containers,
// that process may not reap others.
func (p *Processes) kill() {
	if init := p.init.Load(); init != nil && p.plan.Arguments != nil && unix.PidfdSendSignal(int(init.Fd()), unix.SIGKILL, nil, 0) == nil {
		select {
		case state := <-p.ended:
			p.ended <- state // the buffer is empty, and there is no other writer
		case <-time.After(patience):
		}
	}
	if p.first != nil {
		_ = p.first.Kill() // through a pidfd
	}
	p.group.Kill()
}

// End kills all remaining processes and waits for their end. The kernel reports the end of a
// pid namespace's first process only after all of its processes have ended.
func (p *Processes) End() error {
	if !p.alive {
		return nil
	}
	if p.init.Load() == nil {
		// The pid of the first process is still unread if the sandbox had no run.
		_ = p.status.SetReadDeadline(time.Now().Add(patience))
		_ = p.learnInit()
	}
	if !p.reaped {
		p.kill()
		<-p.ended
		p.reaped = true
	}
	deadline := time.Now().Add(patience)
	if init := p.init.Load(); init != nil {
		fds := []unix.PollFd{{Fd: int32(init.Fd()), Events: unix.POLLIN}}
		for {
			_ = unix.PidfdSendSignal(int(fds[0].Fd), unix.SIGKILL, nil, 0)
			if n, err := unix.Poll(fds, 100); n > 0 && err == nil {
				break
			}
			if time.Now().After(deadline) {
				return fmt.Errorf("the first process of the run %s still exists", p.group.Name())
			}
		}
	}
	if err := p.group.End(); err != nil {
		return err
	}
	p.alive = false
	return nil
}

// learnInit opens a pidfd of the sandbox's first process. bubblewrap reports the pid of that
// process on the host; other backends start the process themselves.
func (p *Processes) learnInit() error {
	if p.init.Load() != nil {
		return nil
	}
	status := struct {
		ChildPID int `json:"child-pid"`
	}{p.first.Pid}
	if p.plan.Arguments != nil {
		status.ChildPID = 0
		if err := json.NewDecoder(io.LimitReader(p.status, 4096)).Decode(&status); err != nil || status.ChildPID <= 0 {
			return reason.Errorf(reason.SandboxUnavailable, "bubblewrap did not report its child process")
		}
	}
	fd, err := unix.PidfdOpen(status.ChildPID, 0)
	if err != nil {
		return errNoReport // it has already exited
	}
	p.initPID = status.ChildPID
	p.init.Store(os.NewFile(uintptr(fd), "pidfd"))
	return nil
}
