package sqlite

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"runtime/debug"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	zs "zombiezen.com/go/sqlite"

	"palyra/internal/core/access"
	"palyra/internal/core/event"
	"palyra/internal/core/reason"
	"palyra/internal/evidence/journal"
)

// maxBatch limits the units of one transaction, and so the time that the last unit waits for the
// first.
const maxBatch = 1024

// Unit is a set of writes that commits or fails atomically.
type Unit struct {
	// Check reads and writes rows inside the unit. Its error rolls back this unit alone and is
	// returned to the unit's caller. Check may run on another caller's goroutine. It MUST NOT call
	// Commit or block.
	Check func(tx *Tx) error
	// Events are appended after Check passed, before the events that Check emitted.
	Events []event.Draft
	// Bytes is the approximate number of bytes that Check writes in addition to the events, such as
	// blobs. It is used to compute the disk space of the unit.
	Bytes int64
	// Precedence determines how much space the unit may use when the disk is nearly full. A higher
	// precedence in the context of Commit overrides it.
	Precedence access.Precedence
}

// PanicError wraps the panic of a Check; its unit is rolled back.
type PanicError struct {
	Value any
	// Stack is for the log, never for a caller.
	Stack []byte
}

// Error reports the value that Check panicked with.
func (e *PanicError) Error() string { return fmt.Sprintf("panic in a store unit: %v", e.Value) }

// pending is a unit that waits for its batch.
type pending struct {
	unit   Unit
	nonces []journal.Nonce
	// signal receives true if the waiting caller must lead the next batch, or false if its unit is
	// done.
	signal chan bool
	// leads is set under queue.mu once leadership was handed over.
	leads  bool
	events []journal.Event
	// bound is the number of bytes that the check bound as statement parameters.
	bound int64
	err   error
}

// writer serialises units on one connection. It has no goroutine of its own: while no commit is
// running, the caller of Commit becomes the leader and commits the units of all waiting callers.
// One of the callers that arrived meanwhile then becomes the leader.
type writer struct {
	now       func() time.Time
	committed func(CommitInfo) // may be nil
	wrote     func(Written)    // may be nil
	feed      *journal.Feed

	queue queue

	failure atomic.Pointer[reason.Error]

	// connMu guards the fields below; the leader holds it for its batch.
	connMu  sync.Mutex
	conn    *zs.Conn
	noted   *headFile
	reserve *reserve // nil if disabled
	end     journalEnd
	recent  recentCalls
}

func newWriter(conn *zs.Conn, opts Options, feed *journal.Feed) *writer {
	return &writer{
		now: opts.Now, committed: opts.Committed, wrote: opts.Wrote, feed: feed, queue: queue{idle: make(chan struct{})},
		conn: conn, end: journalEnd{conn: conn, index: newEventIndex(conn)}, recent: recentCalls{conn: conn},
	}
}

func (w *writer) commit(ctx context.Context, u Unit) ([]journal.Event, error) {
	if err := checkDrafts(u.Events); err != nil {
		return nil, err
	}
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	u.Precedence = max(u.Precedence, access.PrecedenceOf(ctx))
	p := &pending{unit: u, signal: make(chan bool, 1), nonces: make([]journal.Nonce, len(u.Events))}
	for i := range p.nonces {
		p.nonces[i] = journal.Prepare(&u.Events[i])
	}
	lead, err := w.queue.add(p)
	if err != nil {
		return nil, err
	}
	if !lead {
		select {
		case lead = <-p.signal:
		case <-ctx.Done():
			if w.queue.withdraw(p) {
				return nil, ctx.Err()
			}
			lead = <-p.signal
		}
	}
	if lead {
		w.lead(p)
	}
	return p.events, p.err
}

// lead commits one batch, which contains the leader's own unit, and passes the lead to the first
// caller that arrived meanwhile.
func (w *writer) lead(self *pending) {
	// Callers that are about to enqueue join the batch: two yields make batches several times
	// larger. A lone caller skips the yields, because each would wake a thread for no unit.
	if w.queue.hasOtherCallers() {
		runtime.Gosched()
		runtime.Gosched()
	}
	batch := w.queue.take()
	w.run(batch)
	for _, p := range batch {
		if p != self {
			p.signal <- false
		}
	}
	w.queue.handOver()
}

// queue holds the units that wait for a batch, and appoints the caller that leads it.
type queue struct {
	mu      sync.Mutex
	waiting []*pending
	leading bool
	closed  bool
	idle    chan struct{} // closed when a closed queue has no leader left
	busy    bool          // the last batch had several units, or left some waiting
}

// add adds a unit. The caller leads the next batch if lead is true.
func (q *queue) add(p *pending) (lead bool, err error) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.closed {
		return false, reason.Errorf(reason.ShuttingDown, "the store is closed")
	}
	q.waiting = append(q.waiting, p)
	lead = !q.leading
	q.leading = true
	p.leads = lead
	return lead, nil
}

// withdraw removes p from the queue unless its batch has started.
func (q *queue) withdraw(p *pending) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	i := slices.Index(q.waiting, p)
	if i < 0 || p.leads {
		return false
	}
	q.waiting = slices.Delete(q.waiting, i, i+1)
	return true
}

// hasOtherCallers reports whether other callers are waiting or were in the previous batch.
func (q *queue) hasOtherCallers() bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.busy || len(q.waiting) > 1
}

// size returns the number of units that wait for a batch.
func (q *queue) size() int {
	q.mu.Lock()
	defer q.mu.Unlock()
	return len(q.waiting)
}

