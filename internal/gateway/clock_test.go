//go:build unix

package gateway

import (
	"context"
	"log/slog"
	"path/filepath"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"golang.org/x/sync/errgroup"

	"palyra/internal/call"
	"palyra/internal/call/approval"
	"palyra/internal/core/access"
	"palyra/internal/core/config"
	"palyra/internal/core/event"
	"palyra/internal/core/must"
	"palyra/internal/core/reason"
	"palyra/internal/core/tool"
	"palyra/internal/evidence/journal"
	"palyra/internal/vault/kek"
)

// jumping is a wall clock that a test can set.
type jumping struct{ ahead atomic.Int64 }

func (j *jumping) now() time.Time { return time.Now().Add(time.Duration(j.ahead.Load())).Round(0) }

func (j *jumping) set(ahead time.Duration) { j.ahead.Store(int64(ahead)) }

// clockWorld is a whole gateway without listeners, inside a bubble.
type clockWorld struct {
	t      *testing.T
	g      *gateway
	caller access.Caller
	stop   context.CancelFunc
	parts  *errgroup.Group
}

func openClockWorld(t *testing.T, dir string, wall *jumping) *clockWorld {
	t.Helper()
	cfg := config.Default()
	cfg.Vault.Backend = kek.InFile
	cfg.StateDir = dir
	cfg.ProcessRunner.Enabled = false
	cfg.Approvals.Cooldown = 0
	g := must.Get(build(t.Context(), Options{
		Config: cfg, Log: slog.New(slog.DiscardHandler), wall: wall.now,
		tools: []tool.Runnable{appendTool(filepath.Join(dir, "effect"))},
	}))(t)
	w := &clockWorld{t: t, g: g, parts: &errgroup.Group{}}
	w.caller = firstOperator(t, g)
	ctx, stop := context.WithCancel(context.Background())
	w.stop = stop
	w.parts.Go(func() error { return g.desk.Run(ctx) })
	return w
}

func (w *clockWorld) close() {
	w.t.Helper()
	w.stop()
	must.Check(w.t, w.parts.Wait())
	must.Check(w.t, w.g.close(nil))
}

// call starts a call that requires an approval. The channel receives its outcome.
func (w *clockWorld) call() <-chan call.Outcome {
	done := make(chan call.Outcome, 1)
	go func() {
		out, err := w.g.pipeline.Call(w.t.Context(), call.Submission{Caller: w.caller, Tool: "test.append"}, func(call.Event) {})
		if err != nil && reason.Of(err) != reason.ShuttingDown {
			w.t.Error(err)
		}
		done <- out
	}()
	synctest.Wait()
	return done
}

// pending returns the pending approval, which must be the only one.
func (w *clockWorld) pending() approval.Record {
	w.t.Helper()
	list, _, err := w.g.desk.Records.List(w.t.Context(), approval.Filter{Traits: approval.Traits{States: []approval.State{approval.Pending}}})
	if err != nil || len(list) != 1 {
		w.t.Fatalf("%d approvals are pending, %v, want 1", len(list), err)
	}
	return list[0]
}

func (w *clockWorld) allow(b approval.Ballot) error {
	w.t.Helper()
	rec := w.pending()
	b.Allow, b.ShownDigest = true, rec.CallDigest
	_, err := w.g.desk.Votes.Decide(w.t.Context(), w.caller, rec.ID, b)
	return err
}

// wantOutcome checks the outcome of a call, which must have ended.
func (w *clockWorld) wantOutcome(done <-chan call.Outcome, allowed bool, why reason.Code) {
	w.t.Helper()
	synctest.Wait()
	select {
	case out := <-done:
		if out.Decision.Allowed != allowed || out.Decision.Reason != why {
			w.t.Errorf("the call was decided with %v %s, want %v %s", out.Decision.Allowed, out.Decision.Reason, allowed, why)
		}
	default:
		w.t.Fatal("the call still waits")
	}
}

