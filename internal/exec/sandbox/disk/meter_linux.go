package disk

import (
	"context"
	"errors"
	"fmt"
	"math"
	"os"
	"time"

	"golang.org/x/sys/unix"

	"palyra/internal/exec/sandbox"
)

const (
	// fastest is the assumed maximum write rate of a run in bytes per second. The remaining limit
	// divided by fastest is the time until the next check.
	fastest = 4 << 30
	// fastestFiles is the assumed maximum rate of new files per second.
	fastestFiles = 1 << 20
	// soonest and latest limit the interval of checks. urgent is the least interval while the
	// daemon's disk is running low: such a check is one system call.
	soonest, latest = 10 * time.Millisecond, 250 * time.Millisecond
	urgent          = 2 * time.Millisecond
	// stopping is the assumed time from the check that stops a run until its last write.
	stopping = 50 * time.Millisecond
	// walkAnyway is the interval of walks through the layer while the free space of the file
	// system has not decreased by the limit of the run. Such walks are needed because another
	// program may have freed as much as the run has used.
	walkAnyway = 2 * time.Second
	// walkShare limits the time spent walking, to 1 part in walkShare.
	walkShare = 10
	// mostReserve is the reserved space on the daemon's disk for its journal, or a 50th of the
	// disk if that is less.
	mostReserve = 256 << 20
	leastShare  = 50
	// mostMargin is the space above the reserve in which all runs that have used more than slack are
	// stopped: a run that writes as fast as assumed does not reach the reserve. On a small disk it
	// is a 10th of the disk. In a second margin above it, only the runs that have used up the disk
	// are stopped.
	mostMargin  = fastest / int64(time.Second/(urgent+stopping))
	marginShare = 10
	// leastPart is the part of the decrease of free space since its start, 1 in leastPart, that a run
	// has used if it has used up the disk.
	leastPart = 8
	// slack is the decrease of free space that is not attributed to a run.
	slack = 16 << 20
	// leastUse is the use of a run that is attributed to it even if the reserve is in use. It is less
	// than slack, because 16 runs that use slack each fill
	// the largest reserve.
	leastUse = 1 << 20
	// leastHidden is the number of consecutive walks in which a run must hold a file that no process
	// shows. Ordinary programs have such a file for a moment, while one process sends it to another.
	leastHidden = 4
)

// space is the free space of a file system.
type space struct{ size, bytes, files int64 }

// Meter measures whether a run exceeds its disk limits. It must be used by one goroutine.
type Meter struct {
	layer, state int
	program      Program
	limit        usage
	// accounted is the result of accounts for the file system that the run may use up.
	accounted bool
	// known is the result of the last walk. then is the free space of the layer's file system at
	// the last walk, and now is its most recent free space.
	known     usage
	then, now space
	// first is the initial free space of the layer's file system.
	first space
	// start is the initial free space of the daemon's file system, and left its most recent one.
	start, left space
	walked      time.Time
	took        time.Duration
	// hidden is the number of the last walks in which the run may have held a hidden file.
	hidden int
	// statfs is replaced by tests.
	statfs func(fd int) (space, error)
}

// NewMeter starts to measure. layer is the still empty upper directory of a copy-on-write run,
// and nil for other runs. state is the daemon's directory, which must keep a reserve. Both must
// stay open while the Meter is in use.
func NewMeter(layer, state *os.File, p Program, limits sandbox.Limits) (*Meter, error) {
	limits = limits.OrDefault()
	m := &Meter{layer: -1, state: int(state.Fd()), program: p, limit: usage{limits.Disk, limits.Files}, walked: time.Now(), statfs: statfs}
	m.accounted = accounts(m.state)
	if layer != nil {
		m.layer = int(layer.Fd())
		m.accounted = accounts(m.layer)
	}
	return m, m.begin()
}

func (m *Meter) begin() error {
	var err error
	if m.start, err = m.statfs(m.state); err != nil {
		return fmt.Errorf("reading the free space for the daemon's state: %w", err)
	}
	m.left = m.start
	if m.layer >= 0 {
		if m.then, err = m.statfs(m.layer); err != nil {
			return fmt.Errorf("reading the free space for the layer: %w", err)
		}
		m.now, m.first = m.then, m.then
	}
	return nil
}

func statfs(fd int) (space, error) {
	var st unix.Statfs_t
	if err := unix.Fstatfs(fd, &st); err != nil {
		return space{}, err
	}
	unit := int64(st.Frsize)
	if unit == 0 {
		unit = int64(st.Bsize)
	}
	return space{size: int64(st.Blocks) * unit, bytes: int64(st.Bavail) * unit, files: int64(st.Ffree)}, nil
}

// Watch waits until the run must be stopped and returns sandbox.QuotaDisk. It returns "" when ctx
// ends.
func (m *Meter) Watch(ctx context.Context) sandbox.Quota {
	timer := time.NewTimer(m.next())
	defer timer.Stop()
	for {
		select {
		case <-ctx.Done():
			return ""
		case <-timer.C:
		}
		if m.Over(ctx) {
			return sandbox.QuotaDisk
		}
		timer.Reset(m.next())
	}
}

// Over reports whether the run has exceeded its limits or is using up the daemon's disk. An
// unmeasurable layer counts as over.
func (m *Meter) Over(ctx context.Context) bool { return m.look(ctx, false) }

