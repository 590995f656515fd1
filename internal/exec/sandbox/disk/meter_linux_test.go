package disk

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strconv"
	"testing"
	"testing/synctest"
	"time"

	"golang.org/x/sys/unix"

	"palyra/internal/core/must"
	"palyra/internal/exec/sandbox"
)

const (
	mib = 1 << 20
	gib = 1 << 30
)

// disks are the results of statfs for the two file systems of a Meter.
type disks struct {
	layer, state space
	err          error
}

// alone is a program without processes.
func alone() Program { return Program{Processes: func() []int { return nil }, Dir: "/workspace"} }

// fakeMeter measures a real layer on simulated file systems.
func fakeMeter(t *testing.T, limits sandbox.Limits) (*Meter, *disks, string) {
	t.Helper()
	dir := t.TempDir()
	layer, state := openTest(t, dir), openTest(t, t.TempDir())
	d := &disks{layer: space{100 * gib, 50 * gib, 1e6}, state: space{100 * gib, 50 * gib, 1e6}}
	m := must.Get(NewMeter(layer, state, alone(), limits))(t)
	m.statfs = func(fd int) (space, error) {
		if fd == int(layer.Fd()) {
			return d.layer, d.err
		}
		return d.state, d.err
	}
	must.Do(t, m.begin())
	return m, d, dir
}

func TestOver(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name  string
		write int // in the layer, in MiB
		files int
		disks func(*disks)
		wait  time.Duration
		ended bool
		want  bool
	}{
		{name: "nothing", disks: func(*disks) {}},
		{name: "a neighbour writes", disks: func(d *disks) { d.layer.bytes -= 10 * gib; d.layer.files -= 1e5 }},
		{name: "the run writes", write: 5, disks: func(d *disks) { d.layer.bytes -= 5 * mib }, want: true},
		{name: "the run makes files", files: 30, disks: func(d *disks) { d.layer.files -= 30 }, want: true},
		{name: "within the limit", write: 3, files: 5, disks: func(d *disks) { d.layer.bytes -= 4 * mib; d.layer.files -= 6 }},
		{name: "a neighbour frees as much", write: 5, disks: func(d *disks) { d.layer.bytes++ }},
		{name: "a neighbour frees as much, and the run has ended", write: 5, disks: func(d *disks) { d.layer.bytes++ }, ended: true, want: true},
		{name: "the run has ended", write: 3, disks: func(d *disks) { d.layer.bytes -= 10 * gib }, ended: true},
		{name: "a neighbour frees as much, later", write: 5, disks: func(d *disks) { d.layer.bytes++ }, wait: walkAnyway, want: true},
		{name: "the daemon's disk is low, but was before", disks: func(d *disks) { d.state.bytes -= mib }},
		{name: "the run uses up the daemon's disk", write: 2, disks: func(d *disks) { d.state.bytes, d.layer.bytes = 100*mib, d.layer.bytes-2*mib }, want: true},
		{name: "a neighbour uses up the daemon's disk", disks: func(d *disks) { d.state.bytes, d.layer.bytes = 100*mib, d.layer.bytes-2*gib }},
		{name: "the daemon's disk was used up when the run ended", write: 2, disks: func(d *disks) { d.state.bytes, d.layer.bytes = 100*mib, d.layer.bytes-2*mib }, ended: true},
		{name: "the file systems cannot be seen", disks: func(d *disks) { d.err = errors.New("gone") }, want: true},
	} {
		t.Run(c.name, func(t *testing.T) {
			m, d, dir := fakeMeter(t, sandbox.Limits{Disk: 4 * mib, Files: 20})
			if c.name == "the daemon's disk is low, but was before" {
				d.state.bytes = 50 * mib
				must.Do(t, m.begin())
			}
			if c.write > 0 {
				write(t, filepath.Join(dir, "data"), c.write*mib)
			}
			for i := range c.files {
				write(t, filepath.Join(dir, strconv.Itoa(i)), 0)
			}
			c.disks(d)
			m.walked = time.Now().Add(-c.wait)
			over := m.Over
			if c.ended {
				over = m.Ended
			}
			if got := over(t.Context()); got != c.want {
				t.Errorf("over: %t; known %+v", got, m.known)
			}
		})
	}
}

