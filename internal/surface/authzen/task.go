package authzen

import (
	"context"
	"crypto/rand"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"palyra/internal/call"
	"palyra/internal/call/approval"
	"palyra/internal/core/access"
	"palyra/internal/core/reason"
)

const (
	// keptFor is how long a task can be read after its end: longer than its denial could be reused.
	keptFor = time.Hour
	// mostTasks bounds the stored tasks, and mostOfOne the stored tasks of one caller.
	mostTasks = 2000
	mostOfOne = 200
)

// The states of a task (draft profile, Task Status Values).
const (
	pending   = "pending"
	approved  = "approved"
	denied    = "denied"
	expired   = "expired"
	cancelled = "cancelled"
	failed    = "failed"
)

// task is an approval request made by another gateway. A task is kept in memory: its approval
// belongs to the desk and outlives the task.
type task struct {
	id, approvalRef string
	by              access.Principal
	key, digest     string
	binding         bound
	submission      call.Submission
	description     string
	// opened is closed once the approval is pending or the request has ended. done is closed at
	// the end.
	opened, done chan struct{}
	showOnce     sync.Once

	mu sync.Mutex
	// end cancels the request; it is nil before the request starts. ending is the reason to end
	// it.
	end     context.CancelCauseFunc
	ending  error
	record  approval.Record
	answer  approval.Answer
	err     error
	endedAt time.Time
}

// stop cancels the request.
func (t *task) stop(why error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.ending = why; t.end != nil {
		t.end(why)
	}
}

// see records the state of the approval.
func (t *task) see(r *approval.Record) {
	t.mu.Lock()
	t.record = *r
	t.mu.Unlock()
	t.showOnce.Do(func() { close(t.opened) })
}

// problem returns why no approval was requested.
func (t *task) problem() error {
	t.mu.Lock()
	defer t.mu.Unlock()
	switch reason.Of(t.err) {
	case "":
		return nil
	case reason.PolicyDenied, reason.InvalidInput, reason.NotFound:
		return notRequestable(reason.Known(t.err, reason.Internal).Message)
	}
	return t.err
}

// approval returns the id of the desk's record, "" if an earlier answer was reused.
func (t *task) approval() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.record.ID
}

func (t *task) ended() bool {
	select {
	case <-t.done:
		return true
	default:
		return false
	}
}

// given returns the answer, or the zero value while it is missing.
func (t *task) given() approval.Answer {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.answer
}

// state returns the state of the task and its expiry time.
func (t *task) state() (state string, expires time.Time) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.endedAt.IsZero() {
		return pending, t.record.ExpiresAt
	}
	expires = t.endedAt.Add(keptFor)
	switch t.answer.Kind() {
	case approval.ByApproval, approval.ByGrant:
		return approved, expires
	case approval.ByDenial:
		return denied, expires
	case approval.ByExpiry:
		return expired, expires
	case approval.ByCancel:
		return cancelled, expires
	}
	return failed, expires
}

// result returns the next step of an approved task (draft profile, Approval and Re-evaluation).
func (t *task) result() map[string]any {
	t.mu.Lock()
	defer t.mu.Unlock()
	a := map[string]any{"id": t.approvalRef, "approved_until": t.record.UseBy.UTC().Format(time.RFC3339)}
	if !t.record.AnsweredAt.IsZero() {
		a["approved_at"] = t.record.AnsweredAt.UTC().Format(time.RFC3339)
	}
	return map[string]any{"mode": "reevaluate", "approval": a}
}

// covers reports whether an evaluation matches the approved request exactly.
func (t *task) covers(e evaluation) bool {
	hash, err := bindingHash(e, relevant)
	return err == nil && hash == t.binding.Hash
}

// Tasks has the approval requests of other gateways, in memory alone. It is safe for concurrent
// use.
type Tasks struct {
	pipeline Pipeline
	now      func() time.Time
	// started passes tasks to Run.
	started chan *task

	// mu guards byID.
	mu   sync.Mutex
	byID map[string]*task
}

