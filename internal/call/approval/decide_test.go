package approval_test

import (
	"encoding/json"
	"errors"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"palyra/internal/call/approval"
	"palyra/internal/call/approval/approvaltest"
	"palyra/internal/core/access"
	"palyra/internal/core/event"
	"palyra/internal/core/must"
	"palyra/internal/core/reason"
	"palyra/internal/core/reason/reasontest"
)

func TestAllowOnce(t *testing.T) {
	t.Parallel()
	d := approvaltest.NewDesk(t)
	a := allowed(t, d, yes)
	if !a.Allowed() || a.ApprovalID() == "" || a.Version() != 2 || len(a.Votes()) != 1 || a.GrantID() != "" {
		t.Errorf("answer %+v", a)
	}
	decided := event.Draft{Code: event.Decided, Actor: "agent:builder", Payload: json.RawMessage(`{}`)}
	must.Do(t, d.Requests.Consume(t.Context(), a, decided))
	rec := wantState(t, d.Desk, a.ApprovalID(), approval.Consumed)
	if rec.ClosedAt.IsZero() || rec.AnsweredAt.IsZero() {
		t.Errorf("times are missing: %+v", rec)
	}
	want := []event.Code{event.Asked, event.Voted, event.Answered, event.Consumed, event.Decided}
	if got := d.Store.Codes(); !slices.Equal(got, want) {
		t.Errorf("journal %v, want %v", got, want)
	}
	err := d.Requests.Consume(t.Context(), a, decided)
	reasontest.Want(t, "the error", err, reason.ApprovalConflict)
	if n := count(d.Store, event.Decided); n != 1 {
		t.Errorf("%d decided events after the second use, want 1", n)
	}
}

func TestVetoDenies(t *testing.T) {
	t.Parallel()
	d := approvaltest.NewDesk(t)
	d.Judge.Set(func(j *approvaltest.Judge) { j.Need = 2 })
	p, rec := waiting(t, d)
	rec = decide(t, d, alice, rec.ID, yes)
	if rec.State != approval.Pending || rec.Missing != "1 more" || rec.Version != 2 {
		t.Fatalf("after one of two votes: %s %q v%d", rec.State, rec.Missing, rec.Version)
	}
	if rec = decide(t, d, bob, rec.ID, no); rec.State != approval.Denied {
		t.Fatalf("after a veto: %s", rec.State)
	}
	out := <-p.Done
	if out.Err != nil || out.Answer.Kind() != approval.ByDenial || out.Answer.Reason() != reason.ApprovalDenied || out.Answer.Allowed() {
		t.Errorf("answer %v %v %v", out.Answer.Kind(), out.Answer.Reason(), out.Err)
	}
	if want := "a person denied the call: use the staging host"; out.Answer.Message() != want || out.Answer.Remedy() == "" {
		t.Errorf("message %q, remedy %q", out.Answer.Message(), out.Answer.Remedy())
	}
	err := d.Requests.Consume(t.Context(), out.Answer)
	reasontest.Want(t, "the error", err, reason.PermitRefused)
}

func TestTwoVotesAllow(t *testing.T) {
	t.Parallel()
	d := approvaltest.NewDesk(t)
	d.Judge.Set(func(j *approvaltest.Judge) { j.Need = 2 })
	p, rec := waiting(t, d)
	decide(t, d, alice, rec.ID, yes)
	_, err := d.Votes.Decide(t.Context(), alice, rec.ID, yes)
	reasontest.Want(t, "the error", err, reason.ApprovalConflict)
	wantState(t, d.Desk, rec.ID, approval.Pending)
	decide(t, d, bob, rec.ID, yes)
	if out := <-p.Done; len(out.Answer.Votes()) != 2 || !out.Answer.Allowed() {
		t.Errorf("answer %v with %d votes", out.Answer.Kind(), len(out.Answer.Votes()))
	}
}

