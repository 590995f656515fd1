package sqlite

import (
	"context"
	"os"
	"path/filepath"
	"sync/atomic"
	"testing"

	"palyra/internal/core/access"
	"palyra/internal/core/event"
	"palyra/internal/core/must"
	"palyra/internal/core/reason"
	"palyra/internal/evidence/journal"
)

const mib = 1 << 20

// fakeDisk is a disk of 100 MiB with a reserve; the store's own writes do not count.
type fakeDisk struct {
	t      *testing.T
	path   string
	others atomic.Int64
	// told counts the notices to operators.
	told atomic.Int64
}

func (d *fakeDisk) space(string) (free, total int64, err error) {
	info, err := os.Stat(reservePath(d.path))
	if err != nil && !os.IsNotExist(err) {
		d.t.Errorf("looking at the reserve: %v", err)
	}
	total = 100 * mib
	free = total - d.others.Load()
	if err == nil {
		free -= info.Size()
	}
	return max(free, 0), total, nil
}

// leave lets other programs use up all but n bytes of the disk.
func (d *fakeDisk) leave(n int64) {
	d.others.Store(0)
	free, _, _ := d.space("")
	d.others.Store(free - n)
}

func openOnDisk(t *testing.T, bytes int64) (*DB, *fakeDisk) {
	t.Helper()
	d := &fakeDisk{t: t, path: filepath.Join(t.TempDir(), "palyra.db")}
	db := must.Get(Open(t.Context(), d.path, Options{Reserve: ReserveOptions{Bytes: bytes, space: d.space, Changed: func(ReserveState) { d.told.Add(1) }}}))(t)
	t.Cleanup(func() { must.Check(t, db.Close(context.Background())) })
	if r := db.writer.reserve; r != nil {
		r.fill()
	}
	return db, d
}

func put(t *testing.T, db *DB, p access.Precedence) error {
	t.Helper()
	_, err := db.Append(access.Precede(t.Context(), p), event.Draft{Code: event.Opened, Actor: journal.Daemon, Payload: []byte(`{"version":"1"}`)})
	return err
}

// until writes until a write is refused, at most 100 times. Before each write, the disk is
// filled again.
func until(t *testing.T, db *DB, d *fakeDisk, p access.Precedence) (n int) {
	t.Helper()
	for n < 100 {
		d.leave(0)
		if err := put(t, db, p); err != nil {
			if reason.Of(err) != reason.JournalUnavailable {
				t.Errorf("refused with %v", err)
			}
			return n
		}
		n++
	}
	return n
}

// TestWhoMayWriteOnAFullDisk: each precedence can write down to its own limit.
func TestWhoMayWriteOnAFullDisk(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		leaves int64
		may    map[access.Precedence]bool
	}{
		"roomy":       {50 * mib, map[access.Precedence]bool{access.PrecedenceNone: true, access.PrecedenceEnding: true, access.PrecedenceOperator: true, access.PrecedenceUrgent: true}},
		"nearly full": {3 * mib, map[access.Precedence]bool{access.PrecedenceEnding: true, access.PrecedenceOperator: true, access.PrecedenceUrgent: true}},
		"full":        {0, map[access.Precedence]bool{access.PrecedenceOperator: true, access.PrecedenceUrgent: true}},
	} {
		db, d := openOnDisk(t, 8*mib)
		for p := access.PrecedenceNone; p <= access.PrecedenceUrgent; p++ {
			d.leave(c.leaves)
			if err := put(t, db, p); (err == nil) != c.may[p] {
				t.Errorf("%s: precedence %d: %v", name, p, err)
			}
		}
	}
}

