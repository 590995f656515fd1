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

// maxBatch bounds how many units one transaction takes, and with it how long
// the last of them waits for the first.
const maxBatch = 1024

// Unit is what commits or fails as one.
type Unit struct {
	// Check reads and writes rows inside the unit. Its error rolls this unit
	// back alone and is returned to the unit's caller. It may run on
	// another caller's goroutine, and must not call Commit or wait for
	// anything.
	Check func(tx *Tx) error
	// Events are appended after Check passed, before those it emitted.
	Events []event.Draft
	// Bytes is about how much Check writes beside the events, such as blobs. With
	// the events it tells how much disk space the unit needs.
	Bytes int64
	// Precedence says how far the unit may go when the disk is nearly full. It is
	// that of the context of Commit when that is higher.
	Precedence access.Precedence
}

// PanicError is what a panicking Check becomes; its unit is rolled back.
type PanicError struct {
	Value any
	// Stack is for the log, never for a caller.
	Stack []byte
}

// Error says what Check panicked with.
func (e *PanicError) Error() string { return fmt.Sprintf("panic in a store unit: %v", e.Value) }

// pending is a unit that waits for its batch.
type pending struct {
	unit   Unit
	nonces []journal.Nonce
	// signal tells the waiting caller once to lead the next batch (true), or
	// that its unit is done (false).
	signal chan bool
	// leads is set under writer.mu once leadership was handed over.
	leads  bool
	events []journal.Event
	// bound is how many bytes the check bound into rows.
	bound int64
	err   error
}

// writer serialises units on one connection. It has no goroutine of its own: when
// no commit is going on, the caller of Commit leads, which means that it commits the
// units of all callers that wait. Then one of those that came meanwhile leads.
type writer struct {
	now       func() time.Time
	committed func(CommitInfo) // may be nil
	wrote     func(Written)    // may be nil
	feed      *journal.Feed

	mu      sync.Mutex
	queue   []*pending
	leading bool
	closed  bool
	idle    chan struct{} // closed when a closing writer has no leader left
	company bool          // the last batch had several units, or left some waiting

	failure atomic.Pointer[reason.Error]

	// connMu guards what follows: the leader holds it for its batch.
	connMu  sync.Mutex
	conn    *zs.Conn
	noted   *headFile
	reserve *reserve // nil for none
	head    journal.Head
	edge    *journal.Edge
	stepped bool // the clock is behind the chain, and an event said so
	fresh   []journal.Event
	runs    map[sessionRun]struct{} // pairs that are stored
	unasked int                     // calls that were noted
	oldest  map[countedBy]time.Time // the oldest one of them, or before it
	recent  int                     // calls that are only in recent_calls
	tile    openTile                // where codes and actors are, until it is complete
}

