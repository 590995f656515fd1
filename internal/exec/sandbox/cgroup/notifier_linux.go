package cgroup

import (
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	"golang.org/x/sys/unix"
)

// notifier waits for the kernel's notifications about a group's memory and processes. Its epoll
// descriptor is in the Go runtime's poller, so that the wait blocks no thread.
type notifier struct {
	// complete is false if the kernel notifies only about some counters, so that polling is
	// needed as well.
	complete bool
	epoll    int
	file     *os.File // owns epoll
	fds      []int
}

// newNotifier never fails: counters without notifications are polled.
func newNotifier() *notifier {
	fd, err := unix.EpollCreate1(unix.EPOLL_CLOEXEC)
	if err != nil {
		return &notifier{}
	}
	_ = unix.SetNonblock(fd, true) // NewFile uses the poller only for nonblocking descriptors
	return &notifier{epoll: fd, file: os.NewFile(uintptr(fd), "epoll")}
}

// listen returns a notifier for exceeded limits.
func (g *Group) listen() *notifier {
	b := newNotifier()
	b.complete = b.file != nil && (g.tree.level == Rlimit || b.addLimits(g) == nil)
	return b
}

// addLimits always fails for version 1, which notifies about memory but not about refused forks.
func (b *notifier) addLimits(g *Group) error {
	if g.tree.level == V2 {
		failed := errors.Join(b.addFile(g.path("", "memory.events")), b.addFile(g.path("", "pids.events")))
		if g.tree.parent != nil {
			failed = errors.Join(failed, b.addFile(g.tree.parent.path("", "pids.events")))
		}
		return failed
	}
	return errors.Join(b.addMemory(g), errNotTold)
}

var errNotTold = errors.New("version 1 does not notify about refused forks")

// addFile waits for a change of a kernel file: POLLPRI, as in sysfs.
func (b *notifier) addFile(name string) error {
	fd, err := retry(func() (int, error) { return unix.Open(name, unix.O_RDONLY|unix.O_CLOEXEC, 0) })
	if err != nil {
		return err
	}
	b.fds = append(b.fds, fd)
	readAll(fd) // reading clears the pending notification
	return b.add(fd, unix.EPOLLPRI)
}

// addMemory registers an out-of-memory notification of version 1: an eventfd is written to
// cgroup.event_control together with the file.
func (b *notifier) addMemory(g *Group) error {
	about, err := retry(func() (int, error) {
		return unix.Open(g.path("memory", "memory.oom_control"), unix.O_RDONLY|unix.O_CLOEXEC, 0)
	})
	if err != nil {
		return err
	}
	defer unix.Close(about)
	event, err := unix.Eventfd(0, unix.EFD_CLOEXEC|unix.EFD_NONBLOCK)
	if err != nil {
		return err
	}
	b.fds = append(b.fds, event)
	if err := writeFile(g.path("memory", "cgroup.event_control"), fmt.Sprintf("%d %d", event, about)); err != nil {
		return err
	}
	return b.add(event, unix.EPOLLIN)
}

func (b *notifier) add(fd int, events uint32) error {
	return unix.EpollCtl(b.epoll, unix.EPOLL_CTL_ADD, fd, &unix.EpollEvent{Events: events | unix.EPOLLET})
}

// wait returns true after a notification, and false when ctx ends or after the duration most.
// If most is 0, wait has no time limit.
func (b *notifier) wait(ctx context.Context, most time.Duration) bool {
	var deadline time.Time
	if most > 0 {
		deadline = time.Now().Add(most)
	}
	if b.file == nil || b.file.SetReadDeadline(deadline) != nil {
		pause(ctx, most)
		return false
	}
	// The context may end before or after the deadline was set.
	stop := context.AfterFunc(ctx, func() { _ = b.file.SetReadDeadline(time.Unix(1, 0)) })
	defer stop()
	conn, err := b.file.SyscallConn()
	if err != nil {
		return false
	}
	rang := false
	_ = conn.Read(func(uintptr) bool {
		var events [4]unix.EpollEvent
		n, _ := retry(func() (int, error) { return unix.EpollWait(b.epoll, events[:], 0) })
		rang = n > 0
		return rang
	})
	return rang
}

// pause waits without notifications. It is used if the process has run out of descriptors.
func pause(ctx context.Context, most time.Duration) {
	timer := time.NewTimer(max(most, tick))
	defer timer.Stop()
	select {
	case <-ctx.Done():
	case <-timer.C:
	}
}

func (b *notifier) close() {
	if b.file != nil {
		b.file.Close()
	}
	for _, fd := range b.fds {
		unix.Close(fd)
	}
}