// verify fails if the journal does not verify, and returns the number of its ClockStepped
// events.
func (w *clockWorld) verify() int {
	w.t.Helper()
	if _, err := w.g.journal.VerifyFull(w.t.Context()); err != nil {
		w.t.Error(err)
	}
	steps := must.Get(w.g.journal.List(w.t.Context(), journal.Filter{Code: string(event.ClockStepped)}))(w.t)
	return len(steps)
}

// TestClockSetBack: an approval and a grant end after their duration although the wall clock is
// set back by a day, not before and not a day later.
func TestClockSetBack(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		wall := &jumping{}
		w := openClockWorld(t, filepath.Join(t.TempDir(), "state"), wall)
		defer w.close()
		timeout := w.g.cfg.Approvals.DefaultTimeout
		done := w.call()
		wall.set(-24 * time.Hour)
		time.Sleep(timeout - time.Second)
		w.pending() // not expired early
		time.Sleep(2 * time.Second)
		w.wantOutcome(done, false, reason.ApprovalExpired)

		done = w.call()
		must.Do(t, w.allow(approval.Ballot{Scope: approval.Timeboxed, TTL: 30 * time.Minute}))
		w.wantOutcome(done, true, "")
		wall.set(-48 * time.Hour)
		time.Sleep(29 * time.Minute)
		w.wantOutcome(w.call(), true, "") // the grant is still valid
		time.Sleep(2 * time.Minute)
		w.call()
		w.pending() // the grant has expired: an approval is required again
		if n := w.verify(); n < 1 {
			t.Error("no event says that the clock was set back")
		}
	})
}

// TestClockSetForward: approvals and grants that are due by the new time expire. Late votes and
// expired grants have no effect, and no call hangs.
func TestClockSetForward(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		wall := &jumping{}
		w := openClockWorld(t, filepath.Join(t.TempDir(), "state"), wall)
		defer w.close()
		done := w.call()
		must.Do(t, w.allow(approval.Ballot{Scope: approval.Timeboxed, TTL: time.Hour}))
		w.wantOutcome(done, true, "")
		wall.set(72 * time.Hour)
		done = w.call() // the grant has expired: an approval is required
		wall.set(144 * time.Hour)
		if err := w.allow(approval.Ballot{}); reason.Of(err) != reason.ApprovalExpired && reason.Of(err) != reason.ApprovalConflict {
			t.Errorf("a vote days after the deadline: %v", err)
		}
		w.wantOutcome(done, false, reason.ApprovalExpired)
		done = w.call()
		if err := w.allow(approval.Ballot{}); err != nil {
			t.Errorf("after the jump: %v", err)
		}
		w.wantOutcome(done, true, "")
		if n := w.verify(); n != 0 {
			t.Errorf("%d events say that the clock was set back", n)
		}
	})
}

// TestClockWasWrong: a grant that was issued while the clock was ten years ahead still expires
// in time after the clock was corrected, also over a restart.
func TestClockWasWrong(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		dir := filepath.Join(t.TempDir(), "state")
		wall := &jumping{}
		openClockWorld(t, dir, wall).close() // creates keys and certificates at the correct time
		wall.set(10 * 365 * 24 * time.Hour)
		w := openClockWorld(t, dir, wall)
		done := w.call()
		must.Do(t, w.allow(approval.Ballot{Scope: approval.Timeboxed, TTL: 30 * time.Minute}))
		w.wantOutcome(done, true, "")
		w.close()
		wall.set(0)
		w = openClockWorld(t, dir, wall)
		defer w.close()
		if n := w.g.desk.Counts().Grants; n != 1 {
			t.Fatalf("%d grants are live after the restart, want 1", n)
		}
		time.Sleep(31 * time.Minute)
		synctest.Wait()
		if n := w.g.desk.Counts().Grants; n != 0 {
			t.Errorf("%d grants are live after their time", n)
		}
		w.verify()
	})
}
