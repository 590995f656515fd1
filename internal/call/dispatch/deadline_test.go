package dispatch_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"palyra/internal/core/reason"
	"palyra/internal/core/tool"
)

// gated makes the tool request a commit and then work for some time. It sends the ruling and
// returns how the call ended.
func gated(before, after time.Duration, told chan<- tool.CommitRuling) func(context.Context, tool.Call) tool.Report {
	return func(ctx context.Context, c tool.Call) tool.Report {
		if !sleeps(ctx, before) {
			return ended(ctx)
		}
		ruling, err := c.Commit(ctx, tool.CommitRequest{Facts: tool.CommitFacts{Root: "sha256:x"}})
		if err != nil {
			ruling.Message = err.Error()
		}
		told <- ruling
		if !sleeps(ctx, after) {
			return ended(ctx)
		}
		return tool.Report{Outcome: tool.Succeeded}
	}
}

// sleeps reports whether ctx was still active after d.
func sleeps(ctx context.Context, d time.Duration) bool {
	select {
	case <-time.After(d):
		return true
	case <-ctx.Done():
		return false
	}
}

func ended(ctx context.Context) tool.Report {
	if errors.Is(ctx.Err(), context.DeadlineExceeded) {
		return tool.Report{Outcome: tool.TimedOut, Reason: string(reason.TimedOut)}
	}
	return tool.Report{Outcome: tool.Stopped, Reason: string(reason.Of(context.Cause(ctx)))}
}

// The time that approvers take does not count against the call. The tools of this world have
// one minute.
func TestDeadlinePausesAtTheGate(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		before, wait, after time.Duration
		want                tool.Outcome
		took                time.Duration
	}{
		"a long wait":              {50 * time.Second, 9 * time.Hour, 9 * time.Second, tool.Succeeded, 9*time.Hour + 59*time.Second},
		"remaining time continues": {50 * time.Second, time.Hour, 11 * time.Second, tool.TimedOut, time.Hour + time.Minute},
		"no wait":                  {50 * time.Second, 0, 11 * time.Second, tool.TimedOut, time.Minute},
		"over before it waits":     {61 * time.Second, time.Hour, 0, tool.TimedOut, time.Minute},
		"the whole time is left":   {0, time.Hour, 59 * time.Second, tool.Succeeded, time.Hour + 59*time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(t)
				told := make(chan tool.CommitRuling, 1)
				w.tool.Work = gated(c.before, c.after, told)
				d := w.decide(t, w.proposal(t))
				d.Commit = func(ctx context.Context, r tool.CommitRequest) (tool.CommitRuling, error) {
					sleeps(ctx, c.wait)
					return tool.CommitRuling{Allowed: true, ApprovalID: r.Facts.Root}, nil
				}
				began := time.Now()
				report := w.Run(t.Context(), d)
				if report.Outcome != c.want || time.Since(began) != c.took {
					t.Errorf("%s after %s, want %s after %s", report.Outcome, time.Since(began), c.want, c.took)
				}
				if len(told) == 1 && (<-told).ApprovalID != "sha256:x" {
					t.Error("the ruling did not reach the tool")
				}
			})
		})
	}
}

// Two concurrent waits pause the deadline once.
func TestDeadlineOfTwoWaits(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.tool.Work = func(ctx context.Context, c tool.Call) tool.Report {
			other := make(chan error, 1)
			go func() {
				_, err := c.Commit(ctx, tool.CommitRequest{Facts: tool.CommitFacts{Bytes: 3}})
				other <- err
			}()
			if _, err := c.Commit(ctx, tool.CommitRequest{Facts: tool.CommitFacts{Bytes: 5}}); err != nil {
				return tool.Report{Outcome: tool.Failed}
			}
			<-other
			if sleeps(ctx, 61*time.Second) {
				return tool.Report{Outcome: tool.Succeeded}
			}
			return ended(ctx)
		}
		d := w.decide(t, w.proposal(t))
		d.Commit = func(ctx context.Context, r tool.CommitRequest) (tool.CommitRuling, error) {
			sleeps(ctx, time.Duration(r.Facts.Bytes)*time.Hour)
			return tool.CommitRuling{}, ctx.Err()
		}
		began := time.Now()
		if report := w.Run(t.Context(), d); report.Outcome != tool.TimedOut || time.Since(began) != 5*time.Hour+time.Minute {
			t.Errorf("%s after %s", report.Outcome, time.Since(began))
		}
	})
}

