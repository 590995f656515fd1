package seatbelt

import (
	"errors"
	"fmt"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// zombie is SZOMB of sys/proc.h.
const zombie = 5

// processes follows the tree of one run: the members of its process group and all processes that
// a known process has started. A kqueue(2) reports every fork of a known process, after which all
// processes of the system are checked.
type processes struct {
	root  int32
	queue int
	done  sync.WaitGroup

	mu sync.Mutex
	// known maps process ids to the time of their start, because ids are reused.
	known map[int32]unix.Timeval
}

// follow starts to follow the tree below the leader of a session.
func follow(pid int) (tree, error) {
	queue, err := unix.Kqueue()
	if err != nil {
		return nil, fmt.Errorf("kqueue: %w", err)
	}
	unix.CloseOnExec(queue)
	p := &processes{root: int32(pid), queue: queue, known: map[int32]unix.Timeval{}}
	stop := unix.Kevent_t{Filter: unix.EVFILT_USER, Flags: unix.EV_ADD | unix.EV_CLEAR}
	if _, err := unix.Kevent(queue, []unix.Kevent_t{stop}, nil, nil); err != nil {
		unix.Close(queue)
		return nil, fmt.Errorf("kevent: %w", err)
	}
	p.look()
	p.done.Go(p.listen)
	return p, nil
}

// listen checks the processes again at every fork until close.
func (p *processes) listen() {
	events := make([]unix.Kevent_t, 16)
	for {
		n, err := unix.Kevent(p.queue, nil, events, nil)
		if errors.Is(err, unix.EINTR) {
			continue
		}
		if err != nil {
			return
		}
		for _, e := range events[:n] {
			if e.Filter == unix.EVFILT_USER {
				return
			}
		}
		p.look()
	}
}

func (p *processes) close() {
	stop := unix.Kevent_t{Filter: unix.EVFILT_USER, Fflags: unix.NOTE_TRIGGER}
	_, _ = unix.Kevent(p.queue, []unix.Kevent_t{stop}, nil, nil)
	p.done.Wait()
	unix.Close(p.queue)
}

// look adds new processes, removes those that have exited, and returns the number of living ones.
func (p *processes) look() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	all, err := unix.SysctlKinfoProcSlice("kern.proc.all")
	if err != nil {
		return len(p.known)
	}
	alive := map[int32]unix.Timeval{}
	for {
		found := len(alive)
		for i := range all {
			k := &all[i]
			pid := k.Proc.P_pid
			if _, have := alive[pid]; have || k.Proc.P_stat == zombie {
				continue
			}
			since, was := p.known[pid]
			_, child := alive[k.Eproc.Ppid]
			if was && since == k.Proc.P_starttime || child || k.Eproc.Pgid == p.root {
				alive[pid] = k.Proc.P_starttime
			}
		}
		if len(alive) == found {
			break
		}
	}
	for pid := range alive {
		if _, was := p.known[pid]; !was {
			p.subscribe(pid)
		}
	}
	p.known = alive
	return len(alive)
}

// subscribe requests notifications about a process's forks. A process that has just ended needs
// none.
func (p *processes) subscribe(pid int32) {
	event := unix.Kevent_t{Filter: unix.EVFILT_PROC, Flags: unix.EV_ADD | unix.EV_CLEAR, Fflags: unix.NOTE_FORK}
	event.Ident = uint64(pid)
	_, _ = unix.Kevent(p.queue, []unix.Kevent_t{event}, nil, nil)
}

// kill ends all known processes, repeatedly while there are new ones. It stops them first, so
// that they cannot start others meanwhile.
func (p *processes) kill() error {
	deadline := time.Now().Add(5 * time.Second)
	for wait := 50 * time.Microsecond; ; wait = min(2*wait, 10*time.Millisecond) {
		_ = unix.Kill(-int(p.root), unix.SIGKILL)
		if p.look() == 0 {
			return nil
		}
		p.signal(unix.SIGSTOP)
		p.look()
		p.signal(unix.SIGKILL)
		if time.Now().After(deadline) {
			return fmt.Errorf("processes of the run %d still exist", p.root)
		}
		time.Sleep(wait)
	}
}

func (p *processes) signal(s unix.Signal) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for pid := range p.known {
		_ = unix.Kill(int(pid), s)
	}
}

// peakMemory returns the memory in bytes. Maxrss is in bytes on macOS.
func peakMemory(u *syscall.Rusage) int64 { return u.Maxrss }
