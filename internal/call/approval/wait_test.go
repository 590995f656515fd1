package approval_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"palyra/internal/call/approval"
	"palyra/internal/call/approval/approvaltest"
	"palyra/internal/core/event"
	"palyra/internal/core/must"
	"palyra/internal/core/reason"
	"palyra/internal/core/reason/reasontest"
)

func TestIdenticalAsksShareOneRecord(t *testing.T) {
	t.Parallel()
	bubble(t, func(t *testing.T) {
		d := approvaltest.NewDesk(t)
		p1, rec := waiting(t, d)
		p2, again := waiting(t, d)
		if rec.ID != again.ID || again.Waiters != 2 || count(d.Store, event.Asked) != 1 {
			t.Fatalf("records %s and %s with %d waiters", rec.ID, again.ID, again.Waiters)
		}
		synctest.Wait()
		if count(d.Store, event.Joined) != 1 {
			t.Error("joining was not journaled")
		}
		decide(t, d, alice, rec.ID, no)
		for _, p := range []*approvaltest.Pending{p1, p2} {
			if out := <-p.Done; out.Answer.Kind() != approval.ByDenial {
				t.Errorf("answer %v", out.Answer.Kind())
			}
		}
	})
}

func TestOnceServesTheFirstWaiter(t *testing.T) {
	t.Parallel()
	bubble(t, func(t *testing.T) {
		d := approvaltest.NewDesk(t)
		p1, rec := waiting(t, d)
		p2, _ := waiting(t, d)
		p3, _ := waiting(t, d)
		synctest.Wait()
		decide(t, d, alice, rec.ID, yes)
		out := <-p1.Done
		if !out.Answer.Allowed() || out.Answer.ApprovalID() != rec.ID {
			t.Fatalf("the first waiter got %v", out.Answer.Kind())
		}
		synctest.Wait()
		list, _, err := d.Records.List(t.Context(), approval.Filter{Traits: approval.Traits{States: []approval.State{approval.Pending}}})
		if err != nil || len(list) != 1 || list[0].ID == rec.ID || list[0].Waiters != 2 {
			t.Fatalf("the others do not wait on one new record: %+v, %v", list, err)
		}
		decide(t, d, alice, list[0].ID, no)
		for _, p := range []*approvaltest.Pending{p2, p3} {
			if out := <-p.Done; out.Answer.Allowed() {
				t.Error("one yes served two calls")
			}
		}
	})
}

func TestSiblingIsServedByTheGrant(t *testing.T) {
	t.Parallel()
	for _, standing := range []bool{true, false} {
		bubble(t, func(t *testing.T) {
			d := approvaltest.NewDesk(t)
			covers := func(a *approval.Ask) {
				a.Covers = func(context.Context, approval.Grant) (bool, error) { return standing, nil }
			}
			p1, rec := waiting(t, d, covers)
			p2, _ := waiting(t, d, covers)
			decide(t, d, alice, rec.ID, approval.Ballot{Allow: true, Scope: approval.Session})
			if out := <-p1.Done; out.Answer.Kind() != approval.ByApproval {
				t.Errorf("the first got %v", out.Answer.Kind())
			}
			synctest.Wait()
			select {
			case out := <-p2.Done:
				if !standing || out.Answer.Kind() != approval.ByGrant {
					t.Errorf("the sibling got %v", out.Answer.Kind())
				}
			default:
				if standing {
					t.Error("the sibling was not served by the grant")
				}
				p2.Leave(nil) // policy excludes standing grants: the call asks again
				<-p2.Done
			}
		})
	}
}

func TestLastWaiterLeavingCancels(t *testing.T) {
	t.Parallel()
	bubble(t, func(t *testing.T) {
		d := approvaltest.NewDesk(t)
		p1, rec := waiting(t, d)
		p2, _ := waiting(t, d)
		p1.Leave(nil)
		if out := <-p1.Done; out.Answer.Reason() != reason.Cancelled || out.Err != nil {
			t.Errorf("answer %v, %v", out.Answer.Reason(), out.Err)
		}
		wantState(t, d.Desk, rec.ID, approval.Pending)
		p2.Leave(nil)
		<-p2.Done
		after := wantState(t, d.Desk, rec.ID, approval.Cancelled)
		if after.ChangedBy != "agent:builder" || count(d.Store, event.Cancelled) != 1 {
			t.Errorf("cancelled by %s", after.ChangedBy)
		}
		_, err := d.Votes.Decide(t.Context(), alice, rec.ID, yes)
		reasontest.Want(t, "the error", err, reason.ApprovalConflict)
	})
}