// TestOperatorsCallsLeaveHalfOfTheReserve: calls of operators leave half of the reserve for
// votes and freezes.
func TestOperatorsCallsLeaveHalfOfTheReserve(t *testing.T) {
	t.Parallel()
	db, d := openOnDisk(t, 8*mib)
	if n := until(t, db, d, access.PrecedenceOperator); n == 0 || n == 100 {
		t.Errorf("%d calls of operators were recorded", n)
	}
	if s := db.Reserve(); s.Held != s.Size/2 {
		t.Errorf("calls of operators left %d of %d", s.Held, s.Size)
	}
	if n := until(t, db, d, access.PrecedenceUrgent); n == 0 {
		t.Error("and no vote was")
	}
	if s := db.Reserve(); s.Held != 0 || d.told.Load() == 0 {
		t.Errorf("%d are held, operators were told %d times", s.Held, d.told.Load())
	}
}

// TestWithoutAReserveControl is the control: without a reserve, all callers are treated alike.
func TestWithoutAReserveControl(t *testing.T) {
	t.Parallel()
	db, d := openOnDisk(t, 0)
	d.leave(0)
	for p := access.PrecedenceNone; p <= access.PrecedenceUrgent; p++ {
		if err := put(t, db, p); err != nil {
			t.Errorf("precedence %d: %v", p, err)
		}
	}
	if _, err := os.Stat(reservePath(d.path)); !os.IsNotExist(err) {
		t.Errorf("there is a reserve: %v", err)
	}
}

// TestReserveIsFilledAgain: the reserve is refilled once there is space, not before, and
// survives a restart.
func TestReserveIsFilledAgain(t *testing.T) {
	t.Parallel()
	db, d := openOnDisk(t, 8*mib)
	whole := db.Reserve().Size
	d.leave(0)
	must.Do(t, put(t, db, access.PrecedenceUrgent))
	left := db.Reserve().Held
	if left >= whole {
		t.Fatal("an urgent write on a full disk took nothing of the reserve")
	}
	if err := put(t, db, access.PrecedenceNone); err == nil || db.Healthy() == nil {
		t.Errorf("the disk is full: %v, %v", err, db.Healthy())
	}
	db.writer.reserve.fill()
	if now := db.Reserve().Held; now != left {
		t.Errorf("on a full disk the reserve grew from %d to %d", left, now)
	}
	d.leave(50 * mib)
	if err := db.Probe(); err != nil {
		t.Errorf("with room again: %v", err)
	}
	db.writer.reserve.fill()
	if s := db.Reserve(); s.Held != whole || s.Low() {
		t.Errorf("with room again: %+v", s)
	}
	if err := put(t, db, access.PrecedenceNone); err != nil {
		t.Errorf("with room again: %v", err)
	}
	held, size, err := ReserveOf(d.path, 8*mib)
	if err != nil || held != size || held != whole {
		t.Errorf("the file holds %d of %d, %v", held, size, err)
	}
	r, err := openReserve(d.path, ReserveOptions{Bytes: 8 * mib, space: d.space})
	if err != nil || r.held.Load() != whole {
		t.Errorf("the next start finds %+v, %v", r.state(), err)
	}
	_ = r.close()
}

// TestLargeWritesAreRefusedBeforeTheyAreWritten: a write that would not leave the margin is not
// started, and the size of pending WAL pages counts.
func TestLargeWritesAreRefusedBeforeTheyAreWritten(t *testing.T) {
	t.Parallel()
	db, d := openOnDisk(t, 8*mib)
	large := func() error {
		_, err := db.Commit(t.Context(), Unit{Bytes: 4 * mib, Events: []event.Draft{{Code: event.Opened, Actor: journal.Daemon, Payload: []byte(`{"version":"1"}`)}}})
		return err
	}
	d.leave(20 * mib)
	if err := large(); err != nil {
		t.Errorf("with room: %v", err)
	}
	d.leave(db.Reserve().Margin + 6*mib)
	if err := large(); reason.Of(err) != reason.JournalUnavailable {
		t.Errorf("without: %v", err)
	}
	if err := put(t, db, access.PrecedenceNone); err != nil {
		t.Errorf("control: a small one: %v", err)
	}
}