// A walk that explains the used space is not repeated.
func TestOverWalksWhenItMust(t *testing.T) {
	t.Parallel()
	m, d, _ := fakeMeter(t, sandbox.Limits{Disk: 4 * mib, Files: 20})
	d.layer.bytes -= 10 * gib
	if m.Over(t.Context()) {
		t.Fatal("a neighbour's bytes count")
	}
	walked := m.walked
	if m.Over(t.Context()) || m.walked != walked {
		t.Error("it walked again though nothing has changed")
	}
	d.layer.bytes -= 10 * gib
	if m.Over(t.Context()) || m.walked == walked {
		t.Error("it did not walk though as much as the limit has gone")
	}
}

func TestSmallDiskHasASmallReserve(t *testing.T) {
	t.Parallel()
	m, d, _ := fakeMeter(t, sandbox.Limits{})
	d.state = space{size: gib, bytes: 100 * mib, files: 1000}
	d.state.bytes = 400 * mib
	must.Do(t, m.begin())
	for free, want := range map[int64]int64{230 * mib: unlimited, 121 * mib: min(slack, gib/leastShare), 15 * mib: leastUse} {
		d.state.bytes = free
		if got, err := m.tolerated(); err != nil || got != want {
			t.Errorf("%d MiB of 1 GiB: %d are tolerated, %v; want %d", free/mib, got, err, want)
		}
	}
}

// TestReserveIsOutOfReach: a run that writes as fast as assumed is stopped before it reaches the
// reserve, whatever the free space at its start.
func TestReserveIsOutOfReach(t *testing.T) {
	t.Parallel()
	for _, layered := range []bool{true, false} {
		for _, size := range []int64{5 * gib, 100 * gib} {
			for free := size / 5; free < size; free += size / 7 {
				m, d, _ := fakeMeter(t, sandbox.Limits{Disk: size})
				if !layered {
					m.layer = -1
				}
				d.state.size, d.state.bytes = size, free
				must.Do(t, m.begin())
				for {
					d.state.bytes -= int64(m.next().Seconds() * fastest)
					if tolerated, err := m.tolerated(); err != nil || tolerated < unlimited {
						break
					}
				}
				if after := d.state.bytes - int64(stopping.Seconds()*fastest); after < reserveOf(size) {
					t.Errorf("a layer %t, %d MiB free of %d: the run leaves %d of the reserve of %d", layered, free/mib, size/mib, after/mib, reserveOf(size)/mib)
				}
			}
		}
	}
}

// TestOthersUsedUpTheDisk: a run is stopped before it reaches the reserve even if others have used
// far more since its start.
func TestOthersUsedUpTheDisk(t *testing.T) {
	t.Parallel()
	m, d, _ := fakeMeter(t, sandbox.Limits{})
	d.state.bytes = 700 * mib
	used := int64(0)
	for {
		tolerated, err := m.tolerated()
		if err != nil || used > tolerated {
			break
		}
		step := int64(m.next().Seconds() * fastest)
		d.state.bytes, used = d.state.bytes-step, used+step
	}
	if after := d.state.bytes - int64(stopping.Seconds()*fastest); after < mostReserve {
		t.Errorf("the run leaves %d MiB of the reserve", after/mib)
	}
}