func TestUnusedAnswerServesTheRepeatedCall(t *testing.T) {
	t.Parallel()
	bubble(t, func(t *testing.T) {
		d := approvaltest.NewDesk(t)
		a := allowed(t, d, yes)
		// An identical call asks again while the first one holds the answer.
		p, rec := waiting(t, d)
		if rec.ID == a.ApprovalID() {
			t.Fatal("the answer was given to two calls at once")
		}
		p.Leave(nil)
		<-p.Done
		time.Sleep(31 * time.Second) // the first call never consumed it
		again, err := d.Requests.Resolve(t.Context(), new(approvaltest.Ask(t)), nil)
		if err != nil || again.ApprovalID() != a.ApprovalID() || !again.Allowed() {
			t.Fatalf("the repeated call got %v, %v", again.Kind(), err)
		}
		must.Do(t, d.Requests.Consume(t.Context(), again))
		reasontest.Want(t, "the error", d.Requests.Consume(t.Context(), a), reason.ApprovalConflict)
	})
}

func TestStoreFailureAllowsNothing(t *testing.T) {
	t.Parallel()
	d := approvaltest.NewDesk(t)
	full := reason.Errorf(reason.JournalUnavailable, "disk full")
	d.FailNext(full)
	_, err := d.Requests.Resolve(t.Context(), new(approvaltest.Ask(t)), nil)
	reasontest.Want(t, "the error", err, reason.JournalUnavailable)

	p, rec := waiting(t, d)
	d.FailNext(full)
	_, err = d.Votes.Decide(t.Context(), alice, rec.ID, yes)
	reasontest.Want(t, "the error", err, reason.JournalUnavailable)
	wantState(t, d.Desk, rec.ID, approval.Pending)
	decide(t, d, alice, rec.ID, yes)
	a := (<-p.Done).Answer
	d.FailNext(full)
	reasontest.Want(t, "the error", d.Requests.Consume(t.Context(), a), reason.JournalUnavailable)
	wantState(t, d.Desk, a.ApprovalID(), approval.Allowed)
	if err := d.Requests.Consume(t.Context(), a); err != nil {
		t.Errorf("after the failure: %v", err)
	}
}

func TestUnstorableExpiry(t *testing.T) {
	t.Parallel()
	bubble(t, func(t *testing.T) {
		d := approvaltest.NewDesk(t)
		p, rec := waiting(t, d)
		d.FailNext(reason.Errorf(reason.JournalUnavailable, "disk full"))
		out := <-p.Done
		reasontest.Want(t, "the error", out.Err, reason.JournalUnavailable)
		if out.Answer.Allowed() {
			t.Error("allowed")
		}
		time.Sleep(2 * time.Second) // the expiry is retried
		synctest.Wait()
		wantState(t, d.Desk, rec.ID, approval.Expired)
	})
}

func TestShutdownKeepsPendingRecords(t *testing.T) {
	t.Parallel()
	stopping := reason.Errorf(reason.ShuttingDown, "stopping")
	for name, stop := range map[string]func(*approvaltest.Pending, func()){
		"the desk stops":            func(_ *approvaltest.Pending, stop func()) { stop() },
		"the daemon ends its calls": func(p *approvaltest.Pending, _ func()) { p.Leave(stopping) },
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				store := approvaltest.NewStore(t)
				d := approvaltest.Open(t, store, &approvaltest.Judge{Need: 1}, approval.Limits{})
				stopDesk := approvaltest.Start(t, d)
				p := approvaltest.Resolve(d, approvaltest.Ask(t))
				rec := <-p.Records
				stop(p, stopDesk)
				out := <-p.Done
				if !errors.Is(out.Err, &reason.Error{Code: reason.ShuttingDown}) || out.Answer.Allowed() {
					t.Errorf("%v, %v", out.Answer.Kind(), out.Err)
				}
				wantState(t, d, rec.ID, approval.Pending)
			})
		})
	}
}

func TestRestart(t *testing.T) {
	t.Parallel()
	bubble(t, func(t *testing.T) {
		store := approvaltest.NewStore(t)
		limits := approval.Limits{}
		judge := &approvaltest.Judge{Need: 1}
		first := approvaltest.Open(t, store, judge, limits)
		stop := approvaltest.Start(t, first)
		p := approvaltest.Resolve(first, approvaltest.Ask(t))
		rec := <-p.Records
		other := approvaltest.Resolve(first, approvaltest.Ask(t, otherArguments))
		unused := <-other.Records
		must.Get(first.Votes.Decide(t.Context(), alice, unused.ID, yes))(t)
		<-other.Done
		stop()
		<-p.Done

		d := approvaltest.NewDeskOn(t, store, limits)
		must.Do(t, d.Records.MarkRunsGone(t.Context()))
		wantState(t, d.Desk, unused.ID, approval.Expired)
		if got := wantState(t, d.Desk, rec.ID, approval.Pending); !got.RunGone {
			t.Error("the record does not say that its run is gone")
		}
		again, joined := waiting(t, d)
		if joined.ID != rec.ID || joined.RunGone {
			t.Errorf("the repeated call waits on %s, run gone %v", joined.ID, joined.RunGone)
		}
		decide(t, d, alice, rec.ID, yes)
		out := <-again.Done
		if !out.Answer.Allowed() {
			t.Fatalf("answer %v", out.Answer.Kind())
		}
		must.Check(t, d.Requests.Consume(t.Context(), out.Answer))
	})
}