func TestWhoMayNotDecide(t *testing.T) {
	t.Parallel()
	d := approvaltest.NewDesk(t)
	_, rec := waiting(t, d)
	agent := approvaltest.Caller("x")
	agent.Principal = access.Agent("other")
	_, err := d.Votes.Decide(t.Context(), agent, rec.ID, yes)
	reasontest.Want(t, "the error", err, reason.PermissionDenied)

	_, own := waiting(t, d, func(a *approval.Ask) {
		a.Proposal.Caller = alice
		a.Plan.Binding.Principal, a.Plan.Binding.OnBehalfOf = "user:alice", "user:alice"
	})
	_, err = d.Votes.Decide(t.Context(), alice, own.ID, yes)
	reasontest.Want(t, "the error", err, reason.PermissionDenied)
	wantState(t, d.Desk, own.ID, approval.Pending)
	// Control: another user may decide.
	decide(t, d, bob, own.ID, yes)

	_, err = d.Votes.Decide(t.Context(), alice, "01J00000000000000000000000", yes)
	reasontest.Want(t, "the error", err, reason.NotFound)
}

func TestShownDigest(t *testing.T) {
	t.Parallel()
	d := approvaltest.NewDesk(t)
	_, rec := waiting(t, d)
	_, err := d.Votes.Decide(t.Context(), alice, rec.ID, approval.Ballot{Allow: true, ShownDigest: "sha256:other"})
	reasontest.Want(t, "the error", err, reason.DigestMismatch)
	wantState(t, d.Desk, rec.ID, approval.Pending)
	decide(t, d, alice, rec.ID, approval.Ballot{Allow: true, ShownDigest: rec.CallDigest})
}

func TestJudgeErrorKeepsNoVote(t *testing.T) {
	t.Parallel()
	d := approvaltest.NewDesk(t)
	_, rec := waiting(t, d)
	d.Judge.Fail(reason.Errorf(reason.PolicyError, "boom"))
	_, err := d.Votes.Decide(t.Context(), alice, rec.ID, yes)
	reasontest.Want(t, "the error", err, reason.PolicyError)
	if rec = wantState(t, d.Desk, rec.ID, approval.Pending); len(rec.Votes) != 0 {
		t.Errorf("%d votes kept", len(rec.Votes))
	}
	// A denial needs no ruling.
	decide(t, d, alice, rec.ID, no)
}

func TestBallots(t *testing.T) {
	t.Parallel()
	d := approvaltest.NewDesk(t)
	for _, c := range []struct {
		name   string
		ballot approval.Ballot
		want   reason.Code
	}{
		{"unknown scope", approval.Ballot{Allow: true, Scope: "forever"}, reason.InvalidInput},
		{"unknown match", approval.Ballot{Allow: true, Scope: approval.Session, Match: "all"}, reason.InvalidInput},
		{"once with ttl", approval.Ballot{Allow: true, TTL: time.Minute}, reason.InvalidInput},
		{"once with matcher", approval.Ballot{Allow: true, Match: approval.MatchTool}, reason.InvalidInput},
		{"timeboxed without ttl", approval.Ballot{Allow: true, Scope: approval.Timeboxed}, reason.InvalidInput},
		{"timeboxed too short", approval.Ballot{Allow: true, Scope: approval.Timeboxed, TTL: time.Second}, reason.InvalidInput},
		{"timeboxed too long", approval.Ballot{Allow: true, Scope: approval.Timeboxed, TTL: 7*24*time.Hour + 1}, reason.InvalidInput},
		{"session too long", approval.Ballot{Allow: true, Scope: approval.Session, TTL: 9 * time.Hour}, reason.InvalidInput},
		{"broad without permission", approval.Ballot{Allow: true, Scope: approval.Session, Match: approval.MatchTool}, reason.PermissionDenied},
		{"reason too long", approval.Ballot{Reason: string(make([]byte, approval.MaxReason+1))}, reason.InputTooLarge},
		{"reason not UTF-8", approval.Ballot{Reason: "\xff"}, reason.InvalidUTF8},
	} {
		t.Run(c.name, func(t *testing.T) {
			_, rec := waiting(t, d)
			_, err := d.Votes.Decide(t.Context(), alice, rec.ID, c.ballot)
			reasontest.Want(t, "the error", err, c.want)
			wantState(t, d.Desk, rec.ID, approval.Pending)
		})
	}
}

