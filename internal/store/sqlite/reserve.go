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

	"palyra/internal/core/access"
	"palyra/internal/core/reason"
)

const (
	// leastReserve is the smallest reserve that is worth a file, in bytes.
	leastReserve = 64 << 10
	// reserveShare is the part of a small disk that the reserve takes at most.
	reserveShare = 10
	// reserveSteps is in how many steps it is released and filled.
	reserveSteps = 16
	// mostUrgentRoom is how much is free before an urgent write begins, in bytes:
	// enough for what a vote or a freeze writes to WAL, indexes and head file,
	// and for a part of a checkpoint.
	mostUrgentRoom = 1 << 20
	// unitCost is what a unit costs beside its large parts, and batchCost what
	// all of a batch cost together, in bytes: pages of indexes and of the tree.
	unitCost, batchCost = 8 << 10, 64 << 10
	// checkpointPages is from how many pages on in the WAL SQLite checkpoints at
	// a commit; checkpointBytes is what they hold.
	checkpointPages, checkpointBytes = 2000, 2000 * 4096
	// settlePause is between two checkpoints that a refusal orders.
	settlePause = time.Second
	// reservePeriod is how often the disk is looked at when nobody writes.
	reservePeriod = 5 * time.Second
)

// ReserveOptions say how much of the disk is kept for operators.
type ReserveOptions struct {
	// Bytes is the size of the reserve, at most a tenth of the disk; 0 is none.
	Bytes int64
	// Changed, if set, is told when the disk becomes nearly full, when the
	// reserve is used or filled, and when there is room again. It must not wait
	// for anything.
	Changed func(ReserveState)

	// space measures the disk of a file; nil means statfs. Tests set it.
	space func(path string) (free, total int64, err error)
}

// ReserveState is how the disk under a store stands, in bytes.
type ReserveState struct {
	// Size is the reserve as it should be, Held what is left of it. A Size of 0
	// means that there is none.
	Size, Held int64
	// Free is what the disk had left at the last look, apart from the reserve and
	// from what the next WAL checkpoint will write. Below Margin new work is
	// refused.
	Free, Margin int64
}

// Low reports whether the disk is nearly full.
func (s ReserveState) Low() bool { return s.Size > 0 && s.Free < s.Margin }

// reserve is a preallocated file beside the store, whose blocks nobody else can
// use. When an urgent write finds the disk full, a step of the file is cut off
// first, so that the write finds that much space.
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
	// debt is what a checkpoint has yet to write from the WAL into the file,
	// which grows by it. It is counted as written already.
	debt atomic.Int64
	// settled is when a refusal last ordered a checkpoint. The writer's connMu
	// guards it.
	settled time.Time
	// told is the last state that changed was told.
	told ReserveState
}

// reservePath is the reserve of the store at path.
func reservePath(path string) string { return path + "-reserve" }

// openReserve opens the reserve of a store. It returns nil when none is wanted, the
// disk is too small for one, or the system does not tell how full its disks are;
// the file of an earlier reserve is then removed.
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

// reserveStep is a step of the reserve on a disk: whole pages, 0 for no reserve.
func reserveStep(wanted, disk int64) int64 {
	size := min(wanted, disk/reserveShare)
	if size < leastReserve {
		return 0
	}
	return size / reserveSteps &^ 4095
}

// ReserveOf says how much of the reserve the store at path has, and should have
// with a setting, without opening the store.
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

// adopt takes over what is there, and gives the start a step of it when the
// disk is full.
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

// urgentRoom is how much shall be free before an urgent write begins.
func (r *reserve) urgentRoom() int64 { return min(mostUrgentRoom, r.size/4) }

// state is what is known.
func (r *reserve) state() ReserveState {
	if r == nil {
		return ReserveState{}
	}
	return ReserveState{Size: r.size, Held: r.held.Load(), Free: r.free.Load(), Margin: r.margin}
}

// look measures the disk, less what is owed to a checkpoint. What cannot be
// measured counts as roomy: writing will tell.
func (r *reserve) look() int64 {
	free, _, err := r.space(r.store)
	if err != nil {
		free = 1 << 62
	}
	free = max(free-r.debt.Load(), 0)
	r.free.Store(free)
	return free
}