// start passes a task to Run and waits until the approval is pending or has failed.
func (ts *Tasks) start(ctx context.Context, t *task) error {
	t.id, t.approvalRef = "arq_"+rand.Text(), "apr_"+rand.Text()
	t.opened, t.done = make(chan struct{}), make(chan struct{})
	if err := ts.keep(t); err != nil {
		return err
	}
	select {
	case ts.started <- t:
	case <-ctx.Done():
		ts.drop(t)
		return reason.Errorf(reason.ShuttingDown, "the gateway is not ready to request approvals")
	}
	select {
	case <-t.opened:
	case <-ctx.Done():
		left := reason.Errorf(reason.Cancelled, "the requesting gateway disconnected before the approval was pending")
		t.stop(left)
		ts.drop(t)
		return left
	}
	if err := t.problem(); err != nil {
		ts.drop(t)
		return err
	}
	return nil
}

// Run requests approvals for the tasks until ctx ends. Unanswered approvals stay pending at the
// desk.
func (ts *Tasks) Run(ctx context.Context) error {
	work, stop := context.WithCancelCause(context.WithoutCancel(ctx))
	defer stop(nil)
	var group errgroup.Group
	for {
		select {
		case <-ctx.Done():
			stop(reason.Errorf(reason.ShuttingDown, "the gateway is stopping"))
			return group.Wait()
		case t := <-ts.started:
			group.Go(func() error {
				ts.ask(work, t)
				return nil
			})
		}
	}
}

func (ts *Tasks) ask(ctx context.Context, t *task) {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	t.mu.Lock()
	if t.end = cancel; t.ending != nil {
		cancel(t.ending)
	}
	t.mu.Unlock()
	answer, err := ts.pipeline.AskElsewhere(ctx, t.submission, t.description, t.see)
	t.mu.Lock()
	t.answer, t.err, t.endedAt = answer, err, ts.now()
	t.mu.Unlock()
	t.showOnce.Do(func() { close(t.opened) })
	close(t.done)
}

// keep adds a task, and drops tasks that ended more than keptFor ago.
func (ts *Tasks) keep(t *task) error {
	ts.mu.Lock()
	defer ts.mu.Unlock()
	now, of := ts.now(), 0
	for id, other := range ts.byID {
		other.mu.Lock()
		over := !other.endedAt.IsZero() && now.Sub(other.endedAt) >= keptFor
		other.mu.Unlock()
		switch {
		case over:
			delete(ts.byID, id)
		case other.by == t.by:
			of++
		}
	}
	if len(ts.byID) >= mostTasks || of >= mostOfOne {
		return reason.Errorf(reason.QuotaExceeded, "too many access requests are open or ended within the last hour").
			WithRemedy("Wait for answers, or cancel open requests.")
	}
	ts.byID[t.id] = t
	return nil
}

func (ts *Tasks) drop(t *task) {
	ts.mu.Lock()
	defer ts.mu.Unlock()
	delete(ts.byID, t.id)
}

func (ts *Tasks) find(id string) *task {
	return ts.first(func(t *task) bool { return t.id == id })
}

// approved returns the task of a caller with the given approval id, nil for none.
func (ts *Tasks) approved(by access.Caller, ref string) *task {
	return ts.first(func(t *task) bool { return t.by == by.Principal && t.approvalRef == ref })
}

// seen reports whether a task was already created from a denial.
func (ts *Tasks) seen(jti string) bool {
	return ts.first(func(t *task) bool { return t.binding.ID == jti }) != nil
}

// repeated returns the task of the same request under the same key.
func (ts *Tasks) repeated(by access.Caller, key, digest string) (*task, error) {
	if key == "" {
		return nil, nil
	}
	t := ts.first(func(t *task) bool { return t.by == by.Principal && t.key == key })
	if t != nil && t.digest != digest {
		return nil, errOther
	}
	return t, nil
}

func (ts *Tasks) first(fits func(*task) bool) *task {
	ts.mu.Lock()
	defer ts.mu.Unlock()
	for _, t := range ts.byID {
		if fits(t) {
			return t
		}
	}
	return nil
}
