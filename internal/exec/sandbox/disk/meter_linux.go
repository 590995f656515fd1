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
	// fastest is how many bytes per second a run is taken to write at most;
	// what is left of its limit divided by it says when to look again.
	fastest = 4 << 30
	// fastestFiles is the same for files.
	fastestFiles = 1 << 20
	// soonest and latest bound the time between two looks.
	soonest, latest = 10 * time.Millisecond, 250 * time.Millisecond
	// walkAnyway is how often the layer is walked although the file system has
	// not lost enough free space for the run to be over its limit: another
	// program may have freed as much as the run has taken.
	walkAnyway = 2 * time.Second
	// walkShare bounds the time spent walking: 1 part in so many.
	walkShare = 10
	// mostReserve is how much of the daemon's disk stays free for its journal,
	// or a 50th of the disk if that is less.
	mostReserve = 256 << 20
	leastShare  = 50
	// slack is how much free space may go before a run is held to have to do
	// with it.
	slack = 16 << 20
)

// space is what a file system has left.
type space struct{ size, bytes, files int64 }

// Meter says whether a run writes more than it may. One goroutine may use it.
type Meter struct {
	layer, state int
	limit        usage
	// known is what the last walk found, and then what the layer's file
	// system had left at that time; now is what it had left most recently.
	known     usage
	then, now space
	// start is what the daemon's file system had left at the beginning.
	start  space
	walked time.Time
	took   time.Duration
	// statfs is replaced by tests.
	statfs func(fd int) (space, error)
}

// NewMeter begins to measure. Layer is the upper directory that a
// copy-on-write run writes to, empty yet, and nil for other runs. State is the
// daemon's directory, which has to keep a reserve. Both stay open until the
// Meter is not used any more.
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
		return fmt.Errorf("looking at the free space for the daemon's state: %w", err)
	}
	if m.layer >= 0 {
		if m.then, err = m.statfs(m.layer); err != nil {
			return fmt.Errorf("looking at the free space for the layer: %w", err)
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

// Watch waits until the run has to be stopped and returns sandbox.QuotaDisk.
// It returns "" when ctx is done.
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

// Over looks whether the run has written more than it may, or so much that the
// daemon's reserve is touched. What cannot be measured counts as over.
//
// A file that was removed while something holds it open is in no walk. Such
// files are bounded by the reserve alone; they go when the run is stopped.
func (m *Meter) Over(ctx context.Context) bool { return m.look(ctx, false) }

// Ended is Over for a run that has ended. It does not wait for walkAnyway: a short
// run may be over before Watch has looked, and another program may have freed as
// much disk as the run has taken.
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

// atMost is what the layer holds when all that has gone from its file system
// since the last walk went there.
func (m *Meter) atMost() usage {
	return usage{
		bytes: m.known.bytes + max(0, m.then.bytes-m.now.bytes),
		files: m.known.files + max(0, m.then.files-m.now.files),
	}
}

// walk finds out what the layer holds. What is hidden from the walk counts as
// much as it can be.
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

// low reports whether the daemon's disk has run low while this run went on.
func (m *Meter) low() (bool, error) {
	now, err := m.statfs(m.state)
	if err != nil {
		return false, err
	}
	reserve := min(mostReserve, now.size/leastShare)
	return now.bytes < reserve && m.start.bytes-now.bytes > min(slack, reserve/4), nil
}

// next is how long to wait for the next look.
func (m *Meter) next() time.Duration {
	if m.layer < 0 {
		return latest
	}
	atMost := m.atMost()
	wait := min(share(m.limit.bytes-atMost.bytes, fastest), share(m.limit.files-atMost.files, fastestFiles))
	return min(max(wait, soonest, m.took), latest)
}

// share is n parts of a second.
func share(n, parts int64) time.Duration {
	return time.Duration(float64(n) / float64(parts) * float64(time.Second))
}