// tell passes on a state that differs in what operators care for.
func (r *reserve) tell() {
	r.mu.Lock()
	defer r.mu.Unlock()
	now := r.state()
	if now.Low() != r.told.Low() || now.Held != r.told.Held && r.told.Size > 0 {
		r.changed(now)
	}
	r.told = now
}

// low is why nothing may begin, or nil.
func (r *reserve) low() error {
	if s := r.state(); s.Low() { // of none, it is not
		return errNearlyFull(s, 0)
	}
	return nil
}

// errNearlyFull says why a write of so many bytes is refused.
func errNearlyFull(s ReserveState, cost int64) *reason.Error {
	need := ""
	if cost > 0 {
		need = fmt.Sprintf(", this needs %d KiB", cost>>10)
	}
	return reason.Errorf(reason.JournalUnavailable, "the disk of the state directory is nearly full: %d KiB are left%s, and the last %d KiB are for what operators do", s.Free>>10, need, s.Margin>>10).
		WithRemedy("Free space on the disk that holds state_dir. Votes, freeze, thaw, revocations and an operator's `palyra call` work meanwhile.")
}

// ration is the disk space that is left for the units of one batch.
type ration struct {
	*reserve
	left int64
}

// take grants a unit the space that it needs, or returns why there is none. For
// units of operators and urgent ones, missing space is released from the reserve,
// as far as they may use it.
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

// makeRoom releases steps of the reserve until it gave at least want, or no more
// than keep is left, and returns what it gave.
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

// secure preallocates, at the end of the WAL, the space that an urgent write needs
// while the disk is full, so that no other program takes what the reserve has just
// released. If that fails, the write may still find space.
func (r *reserve) secure() {
	if r.free.Load() < 4*mostUrgentRoom {
		preallocate(r.store+"-wal", r.urgentRoom())
	}
}

// fill takes steps back while the disk has more than what begins may not use.
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

// Reserve returns how the disk under the store stands.
func (db *DB) Reserve() ReserveState {
	if db.writer == nil {
		return ReserveState{}
	}
	return db.writer.reserve.state()
}

// KeepReserve measures the disk every few seconds and fills the reserve when there
// is space, also after it was used, until ctx ends.
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

// admit leaves those units of a batch that the disk has room for; the others
// are told why not.
func (w *writer) admit(batch []*pending) []*pending {
	if w.reserve == nil {
		return batch
	}
	n := &ration{reserve: w.reserve, left: w.reserve.look() - batchCost}
	if n.left < w.reserve.margin+total(batch) && w.settle() {
		n.left = w.reserve.look() - batchCost
	}
	admitted := make([]*pending, 0, len(batch))
	for _, p := range batch {
		if p.err = n.take(&p.unit); p.err == nil {
			admitted = append(admitted, p)
		}
	}
	w.reserve.tell()
	return admitted
}

// owe counts what the units of a batch left in the WAL. SQLite checkpoints by
// itself at the commit that makes it long, which pays for all.
func (r *reserve) owe(batch []*pending) {
	if r == nil {
		return
	}
	if r.debt.Add(batchCost+total(batch)/2) >= checkpointBytes {
		r.debt.Store(0)
	}
}

// settle checkpoints before anything is refused for a debt that may be smaller
// than it was thought. It reports whether there is none any more.
func (w *writer) settle() bool {
	r := w.reserve
	if r.debt.Load() == 0 || time.Since(r.settled) < settlePause {
		return false
	}
	r.settled = time.Now()
	if err := w.exec("PRAGMA wal_checkpoint(PASSIVE)"); err != nil {
		return false
	}
	r.debt.Store(0)
	return true
}

// total is what the units cost together.
func total(batch []*pending) (n int64) {
	for _, p := range batch {
		n += unitCost + 2*p.unit.size()
	}
	return n
}

// size is how many bytes the unit writes in its large parts.
func (u *Unit) size() int64 {
	n := u.Bytes
	for i := range u.Events {
		n += int64(len(u.Events[i].Payload))
	}
	return n
}
