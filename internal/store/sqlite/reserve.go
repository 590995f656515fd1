package sqlite

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"time"

	zs "zombiezen.com/go/sqlite"

	"palyra/internal/core/access"
	"palyra/internal/core/reason"
)

const (
	// leastReserve is the smallest reserve that is worth a file, in bytes.
	leastReserve = 64 << 10
	// reserveShare limits the reserve to one tenth of a small disk.
	reserveShare = 10
	// reserveSteps is the number of steps in which the reserve is released and filled.
	reserveSteps = 16
	// mostUrgentRoom is the free space required before an urgent write starts, in bytes: enough for
	// a vote or a freeze in WAL, indexes and head file, and for part of a checkpoint.
	mostUrgentRoom = 1 << 20
	// unitCost is the fixed cost of a unit, and batchCost the fixed cost of a batch, in bytes:
	// pages of indexes and of the tree.
	unitCost, batchCost = 8 << 10, 64 << 10
	// checkpointPages is the number of WAL pages from which SQLite checkpoints at a commit;
	// checkpointBytes is their size.
	checkpointPages, checkpointBytes = 2000, 2000 * 4096
	// settlePause is the pause between two checkpoints that refusals trigger.
	settlePause = time.Second
	// reservePeriod is the interval between measurements of the disk while no unit is written.
	reservePeriod = 5 * time.Second
)

// ReserveOptions configure the disk space reserved for operators.
type ReserveOptions struct {
	// Bytes is the size of the reserve, at most a tenth of the disk; 0 disables it.
	Bytes int64
	// Changed, if set, is called when the disk becomes nearly full, when the reserve is used or
	// refilled, and when the disk has room again. It MUST NOT block.
	Changed func(ReserveState)

	// space measures the disk of a file; nil means statfs. Tests set it.
	space func(path string) (free, total int64, err error)
}

// ReserveState is the state of the disk under a store, in bytes.
type ReserveState struct {
	// Size is the configured size of the reserve, and Held the size still reserved. Size is 0
	// without a reserve.
	Size, Held int64
	// Free is the free disk space at the last measurement, without the reserve and the space that
	// the next WAL checkpoint needs. Below Margin, new work is refused.
	Free, Margin int64
}

// Low reports whether the disk is nearly full.
func (s ReserveState) Low() bool { return s.Size > 0 && s.Free < s.Margin }

// reserve is a preallocated file next to the store, whose blocks other programs cannot use. If
// an urgent write finds the disk full, the file is first shortened by one step to provide the
// space. New work is refused by an estimate that errs on the high side. SQLite cannot report
// the size of a transaction before it runs, and a failed transaction fails its whole batch. The
// margin above the reserve is for completing started work: if an attestation cannot be written,
// its call has no recorded outcome.
type reserve struct {
	path    string
	store   string
	space   func(path string) (free, total int64, err error)
	changed func(ReserveState)
	size    int64
	step    int64
	margin  int64

	// mu guards the file and is held while its size changes.
	mu   sync.Mutex
	file *os.File
	held atomic.Int64
	free atomic.Int64
	// debt is the number of bytes that a checkpoint still has to write from the WAL into the file.
	// The file grows by it, so it counts as already written.
	debt atomic.Int64
	// settled is the time when a refusal last triggered a checkpoint. The writer's connMu guards
	// it.
	settled time.Time
	// reported is the last state passed to changed.
	reported ReserveState
}

// reservePath returns the path of the reserve of the store at path.
func reservePath(path string) string { return path + "-reserve" }

// openReserve opens the reserve of a store. It returns nil if the reserve is disabled, the disk is
// too small, or the system does not report free space; it then removes the file of an earlier
// reserve.
func openReserve(store string, o ReserveOptions) (*reserve, error) {
	r := &reserve{path: reservePath(store), store: store, space: o.space, changed: o.Changed}
	if r.space == nil {
		r.space = diskSpace
	}
	if r.changed == nil {
		r.changed = func(ReserveState) {}
	}
	_, total, err := r.space(store)
	if err != nil && !errors.Is(err, errors.ErrUnsupported) {
		return nil, openError(r.path, err)
	}
	if r.step = reserveStep(o.Bytes, total); r.step == 0 {
		if err := os.Remove(r.path); err != nil && !errors.Is(err, os.ErrNotExist) {
			return nil, openError(r.path, err)
		}
		return nil, nil
	}
	r.size = r.step * reserveSteps
	r.margin = r.size / 2
	if r.file, err = os.OpenFile(r.path, os.O_RDWR|os.O_CREATE, 0o600); err != nil {
		return nil, openError(r.path, err)
	}
	if err := r.adopt(); err != nil {
		return nil, errors.Join(openError(r.path, err), r.file.Close())
	}
	return r, nil
}