// take removes the units of the next batch.
func (q *queue) take() []*pending {
	q.mu.Lock()
	defer q.mu.Unlock()
	n := min(len(q.waiting), maxBatch)
	batch := slices.Clone(q.waiting[:n])
	rest := copy(q.waiting, q.waiting[n:])
	clear(q.waiting[rest:])
	q.waiting = q.waiting[:rest]
	q.busy = n > 1
	return batch
}

// handOver passes the lead to the first waiting caller, if any.
func (q *queue) handOver() {
	q.mu.Lock()
	defer q.mu.Unlock()
	if len(q.waiting) > 0 {
		q.busy = true
		q.waiting[0].leads = true
		q.waiting[0].signal <- true
		return
	}
	q.leading = false
	if q.closed {
		close(q.idle)
	}
}

// drain refuses new units and waits for the units in progress.
func (q *queue) drain(ctx context.Context) error {
	q.close()
	select {
	case <-q.idle:
		return nil
	case <-ctx.Done():
		return fmt.Errorf("closing the store: %w", ctx.Err())
	}
}

// close rejects further units; idle closes when the last running unit ends.
func (q *queue) close() {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.closed {
		return
	}
	q.closed = true
	if !q.leading {
		close(q.idle)
	}
}

// run commits the batch and settles every unit in it.
func (w *writer) run(batch []*pending) {
	w.connMu.Lock()
	defer w.connMu.Unlock()
	if batch = w.reserve.admit(w.conn, batch); len(batch) == 0 {
		return
	}
	err := w.recoverLocked()
	if err == nil {
		err = w.transact(batch)
	}
	if err == nil {
		w.reserve.owe(batch)
		w.reportWritten(batch)
		return
	}
	for _, p := range batch {
		p.events, p.err = nil, err
	}
}

// transact runs every unit and commits. An error means that
// the storage failed; the writer is then in the failed state.
func (w *writer) transact(batch []*pending) error {
	w.end.fresh = w.end.fresh[:0]
	if err := w.exec("BEGIN IMMEDIATE"); err != nil {
		return w.fail(err)
	}
	now := journal.Instant(w.now())
	for i, p := range batch {
		if err := w.apply(p, now, i == 0); err != nil {
			return w.fail(err)
		}
	}
	if err := w.recent.settle(); err != nil {
		return w.fail(err)
	}
	began := time.Now()
	if err := w.exec("COMMIT"); err != nil {
		return w.fail(err)
	}
	if w.committed != nil {
		w.committed(CommitInfo{Units: len(batch), Events: len(w.end.fresh), Took: time.Since(began)})
	}
	if len(w.end.fresh) == 0 {
		return nil
	}
	w.feed.Publish(w.end.head, w.end.fresh)
	if err := w.noted.write(w.end.head); err != nil {
		// The committed units stay committed; the next batch must wait.
		_ = w.fail(err)
	}
	return nil
}

// apply runs one unit. Its events get sequence numbers only after its check passed. The returned
// error is a storage error and fails the whole batch; an error of this unit alone is in p.err.
func (w *writer) apply(p *pending, now time.Time, first bool) error {
	drafts := p.unit.Events
	if p.unit.Check != nil {
		tx := &Tx{Conn: Conn{c: w.conn}, now: later(now, w.end.head.At)}
		if ok, err := w.check(p, tx, first); !ok || err != nil {
			return err
		}
		drafts, p.bound = slices.Concat(drafts, tx.drafts), tx.bound
		w.recent.n += tx.joined
	}
	if len(drafts) == 0 {
		return nil
	}
	if err := w.end.noteClock(now); err != nil {
		return err
	}
	p.events = make([]journal.Event, 0, len(drafts))
	for i, d := range drafts {
		if i == len(p.nonces) {
			p.nonces = append(p.nonces, journal.NewNonce())
		}
		e, err := w.end.seal(d, now, p.nonces[i], drafts)
		if err != nil {
			return err
		}
		p.events = append(p.events, e)
	}
	return nil
}

// check runs the unit's Check; ok is true if the unit remains in the transaction. Each unit has
// a SAVEPOINT for its rollback, except the first of a batch. The transaction is otherwise empty
// at that point, so its rollback is cheaper than the page copies of a SAVEPOINT.
func (w *writer) check(p *pending, tx *Tx, first bool) (ok bool, err error) {
	keep, revert := []string{"RELEASE unit"}, []string{"ROLLBACK TO unit", "RELEASE unit"}
	if first {
		keep, revert = nil, []string{"ROLLBACK", "BEGIN IMMEDIATE"}
	} else if err := w.exec("SAVEPOINT unit"); err != nil {
		return false, err
	}
	p.err = runCheck(p.unit.Check, tx)
	if p.err == nil {
		p.err = checkDrafts(tx.drafts)
	}
	if tx.broken != nil {
		return false, tx.broken
	}
	if w.conn.AutocommitEnabled() {
		return false, errors.Join(errors.New("a unit ended the transaction"), p.err)
	}
	steps := keep
	if p.err != nil {
		steps = revert
	}
	for _, step := range steps {
		if err := w.exec(step); err != nil {
			return false, err
		}
	}
	return p.err == nil, nil
}

func runCheck(check func(*Tx) error, tx *Tx) (err error) {
	defer func() {
		if v := recover(); v != nil {
			err = &PanicError{Value: v, Stack: debug.Stack()}
		}
	}()
	return check(tx)
}

func (w *writer) exec(query string) error {
	c := Conn{c: w.conn}
	return c.Query(query, nil)
}

func later(a, b time.Time) time.Time {
	if b.After(a) {
		return b
	}
	return a
}