// Ended is Over for a run that has ended. It does not wait for walkAnyway, because a short run
// may end before Watch has checked it. Another program may also have freed as much disk as the
// run has used.
func (m *Meter) Ended(ctx context.Context) bool { return m.look(ctx, true) }

// Used returns the size of the layer at the last measurement, in bytes and files.
func (m *Meter) Used() (bytes, files int64) {
	used := m.atMost()
	return used.bytes, used.files
}

func (m *Meter) look(ctx context.Context, last bool) bool {
	tolerated, err := m.tolerated()
	if err != nil {
		return true
	}
	if m.layer < 0 {
		return !last && tolerated < unlimited && written(m.program, m.accounted) > tolerated
	}
	if m.now, err = m.statfs(m.layer); err != nil {
		return true
	}
	if !last && m.atMost().bytes > tolerated {
		if m.took > soonest {
			return written(m.program, m.accounted) > tolerated // a walk would take too long
		}
		return m.walk(ctx, last, usage{min(tolerated, m.limit.bytes), m.limit.files})
	}
	rested := last || time.Since(m.walked) >= max(walkAnyway, walkShare*m.took)
	if m.atMost().over(m.limit) || rested && m.now != m.then {
		return m.walk(ctx, last, m.limit)
	}
	return false
}

// atMost returns the maximum size of the layer, assuming that all space used on its file system
// since the last walk is in the layer.
func (m *Meter) atMost() usage {
	return usage{
		bytes: m.known.bytes + max(0, m.then.bytes-m.now.bytes),
		files: m.known.files + max(0, m.then.files-m.now.files),
	}
}

// walk compares the size of the layer with a limit. Unreadable parts count with their maximum
// possible size.
func (m *Meter) walk(ctx context.Context, last bool, limit usage) bool {
	began := time.Now()
	used, err := m.size(ctx, last, limit)
	m.walked = time.Now()
	m.took = m.walked.Sub(began)
	switch {
	case ctx.Err() != nil:
		return false
	case errors.Is(err, errHidden):
		return used.over(limit) || m.atMost().over(limit)
	case err != nil:
		return true
	}
	m.known, m.then = used, m.now
	return used.over(limit)
}

// size returns the size of the layer with the removed files that the run keeps open. Removed files
// are searched only if space is missing that the layer does not explain. After the run none is
// open.
func (m *Meter) size(ctx context.Context, last bool, limit usage) (usage, error) {
	used, err := measure(ctx, m.layer, limit)
	missing := m.first.bytes - m.now.bytes - used.bytes
	if err != nil || last || used.over(limit) || missing <= slack {
		return used, err
	}
	open, err := unlinked(ctx, m.program, usage{limit.bytes - used.bytes, limit.files - used.files})
	used.bytes += open.bytes
	used.files += open.files
	if !errors.Is(err, errHidden) {
		m.hidden = 0
		return used, err
	}
	if m.hidden++; m.hidden >= leastHidden {
		used.bytes += max(0, m.mostHidden(missing-open.bytes))
	}
	return used, nil
}

// mostHidden returns the maximum size of the removed files that no process shows. Others may have
// used the missing space, so it is limited to what the run has written. That figure lacks children
// that end without a wait (SIGCHLD ignored), and thus it does not protect the reserve.
func (m *Meter) mostHidden(missing int64) int64 {
	if !m.accounted || m.left.bytes < reserveOf(m.left.size) {
		return missing
	}
	return min(missing, written(m.program, true))
}

// unlimited is the part of a disk that is not running low.
const unlimited = math.MaxInt64

// tolerated returns the bytes that the run may have written while the daemon's disk runs low.
// Runs that have written more have used up the disk, and are stopped; the others continue.
func (m *Meter) tolerated() (int64, error) {
	now, err := m.statfs(m.state)
	if err != nil {
		return 0, err
	}
	m.left = now
	reserve, margin := reserveOf(now.size), marginOf(now.size)
	used := m.start.bytes - now.bytes
	switch {
	case used <= min(slack, reserve/4) || now.bytes >= reserve+2*margin:
		return unlimited, nil
	case now.bytes >= reserve:
		// The part becomes smaller as the margin does, because many runs may use up a disk together.
		left := float64(now.bytes-reserve-margin) / float64(margin)
		return max(min(slack, reserve), int64(left*float64(used/leastPart))), nil
	}
	return leastUse, nil
}

func reserveOf(size int64) int64 { return min(mostReserve, size/leastShare) }

func marginOf(size int64) int64 { return min(mostMargin, size/marginShare) }

// next returns the time until the next check. The less space is free, the sooner it is.
func (m *Meter) next() time.Duration {
	free := m.left.bytes - reserveOf(m.left.size) - 2*marginOf(m.left.size)
	state := max(share(free, fastest), urgent)
	if m.layer < 0 {
		return min(state, latest)
	}
	atMost := m.atMost()
	wait := min(share(m.limit.bytes-atMost.bytes, fastest), share(m.limit.files-atMost.files, fastestFiles))
	return min(max(wait, soonest, m.took), state, latest)
}

// share returns n/parts of a second.
func share(n, parts int64) time.Duration {
	return time.Duration(float64(n) / float64(parts) * float64(time.Second))
}