// A freeze, and a disconnect of the client, end the wait immediately.
func TestWaitAtTheGateEnds(t *testing.T) {
	t.Parallel()
	left := reason.Errorf(reason.Cancelled, "the client left")
	freeze := func(w *world, _ context.CancelCauseFunc) { w.Freeze() }
	leave := func(_ *world, leave context.CancelCauseFunc) { leave(left) }
	own := func(ctx context.Context) context.Context { return ctx }
	for name, c := range map[string]struct {
		stop  func(*world, context.CancelCauseFunc)
		given func(context.Context) context.Context
		want  reason.Code
	}{
		"freeze":                      {freeze, own, reason.GatewayFrozen},
		"leave":                       {leave, own, reason.Cancelled},
		"freeze, with a detached ctx": {freeze, context.WithoutCancel, reason.GatewayFrozen},
		"leave, with a detached ctx":  {leave, context.WithoutCancel, reason.Cancelled},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(t)
				w.tool.Work = func(ctx context.Context, call tool.Call) tool.Report {
					if _, err := call.Commit(c.given(ctx), tool.CommitRequest{}); err == nil {
						t.Error("the wait did not end with an error")
					}
					return ended(ctx)
				}
				d := w.decide(t, w.proposal(t))
				waiting := make(chan struct{})
				d.Commit = func(ctx context.Context, _ tool.CommitRequest) (tool.CommitRuling, error) {
					close(waiting)
					<-ctx.Done()
					return tool.CommitRuling{}, context.Cause(ctx)
				}
				ctx, cancel := context.WithCancelCause(t.Context())
				began := time.Now()
				done := make(chan tool.Report, 1)
				go func() { done <- w.Run(ctx, d) }()
				<-waiting
				c.stop(w, cancel)
				report := <-done
				if time.Since(began) != 0 {
					t.Errorf("it ended after %s", time.Since(began))
				}
				if report.Outcome != tool.Stopped || report.Reason != string(c.want) {
					t.Errorf("got %+v", report)
				}
			})
		})
	}
}

// A call without approvers has no commit gate.
func TestNoCommitWithoutApprovers(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.tool.Work = func(_ context.Context, c tool.Call) tool.Report {
		if c.Commit != nil {
			t.Error("there is somebody to ask")
		}
		return tool.Report{Outcome: tool.Succeeded}
	}
	if report := w.Run(t.Context(), w.decide(t, w.proposal(t))); report.Outcome != tool.Succeeded {
		t.Errorf("got %+v", report)
	}
}

// Contexts that a tool derives also report the cause of their end.
func TestDeadlineOfDerivedContexts(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.tool.Work = func(ctx context.Context, _ tool.Call) tool.Report {
			child, cancel := context.WithTimeout(ctx, time.Hour)
			defer cancel()
			grandchild, stop := context.WithCancel(child)
			defer stop()
			<-grandchild.Done()
			for i, c := range []context.Context{ctx, child, grandchild} {
				if !errors.Is(c.Err(), context.DeadlineExceeded) || !errors.Is(context.Cause(c), context.DeadlineExceeded) {
					t.Errorf("context %d: %v, because %v", i, c.Err(), context.Cause(c))
				}
			}
			return tool.Report{Outcome: tool.TimedOut}
		}
		began := time.Now()
		if w.Run(t.Context(), w.decide(t, w.proposal(t))); time.Since(began) != time.Minute {
			t.Errorf("it ended after %s", time.Since(began))
		}
	})
}