// reserveStep returns the size of one step of the reserve on a disk: whole pages, 0 for no reserve.
func reserveStep(wanted, disk int64) int64 {
	size := min(wanted, disk/reserveShare)
	if size < leastReserve {
		return 0
	}
	return size / reserveSteps &^ 4095
}

// ReserveOf returns the current and the configured size of the reserve of the store at path,
// without opening the store.
func ReserveOf(path string, wanted int64) (held, size int64, err error) {
	_, total, err := diskSpace(filepath.Dir(path))
	if errors.Is(err, errors.ErrUnsupported) {
		return 0, 0, nil
	}
	if err != nil {
		return 0, 0, err
	}
	size = reserveStep(wanted, total) * reserveSteps
	f, err := os.Open(reservePath(path))
	if errors.Is(err, os.ErrNotExist) {
		return 0, size, nil
	}
	if err != nil {
		return 0, 0, err
	}
	held, err = allocated(f)
	return min(held, size), size, errors.Join(err, f.Close())
}

// adopt takes over an existing file, and releases a step of it for the start if the disk is full.
func (r *reserve) adopt() error {
	there, err := allocated(r.file)
	if err != nil {
		return err
	}
	there = min(there, r.size) / r.step * r.step
	if err := r.file.Truncate(there); err != nil {
		return err
	}
	r.held.Store(there)
	r.makeRoom(r.urgentRoom()-r.look(), 0)
	return nil
}

// urgentRoom returns the free space required before an urgent write starts.
func (r *reserve) urgentRoom() int64 { return min(mostUrgentRoom, r.size/4) }

// state returns the last measured state.
func (r *reserve) state() ReserveState {
	if r == nil {
		return ReserveState{}
	}
	return ReserveState{Size: r.size, Held: r.held.Load(), Free: r.free.Load(), Margin: r.margin}
}

// look measures the disk and subtracts the debt to a checkpoint. If the measurement fails, the
// disk counts as having enough space: a write will then report the error.
func (r *reserve) look() int64 {
	free, _, err := r.space(r.store)
	if err != nil {
		free = 1 << 62
	}
	free = max(free-r.debt.Load(), 0)
	r.free.Store(free)
	return free
}

// tell passes the state to changed if a value relevant to operators differs.
func (r *reserve) tell() {
	r.mu.Lock()
	defer r.mu.Unlock()
	now := r.state()
	if now.Low() != r.reported.Low() || now.Held != r.reported.Held && r.reported.Size > 0 {
		r.changed(now)
	}
	r.reported = now
}

// low returns the error with which new work is refused, or nil.
func (r *reserve) low() error {
	if s := r.state(); s.Low() { // a nil reserve is never low
		return errNearlyFull(s, 0)
	}
	return nil
}

// errNearlyFull returns the error for a refused write of cost bytes.
func errNearlyFull(s ReserveState, cost int64) *reason.Error {
	need := ""
	if cost > 0 {
		need = fmt.Sprintf(", this needs %d KiB", cost>>10)
	}
	return reason.Errorf(reason.JournalUnavailable, "the disk of the state directory is nearly full: %d KiB are left%s, and the last %d KiB are reserved for operators", s.Free>>10, need, s.Margin>>10).
		WithRemedy("Free space on the disk that holds state_dir. Votes, freeze, thaw, revocations and an operator's `palyra call` work meanwhile.")
}

// ration is the disk space that is left for the units of one batch.
type ration struct {
	*reserve
	left int64
}

// take grants a unit its space or returns the error of the refusal. For operators' and urgent units
// it releases missing space from the reserve, within their limits.
func (n *ration) take(u *Unit) error {
	cost := unitCost + 2*u.size() // to the WAL, and by a checkpoint to the file
	switch {
	case u.Precedence == access.PrecedenceNone && n.left-cost < n.margin,
		u.Precedence == access.PrecedenceEnding && n.left-cost < 0:
		return errNearlyFull(n.state(), cost)
	case u.Precedence >= access.PrecedenceOperator:
		keep := int64(0)
		if u.Precedence == access.PrecedenceOperator {
			keep = n.size / 2
		}
		n.left += n.makeRoom(cost+n.urgentRoom()-n.left, keep)
		if u.Precedence == access.PrecedenceOperator && n.left < cost {
			return errNearlyFull(n.state(), cost)
		}
		n.secure()
	}
	n.left -= cost
	return nil
}

