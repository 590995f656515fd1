package dualcontrol

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"time"

	"palyra/internal/call/approval"
	"palyra/internal/core/access"
	"palyra/internal/core/reason"
	"palyra/internal/core/text"
)

// stopGrace is how long a change that is being made may continue after palyrad stops.
const stopGrace = 10 * time.Second

// waitingChange is a change that waits for its answer. It does not depend on the connection of its
// caller.
type waitingChange struct {
	by    access.Caller
	needs access.Permission
	// end ends the wait and withdraws the question; a change that is already being made continues.
	// abandon ends such a change as well.
	end, abandon context.CancelCauseFunc
	// asked is closed once the question is stored and record is set.
	asked  chan struct{}
	record approval.Record
	// done is closed once the change was made or has ended, and outcome and err are set.
	done    chan struct{}
	outcome Outcome
	err     error
}

// Run runs until ctx ends. Changes that wait then end without an answer, and their records end at
// the next start. A change that is being made may finish within stopGrace.
func (g *Gate) Run(ctx context.Context) error {
	<-ctx.Done()
	stopping := reason.Errorf(reason.ShuttingDown, "the gateway is stopping, and the change was not made")
	for _, w := range g.stop() {
		w.end(stopping)
		timer := time.AfterFunc(stopGrace, func() { w.abandon(stopping) })
		defer timer.Stop()
	}
	g.running.Wait()
	return nil
}

func (g *Gate) stop() []*waitingChange {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.stopped = true
	return slices.Collect(maps.Values(g.waiting))
}

// start starts to wait for the answer to a planned change, or joins the same change.
func (g *Gate) start(ctx context.Context, p *Plan, plan Planner) (*waitingChange, error) {
	digest, err := p.Question.digest()
	if err != nil {
		return nil, err
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.stopped {
		return nil, reason.Errorf(reason.ShuttingDown, "the gateway is stopping")
	}
	if w := g.waiting[digest]; w != nil {
		return w, nil
	}
	making, abandon := context.WithCancelCause(context.WithoutCancel(ctx))
	asking, end := context.WithCancelCause(making)
	w := &waitingChange{
		by: p.Question.Requester, needs: p.Needs, end: end, abandon: abandon,
		asked: make(chan struct{}), done: make(chan struct{}),
	}
	g.waiting[digest] = w
	g.running.Go(func() {
		defer abandon(nil)
		w.outcome, w.err = g.complete(asking, making, w, p.Question, plan)
		g.mu.Lock()
		delete(g.waiting, digest)
		g.mu.Unlock()
		close(w.done)
	})
	return w, nil
}

// complete waits for the answer to a question and makes the change.
func (g *Gate) complete(asking, making context.Context, w *waitingChange, q Question, plan Planner) (Outcome, error) {
	yes, err := g.Ask(asking, q, func(r *approval.Record) {
		if w.record.ID != "" {
			return
		}
		w.record = *r
		close(w.asked)
		// The requester may have lost the permission before Recheck could find the change.
		g.recheck(w)
	})
	if err != nil {
		return Outcome{}, err
	}
	result, err := g.makeApproved(making, w.by, yes, plan)
	if err != nil {
		g.failed(making, q, yes.ApprovalID(), err)
		return Outcome{}, err
	}
	return Outcome{ApprovalID: yes.ApprovalID(), Result: result}, nil
}

// failed reports an approved change that was not made: in the log, in its approval, and in a
// notice. The requester of the change may have disconnected.
func (g *Gate) failed(ctx context.Context, q Question, id string, err error) {
	why := "internal error"
	if e := (*reason.Error)(nil); errors.As(err, &e) {
		why = e.Message
	}
	g.log.ErrorContext(ctx, "an approved change of the gateway was not made", slog.String("approval", id), slog.Any("error", err))
	if err := g.records.EndUnused(ctx, id, text.Visible("not applied: "+why)); err != nil {
		g.log.ErrorContext(ctx, "ending the approval of a change that was not made", slog.String("approval", id), slog.Any("error", err))
	}
	at := g.now().UTC()
	g.note(notice{at: at, text: fmt.Sprintf("%q was approved (%s) and not applied at %s: %s", q.Title, id, at.Format(time.RFC3339), why)})
}

// Recheck ends the waiting changes whose requester may no longer make them. It MUST be called after
// each change of members, devices or policies.
func (g *Gate) Recheck() {
	g.mu.Lock()
	list := slices.Collect(maps.Values(g.waiting))
	g.mu.Unlock()
	for _, w := range list {
		g.recheck(w)
	}
}

func (g *Gate) recheck(w *waitingChange) {
	if err := g.checkRequester(w.by, w.needs); err != nil {
		w.end(reason.Errorf(reason.Cancelled, "%s is no longer permitted to make this change", w.by.Principal))
	}
}

// result returns the result of the change, or reason.ChangePending.
func (w *waitingChange) result(ctx context.Context, wait bool) (Outcome, error) {
	asked := w.asked
	if wait {
		asked = nil
	}
	select {
	case <-w.done:
		return w.outcome, w.err
	case <-asked:
	case <-ctx.Done():
		return Outcome{}, fmt.Errorf("waiting for the answer: %w", context.Cause(ctx))
	}
	select {
	case <-w.done: // the change may have ended at once
		return w.outcome, w.err
	default:
		return Outcome{}, w.pending()
	}
}

func (w *waitingChange) pending() error {
	return reason.Errorf(reason.ChangePending, "the change waits for %s", w.record.Missing).
		WithField("approval_id", w.record.ID).WithField("expires_at", w.record.ExpiresAt.Format(time.RFC3339)).
		WithRemedy("Ask another person to run `palyra approve %s`. `palyra approvals show %s` shows the state, and `palyra approvals cancel %s` withdraws the change.", w.record.ID, w.record.ID, w.record.ID)
}