func newWriter(conn *zs.Conn, opts Options, feed *journal.Feed) *writer {
	return &writer{conn: conn, now: opts.Now, committed: opts.Committed, wrote: opts.Wrote, feed: feed, idle: make(chan struct{}), runs: map[sessionRun]struct{}{}, oldest: map[countedBy]time.Time{}}
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
	lead, err := w.enqueue(p)
	if err != nil {
		return nil, err
	}
	if !lead {
		select {
		case lead = <-p.signal:
		case <-ctx.Done():
			if w.withdraw(p) {
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

func (w *writer) enqueue(p *pending) (lead bool, err error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.closed {
		return false, reason.Errorf(reason.ShuttingDown, "the store is closed")
	}
	w.queue = append(w.queue, p)
	lead = !w.leading
	w.leading = true
	p.leads = lead
	return lead, nil
}

// withdraw takes p out of the queue unless its batch has begun.
func (w *writer) withdraw(p *pending) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	i := slices.Index(w.queue, p)
	if i < 0 || p.leads {
		return false
	}
	w.queue = slices.Delete(w.queue, i, i+1)
	return true
}

// lead commits one batch, which holds the leader's own unit, and hands the
// lead to the first who came meanwhile.
func (w *writer) lead(self *pending) {
	// Callers that are about to enqueue get on the batch: two yields make batches
	// several times larger. A lone caller does without: each would wake a thread for
	// nobody.
	if w.inCompany() {
		runtime.Gosched()
		runtime.Gosched()
	}
	batch := w.take()
	w.run(batch)
	for _, p := range batch {
		if p != self {
			p.signal <- false
		}
	}
	w.handOver()
}

// inCompany reports whether there are other callers: some wait, or did a batch ago.
func (w *writer) inCompany() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.company || len(w.queue) > 1
}

// queued counts the units that wait for a batch.
func (w *writer) queued() int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return len(w.queue)
}

func (w *writer) take() []*pending {
	w.mu.Lock()
	defer w.mu.Unlock()
	n := min(len(w.queue), maxBatch)
	batch := slices.Clone(w.queue[:n])
	rest := copy(w.queue, w.queue[n:])
	clear(w.queue[rest:])
	w.queue = w.queue[:rest]
	w.company = n > 1
	return batch
}

func (w *writer) handOver() {
	w.mu.Lock()
	defer w.mu.Unlock()
	if len(w.queue) > 0 {
		w.company = true
		w.queue[0].leads = true
		w.queue[0].signal <- true
		return
	}
	w.leading = false
	if w.closed {
		close(w.idle)
	}
}

// run commits the batch and settles every unit in it.
func (w *writer) run(batch []*pending) {
	w.connMu.Lock()
	defer w.connMu.Unlock()
	if batch = w.admit(batch); len(batch) == 0 {
		return
	}
	err := w.recoverLocked()
	if err == nil {
		err = w.transact(batch)
	}
	if err == nil {
		w.reserve.owe(batch)
		w.tellWritten(batch)
		return
	}
	for _, p := range batch {
		p.events, p.err = nil, err
	}
}

// transact runs every unit and commits. An error means that
// the storage failed; the writer is then in the failed state.
func (w *writer) transact(batch []*pending) error {
	w.fresh = w.fresh[:0]
	if err := w.exec("BEGIN IMMEDIATE"); err != nil {
		return w.fail(err)
	}
	now := journal.Instant(w.now())
	for i, p := range batch {
		if err := w.apply(p, now, i == 0); err != nil {
			return w.fail(err)
		}
	}
	if err := w.settleCalls(); err != nil {
		return w.fail(err)
	}
	began := time.Now()
	if err := w.exec("COMMIT"); err != nil {
		return w.fail(err)
	}
	if w.committed != nil {
		w.committed(CommitInfo{Units: len(batch), Events: len(w.fresh), Took: time.Since(began)})
	}
	if len(w.fresh) == 0 {
		return nil
	}
	w.feed.Publish(w.head, w.fresh)
	if err := w.noted.write(w.head); err != nil {
		// What was committed stays committed; the next batch has to wait.
		_ = w.fail(err)
	}
	return nil
}

// apply runs one unit. Its events get sequence numbers only after its check passed.
// The returned error is one of the storage and fails the whole batch; an error of
// the unit alone is in p.err.
func (w *writer) apply(p *pending, now time.Time, first bool) error {
	drafts := p.unit.Events
	if p.unit.Check != nil {
		tx := &Tx{Conn: Conn{c: w.conn}, now: later(now, w.head.At)}
		if ok, err := w.check(p, tx, first); !ok || err != nil {
			return err
		}
		drafts, p.bound = slices.Concat(drafts, tx.drafts), tx.bound
		w.recent += tx.joined
	}
	if len(drafts) == 0 {
		return nil
	}
	if err := w.noteClock(now); err != nil {
		return err
	}
	p.events = make([]journal.Event, 0, len(drafts))
	for i, d := range drafts {
		if i == len(p.nonces) {
			p.nonces = append(p.nonces, journal.NewNonce())
		}
		e, err := w.seal(d, now, p.nonces[i], drafts)
		if err != nil {
			return err
		}
		p.events = append(p.events, e)
	}
	return nil
}

// check runs the unit's check; ok means that the unit stays. To take a failed unit
// back, each unit has a SAVEPOINT, except the first of a batch: nothing else is in
// the transaction yet, so that it is rolled back as a whole, which is cheaper than
// the copies of pages that a SAVEPOINT keeps.
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