// TestHogsEnd: of the runs that use up a disk together only those with a large part are stopped.
func TestHogsEnd(t *testing.T) {
	t.Parallel()
	const honest = 20
	if honest*mib <= slack {
		t.Fatal("the honest run would not be stopped by slack")
	}
	for _, c := range []struct {
		name             string
		hogs, each, free int64 // in MiB
		honest, want     bool  // whether they are stopped
	}{
		{name: "far above the reserve", hogs: 1, each: 900, free: 1000},
		{name: "one hog", hogs: 1, each: 900, free: 600, want: true},
		{name: "8 equal hogs", hogs: 8, each: 100, free: 600, want: true},
		{name: "16 equal hogs", hogs: 16, each: 100, free: 560, want: true},
		{name: "close to the reserve, a control", hogs: 1, each: 900, free: 400, want: true, honest: true},
	} {
		t.Run(c.name, func(t *testing.T) {
			over := func(use int64) bool {
				m, d, dir := fakeMeter(t, sandbox.Limits{Disk: 2 * gib})
				f := must.Get(os.Create(filepath.Join(dir, "data")))(t)
				defer f.Close()
				must.Do(t, unix.Fallocate(int(f.Fd()), 0, 0, use*mib))
				used := (c.hogs*c.each + honest) * mib
				d.state.bytes = c.free*mib + used
				must.Do(t, m.begin())
				d.state.bytes, d.layer.bytes = c.free*mib, d.layer.bytes-used
				return m.Over(t.Context())
			}
			if got := over(c.each); got != c.want {
				t.Errorf("a hog is stopped: %t", got)
			}
			if got := over(honest); got != c.honest {
				t.Errorf("the honest run is stopped: %t", got)
			}
		})
	}
}

func TestNext(t *testing.T) {
	t.Parallel()
	m, d, _ := fakeMeter(t, sandbox.Limits{})
	if got := m.next(); got < 150*time.Millisecond || got > latest {
		t.Errorf("far from the limit: %s", got)
	}
	m.now.bytes -= gib - mib
	if got := m.next(); got != soonest {
		t.Errorf("at the limit: %s", got)
	}
	m.took = latest / 2
	if got := m.next(); got != latest/2 {
		t.Errorf("with walks that take long: %s", got)
	}
	other, err := NewMeter(nil, openTest(t, t.TempDir()), alone(), sandbox.Limits{})
	if err != nil || other.next() != latest || other.Over(t.Context()) {
		t.Errorf("without a layer: %v", err)
	}
	d.err = errors.New("gone")
	if m.begin() == nil {
		t.Error("file systems that cannot be seen are measured")
	}
}

func TestWatch(t *testing.T) {
	t.Parallel()
	m, d, dir := fakeMeter(t, sandbox.Limits{Disk: 4 * mib})
	write(t, filepath.Join(dir, "data"), 5*mib)
	synctest.Test(t, func(t *testing.T) {
		m.walked = time.Now()
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		// The file system shows no change: a second is too short for a walk.
		if got := m.Watch(ctx); got != "" {
			t.Errorf("stopped for %q", got)
		}
		start := time.Now()
		d.layer.bytes--
		if got := m.Watch(t.Context()); got != sandbox.QuotaDisk {
			t.Errorf("stopped for %q", got)
		}
		if took := time.Since(start); took > walkAnyway {
			t.Errorf("stopped after %s", took)
		}
	})
}

// A real file system shows the writes of a run immediately. If other writers free the same
// amount meanwhile, a walk finds the writes.
func TestRealFileSystem(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	m := must.Get(NewMeter(openTest(t, dir), openTest(t, t.TempDir()), alone(), sandbox.Limits{Disk: 64 * mib, Files: 1000}))(t)
	if m.Over(t.Context()) {
		t.Error("an empty layer is over its limit")
	}
	f := must.Get(os.Create(filepath.Join(dir, "data")))(t)
	defer f.Close()
	block := make([]byte, mib)
	for range 80 {
		must.Get(f.Write(block))(t)
	}
	must.Do(t, f.Sync())
	ctx, cancel := context.WithTimeout(t.Context(), must.Patience)
	defer cancel()
	if m.Watch(ctx) != sandbox.QuotaDisk {
		t.Errorf("80 MiB of 64 are not over; known %+v, file system %+v", m.known, m.now)
	}
}