func TestDecidedWhileRunIsGone(t *testing.T) {
	t.Parallel()
	bubble(t, func(t *testing.T) {
		store := approvaltest.NewStore(t)
		first := approvaltest.Open(t, store, &approvaltest.Judge{Need: 1}, approval.Limits{})
		stop := approvaltest.Start(t, first)
		p := approvaltest.Resolve(first, approvaltest.Ask(t))
		rec := <-p.Records
		stop()
		<-p.Done
		d := approvaltest.NewDeskOn(t, store, approval.Limits{})
		decide(t, d, alice, rec.ID, yes)
		a, err := d.Requests.Resolve(t.Context(), new(approvaltest.Ask(t)), nil)
		if err != nil || a.ApprovalID() != rec.ID || !a.Allowed() {
			t.Errorf("the repeated call got %v, %v", a.Kind(), err)
		}
	})
}

func TestExpiryResumesAfterRestart(t *testing.T) {
	t.Parallel()
	bubble(t, func(t *testing.T) {
		store := approvaltest.NewStore(t)
		first := approvaltest.Open(t, store, &approvaltest.Judge{Need: 1}, approval.Limits{})
		stop := approvaltest.Start(t, first)
		p := approvaltest.Resolve(first, approvaltest.Ask(t))
		rec := <-p.Records
		stop()
		<-p.Done
		time.Sleep(time.Hour)
		d := approvaltest.NewDeskOn(t, store, approval.Limits{})
		synctest.Wait()
		wantState(t, d.Desk, rec.ID, approval.Expired)
	})
}

// TestWaiterWakesQuickly: an answer reaches its waiting call immediately, without a timer.
func TestWaiterWakesQuickly(t *testing.T) {
	t.Parallel()
	bubble(t, func(t *testing.T) {
		d := approvaltest.NewDesk(t)
		for range 20 {
			p, rec := waiting(t, d)
			begin := time.Now()
			decide(t, d, alice, rec.ID, yes)
			a := (<-p.Done).Answer
			if took := time.Since(begin); took != 0 {
				t.Errorf("the wake-up took %s", took)
			}
			must.Do(t, d.Requests.Consume(t.Context(), a))
			must.Do(t, d.EndSession(t.Context(), "none"))
		}
	})
}

func TestMemoryIsReleased(t *testing.T) {
	t.Parallel()
	bubble(t, func(t *testing.T) {
		d := approvaltest.NewDesk(t)
		for n := range 30 {
			run := func(a *approval.Ask) { a.Proposal.Run = string(rune('a' + n)); a.Plan.Binding.Cwd = a.Proposal.Run }
			switch n % 3 {
			case 0:
				mintGrant(t, d, approval.Ballot{Allow: true, Scope: approval.Session}, run)
			case 1:
				p, rec := waiting(t, d, run)
				decide(t, d, alice, rec.ID, no)
				<-p.Done
			case 2:
				allowed(t, d, yes, run)
			}
		}
		time.Sleep(12 * time.Hour)
		synctest.Wait()
		if open, runs, cooled, grants := d.Held(); open+runs+cooled+grants != 0 {
			t.Errorf("still held: %d records, %d counters, %d cooled asks, %d of grants", open, runs, cooled, grants)
		}
	})
}

// TestMayEditWaitsForDelivery: an edit that arrives after the record is stored and before the
// waiting call has received it succeeds.
func TestMayEditWaitsForDelivery(t *testing.T) {
	t.Parallel()
	bubble(t, func(t *testing.T) {
		d := approvaltest.NewDesk(t)
		ask := approvaltest.Ask(t)
		ctx, leave := context.WithCancel(t.Context())
		deliver, ended := make(chan struct{}), make(chan error, 1)
		go func() {
			_, err := d.Requests.Resolve(ctx, &ask, func(*approval.Record) { <-deliver })
			ended <- err
		}()
		synctest.Wait()
		list, _, err := d.Records.List(t.Context(), approval.Filter{})
		must.Do(t, err)
		edited := make(chan error, 1)
		go func() {
			_, err := d.Edits.MayEdit(t.Context(), alice, list[0].ID, list[0].Version, list[0].CallDigest)
			edited <- err
		}()
		synctest.Wait()
		if len(edited) > 0 {
			t.Error("MayEdit returned before the call received the record")
		}
		close(deliver)
		must.Check(t, <-edited)
		leave()
		<-ended
	})
}