// makeRoom releases steps of the reserve until it has released at least want bytes, or until
// another step would leave less than keep bytes. It returns the number of bytes released.
func (r *reserve) makeRoom(want, keep int64) (gave int64) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for gave < want && r.held.Load()-r.step >= keep {
		if err := r.file.Truncate(r.held.Load() - r.step); err != nil {
			return gave
		}
		r.held.Add(-r.step)
		gave += r.step
	}
	if gave > 0 {
		r.look()
	}
	return gave
}

// secure preallocates the space of an urgent write at the end of the WAL while the disk is full, so
// that no other program takes the released space. If the preallocation fails, the write may still
// succeed.
func (r *reserve) secure() {
	if r.free.Load() < 4*mostUrgentRoom {
		preallocate(r.store+"-wal", r.urgentRoom())
	}
}

// fill returns steps to the reserve while the disk has more free space than the margin.
func (r *reserve) fill() {
	r.mu.Lock()
	defer r.mu.Unlock()
	for r.held.Load() < r.size && r.look()-r.step >= r.margin+r.margin/2 {
		held := r.held.Load()
		if err := allocate(r.file, held, r.step); err != nil {
			_ = r.file.Truncate(held)
			return
		}
		r.held.Add(r.step)
	}
	r.look()
}

func (r *reserve) close() error {
	if r == nil {
		return nil
	}
	return r.file.Close()
}

// Reserve returns the state of the disk under the store.
func (db *DB) Reserve() ReserveState {
	if db.writer == nil {
		return ReserveState{}
	}
	return db.writer.reserve.state()
}

// KeepReserve measures the disk every few seconds until ctx ends. It fills the reserve when the
// disk has space, including after the reserve was used.
func (db *DB) KeepReserve(ctx context.Context) error {
	if db.writer == nil || db.writer.reserve == nil {
		<-ctx.Done()
		return nil
	}
	r := db.writer.reserve
	tick := time.NewTicker(reservePeriod)
	defer tick.Stop()
	for {
		r.fill()
		r.tell()
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		}
	}
}

// admit returns the units of a batch that fit on the disk and fails the others.
func (r *reserve) admit(conn *zs.Conn, batch []*pending) []*pending {
	if r == nil {
		return batch
	}
	n := &ration{reserve: r, left: r.look() - batchCost}
	if n.left < r.margin+total(batch) && r.settle(conn) {
		n.left = r.look() - batchCost
	}
	admitted := make([]*pending, 0, len(batch))
	for _, p := range batch {
		if p.err = n.take(&p.unit); p.err == nil {
			admitted = append(admitted, p)
		}
	}
	r.tell()
	return admitted
}

// owe adds the WAL size of a batch to the debt. SQLite checkpoints by itself at the commit that
// exceeds its limit, which clears the whole debt.
func (r *reserve) owe(batch []*pending) {
	if r == nil {
		return
	}
	if r.debt.Add(batchCost+total(batch)/2) >= checkpointBytes {
		r.debt.Store(0)
	}
}

// settle runs a checkpoint before a unit is refused because of a debt that may be overestimated. It
// reports whether the debt is cleared.
func (r *reserve) settle(conn *zs.Conn) bool {
	if r.debt.Load() == 0 || time.Since(r.settled) < settlePause {
		return false
	}
	r.settled = time.Now()
	c := Conn{c: conn}
	if err := c.Query("PRAGMA wal_checkpoint(PASSIVE)", nil); err != nil {
		return false
	}
	r.debt.Store(0)
	return true
}

// total returns the cost of the units.
func total(batch []*pending) (n int64) {
	for _, p := range batch {
		n += unitCost + 2*p.unit.size()
	}
	return n
}

// size returns the number of bytes in the large parts of the unit.
func (u *Unit) size() int64 {
	n := u.Bytes
	for i := range u.Events {
		n += int64(len(u.Events[i].Payload))
	}
	return n
}