func TestExpiry(t *testing.T) {
	t.Parallel()
	bubble(t, func(t *testing.T) {
		d := approvaltest.NewDesk(t)
		start := time.Now()
		p, rec := waiting(t, d, func(a *approval.Ask) { a.Timeout = time.Minute })
		out := <-p.Done
		if took := time.Since(start); took < time.Minute || took > time.Minute+time.Millisecond {
			t.Errorf("expired after %s", took)
		}
		if out.Answer.Kind() != approval.ByExpiry || out.Answer.Reason() != reason.ApprovalExpired {
			t.Errorf("answer %v %v", out.Answer.Kind(), out.Err)
		}
		_, err := d.Votes.Decide(t.Context(), alice, rec.ID, yes)
		reasontest.Want(t, "the error", err, reason.ApprovalConflict)
		var e *reason.Error
		if !errors.As(err, &e) || e.Fields["state"] != "expired" || e.Fields["changed_by"] != "service:palyrad" {
			t.Errorf("the conflict does not say who won: %v", err)
		}
	})
}

// A vote after the deadline is refused even if the timer has not fired.
func TestLateVoteLosesWithoutTimer(t *testing.T) {
	t.Parallel()
	bubble(t, func(t *testing.T) {
		store := approvaltest.NewStore(t)
		judge := &approvaltest.Judge{Need: 1}
		d := approvaltest.Open(t, store, judge, approval.Limits{}) // not running
		p := approvaltest.Resolve(d, approvaltest.Ask(t))
		rec := <-p.Records
		time.Sleep(10 * time.Minute)
		_, err := d.Votes.Decide(t.Context(), alice, rec.ID, yes)
		reasontest.Want(t, "the error", err, reason.ApprovalConflict)
		wantState(t, d, rec.ID, approval.Expired)
		if out := <-p.Done; out.Answer.Kind() != approval.ByExpiry {
			t.Errorf("the caller got %v", out.Answer.Kind())
		}
	})
}

func TestTimeoutIsClamped(t *testing.T) {
	t.Parallel()
	bubble(t, func(t *testing.T) {
		d := approvaltest.NewDesk(t)
		for asked, want := range map[time.Duration]time.Duration{
			0: 10 * time.Minute, time.Second: 30 * time.Second, 48 * time.Hour: 24 * time.Hour, time.Hour: time.Hour,
		} {
			p, rec := waiting(t, d, func(a *approval.Ask) { a.Timeout = asked; a.Proposal.Session = asked.String() })
			if got := rec.ExpiresAt.Sub(rec.CreatedAt); got != want {
				t.Errorf("timeout %s became %s, want %s", asked, got, want)
			}
			p.Leave(nil)
			<-p.Done
		}
	})
}

// An ask without a timeout waits for the desk's default.
func TestDefaultTimeout(t *testing.T) {
	t.Parallel()
	d := approvaltest.NewDeskOn(t, approvaltest.NewStore(t), approval.Limits{Timeout: 3 * time.Minute})
	_, rec := waiting(t, d)
	if got := rec.ExpiresAt.Sub(rec.CreatedAt); got != 3*time.Minute {
		t.Errorf("the record waits %s, want 3m", got)
	}
	_, named := waiting(t, d, otherSession, func(a *approval.Ask) { a.Timeout = time.Hour })
	if got := named.ExpiresAt.Sub(named.CreatedAt); got != time.Hour {
		t.Errorf("the record waits %s, want the 1h that the ask names", got)
	}
}

func TestUnusedAllowExpires(t *testing.T) {
	t.Parallel()
	bubble(t, func(t *testing.T) {
		d := approvaltest.NewDesk(t)
		a := allowed(t, d, yes)
		time.Sleep(5*time.Minute - time.Second)
		wantState(t, d.Desk, a.ApprovalID(), approval.Allowed)
		time.Sleep(2 * time.Second)
		synctest.Wait()
		wantState(t, d.Desk, a.ApprovalID(), approval.Expired)
		err := d.Requests.Consume(t.Context(), a, event.Draft{Code: event.Decided, Actor: "a", Payload: json.RawMessage(`{}`)})
		reasontest.Want(t, "the error", err, reason.ApprovalExpired)
		if count(d.Store, event.Decided) != 0 {
			t.Error("an expired approval decided a call")
		}
		// An expired answer is not a denial: the same call may ask again.
		_, rec := waiting(t, d)
		if rec.ID == a.ApprovalID() {
			t.Error("the expired record was joined")
		}
	})
}
