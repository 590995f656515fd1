package disk

import (
	"context"
	"errors"
	"fmt"
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
	// soonest and latest limit the interval of checks.
	soonest, latest = 10 * time.Millisecond, 250 * time.Millisecond
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
	// slack is the decrease of free space that is not attributed to a run.
	slack = 16 << 20
)

// space is the free space of a file system.
type space struct{ size, bytes, files int64 }

// Meter measures whether a run exceeds its disk limits. It must be used by one goroutine.
type Meter struct {
	layer, state int
	limit        usage
	// known is the result of the last walk. then is the free space of the layer's file system at
	// the last walk, and now is its most recent free space.
	known     usage
	then, now space
	// start is the initial free space of the daemon's file system.
	start  space
	walked time.Time
	took   time.Duration
	// statfs is replaced by tests.
	statfs func(fd int) (space, error)
}

// NewMeter starts to measure. layer is the still empty upper directory of a copy-on-write run,
// and nil for other runs. state is the daemon's directory, which must keep a reserve. Both must
// stay open while the Meter is in use.
func NewMeter(layer, state *os.File, limits sandbox.Limits) (*Meter, error) {
	limits = limits.OrDefault()
	m := &Meter{layer: -1, state: int(state.Fd()), limit: usage{limits.Disk, limits.Files}, walked: time.Now(), statfs: statfs}
	if layer != nil {
		m.layer = int(layer.Fd())
	}
	return m, m.begin()
}

func (m *Meter) begin() error {
	var err error
	if m.start, err = m.statfs(m.state); err != nil {
		return fmt.Errorf("reading the free space for the daemon's state: %w", err)
	}
	if m.layer >= 0 {
		if m.then, err = m.statfs(m.layer); err != nil {
			return fmt.Errorf("reading the free space for the layer: %w", err)
		}
		m.now = m.then
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

// Over reports whether the run has exceeded its limits or has used a part of the daemon's
// reserve. An unmeasurable layer counts as over.
//
// A walk does not find a removed file that is still open. Only the reserve limits such files;
// they are freed when the run is stopped.
func (m *Meter) Over(ctx context.Context) bool { return m.look(ctx, false) }

// Ended is Over for a run that has ended. It does not wait for walkAnyway, because a short run
// may end before Watch has checked it. Another program may also have freed as much disk as the
// run has used.
func (m *Meter) Ended(ctx context.Context) bool { return m.look(ctx, true) }

func (m *Meter) look(ctx context.Context, last bool) bool {
	low, err := m.low()
	if err != nil || low {
		return true
	}
	if m.layer < 0 {
		return false
	}
	if m.now, err = m.statfs(m.layer); err != nil {
		return true
	}
	rested := last || time.Since(m.walked) >= max(walkAnyway, walkShare*m.took)
	if m.atMost().over(m.limit) || rested && m.now != m.then {
		return m.walk(ctx)
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

// walk measures the layer. Unreadable parts count with their maximum possible size.
func (m *Meter) walk(ctx context.Context) bool {
	began := time.Now()
	used, err := measure(ctx, m.layer, m.limit)
	m.walked = time.Now()
	m.took = m.walked.Sub(began)
	switch {
	case ctx.Err() != nil:
		return false
	case errors.Is(err, errHidden):
		return used.over(m.limit) || m.atMost().over(m.limit)
	case err != nil:
		return true
	}
	m.known, m.then = used, m.now
	return used.over(m.limit)
}

// low reports whether the daemon's disk has run low during this run.
func (m *Meter) low() (bool, error) {
	now, err := m.statfs(m.state)
	if err != nil {
		return false, err
	}
	reserve := min(mostReserve, now.size/leastShare)
	return now.bytes < reserve && m.start.bytes-now.bytes > min(slack, reserve/4), nil
}

// next returns the time until the next check.
func (m *Meter) next() time.Duration {
	if m.layer < 0 {
		return latest
	}
	atMost := m.atMost()
	wait := min(share(m.limit.bytes-atMost.bytes, fastest), share(m.limit.files-atMost.files, fastestFiles))
	return min(max(wait, soonest, m.took), latest)
}

// share returns n/parts of a second.
func share(n, parts int64) time.Duration {
	return time.Duration(float64(n) / float64(parts) * float64(time.Second))
}
