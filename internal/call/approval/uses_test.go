package approval_test

import (
	"context"
	"strings"
	"testing"
	"time"

	"palyra/internal/call/approval"
	"palyra/internal/call/approval/approvaltest"
	"palyra/internal/core/access"
	"palyra/internal/core/event"
	"palyra/internal/core/must"
	"palyra/internal/core/reason"
	"palyra/internal/core/reason/reasontest"
)

func uses(n int64) approval.Ballot {
	return approval.Ballot{Allow: true, Scope: approval.Timeboxed, TTL: time.Hour, Uses: n}
}

// TestGrantUseLimit: a grant with a use limit permits exactly that number of calls, also across a
// restart. The call with the last use still starts.
func TestGrantUseLimit(t *testing.T) {
	t.Parallel()
	store := approvaltest.NewStore(t)
	d := approvaltest.NewDeskOn(t, store, approval.Limits{})
	id := mintGrant(t, d, uses(2))
	use := func(d *approvaltest.Desk) approval.Answer {
		a := must.Get(d.Grants.Answer(t.Context(), id, approvaltest.Ask(t)))(t)
		must.Do(t, d.Requests.Consume(t.Context(), a))
		return a
	}
	use(d)
	d = approvaltest.NewDeskOn(t, store, approval.Limits{}) // like a restart
	if !found(t, d, approvaltest.Ask(t)) {
		t.Fatal("control: with a use left it is not found")
	}
	last := use(d)
	if err := d.Requests.Recheck(t.Context(), last); err != nil {
		t.Errorf("the call with the last use does not start: %v", err)
	}
	if found(t, d, approvaltest.Ask(t)) {
		t.Error("a grant that is used up is found")
	}
	_, err := d.Grants.Answer(t.Context(), id, approvaltest.Ask(t))
	reasontest.Want(t, "the error", err, reason.ApprovalExpired)
	d = approvaltest.NewDeskOn(t, store, approval.Limits{})
	if found(t, d, approvaltest.Ask(t)) {
		t.Error("after a restart, a grant that is used up is found")
	}
	// A queued call can still be stopped.
	must.Get(d.Grants.Revoke(t.Context(), bob, id, "stop"))(t)
	reasontest.Want(t, "the error", d.Requests.Recheck(t.Context(), last), reason.ApprovalRevoked)
}

// Exactly one of several concurrent calls gets the last use of a grant. Control: a grant with a
// use for each call.
func TestLastUseGoesToOneCall(t *testing.T) {
	t.Parallel()
	for most, want := range map[int64]int{1: 1, 8: 8} {
		for range rounds {
			d := approvaltest.NewDesk(t)
			id := mintGrant(t, d, uses(most))
			var contenders []func() error
			for range 8 {
				a := must.Get(d.Grants.Answer(t.Context(), id, approvaltest.Ask(t)))(t)
				contenders = append(contenders, func() error { return d.Requests.Consume(context.Background(), a) })
			}
			if winners := race(t, []reason.Code{reason.ApprovalExpired}, contenders...); winners != want {
				t.Fatalf("of a grant with %d uses, %d calls went through", most, winners)
			}
			if g := must.Get(d.Grants.Get(t.Context(), id))(t); g.Uses != int64(want) || count(d.Store, event.GrantUsed) != want {
				t.Fatalf("%d uses are stored, %d journaled", g.Uses, count(d.Store, event.GrantUsed))
			}
		}
	}
}

// The smallest number of uses among several votes counts; 0 means no limit.
func TestSmallestUseLimitWins(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ first, second, want int64 }{{3, 0, 3}, {0, 3, 3}, {5, 2, 2}, {0, 0, 0}} {
		d := approvaltest.NewDesk(t)
		d.Judge.Set(func(j *approvaltest.Judge) { j.Need = 2 })
		_, rec := waiting(t, d)
		decide(t, d, alice, rec.ID, uses(c.first))
		rec = decide(t, d, bob, rec.ID, uses(c.second))
		if g := must.Get(d.Grants.Get(t.Context(), rec.GrantID))(t); g.MostUses != c.want {
			t.Errorf("%d and %d make %d", c.first, c.second, g.MostUses)
		}
	}
}

func TestUseLimits(t *testing.T) {
	t.Parallel()
	d := approvaltest.NewDesk(t)
	_, rec := waiting(t, d)
	for _, b := range []approval.Ballot{uses(-1), uses(approval.MaxUses + 1), {Allow: true, Uses: 1}} {
		_, err := d.Votes.Decide(t.Context(), alice, rec.ID, b)
		reasontest.Want(t, "the error", err, reason.InvalidInput)
	}
	decide(t, d, alice, rec.ID, uses(approval.MaxUses)) // control
}

// An approval of a call that can run arbitrary code covers only that exact call. No wider grant
// is offered or accepted, and a wide grant of another call does not cover it.
func TestExactScopeOnly(t *testing.T) {
	t.Parallel()
	anything := func(a *approval.Ask) { a.Plan.ExactOnly = "python3 runs any code that it is given" }
	for _, match := range []approval.Match{approval.MatchSubject, approval.MatchTool} {
		wide := approval.Ballot{Allow: true, Scope: approval.Timeboxed, TTL: time.Hour, Match: match}
		d := approvaltest.NewDesk(t)
		d.Judge.Set(func(j *approvaltest.Judge) { j.Broad = map[access.Principal]bool{alice.Principal: true} })
		_, rec := waiting(t, d, anything)
		if n := len(rec.Prompt.Scopes); n != 3 || rec.Prompt.ExactOnly == "" {
			t.Errorf("%d answers are offered: %+v", n, rec.Prompt.Scopes)
		}
		_, err := d.Votes.Decide(t.Context(), alice, rec.ID, wide)
		reasontest.Want(t, "the error", err, reason.InvalidInput)
		wantState(t, d.Desk, rec.ID, approval.Pending)
		decide(t, d, alice, rec.ID, approval.Ballot{Allow: true, Scope: approval.Timeboxed, TTL: time.Hour})

		// A wide grant of another call has the same subject and tool.
		d = approvaltest.NewDesk(t)
		d.Judge.Set(func(j *approvaltest.Judge) { j.Broad = map[access.Principal]bool{alice.Principal: true} })
		id := mintGrant(t, d, wide)
		if !found(t, d, approvaltest.Ask(t, otherArguments)) {
			t.Fatal("control: the wide grant covers no other call")
		}
		ask := approvaltest.Ask(t, otherArguments, anything)
		if found(t, d, ask) {
			t.Errorf("a grant with matcher %s covers a call that runs anything", match)
		}
		_, err = d.Grants.Answer(t.Context(), id, ask)
		reasontest.Want(t, "the error", err, reason.BindingMismatch)
	}
}

// Offers and grants describe their coverage in the same words.
func TestGrantDescribesItsCoverage(t *testing.T) {
	t.Parallel()
	git := func(a *approval.Ask) { a.Plan.SubjectCovers = "any git command, any arguments, in workspace here" }
	ofRun := func(a *approval.Ask) {
		a.Proposal.Run, a.Proposal.Session = "01JNA3Q0G0RVN000000000000A", "device-1.01JNA3Q0G0RVN000000000000A"
	}
	// A client that gives its run and its session the same name may use the session for more.
	alike := func(a *approval.Ask) { a.Proposal.Run, a.Proposal.Session = "deploy", "device-1.deploy" }
	for _, c := range []struct {
		scope  approval.Scope
		change []func(*approval.Ask)
		want   string
	}{
		{approval.Timeboxed, []func(*approval.Ask){git}, "any git command, any arguments, in workspace here, by all runs and calls of agent:builder for user:owner"},
		{approval.Session, []func(*approval.Ask){git}, "any git command, any arguments, in workspace here, by runs and calls of agent:builder for user:owner in session s1"},
		{approval.Session, []func(*approval.Ask){git, ofRun}, "any git command, any arguments, in workspace here, by this run alone"},
		{approval.Session, []func(*approval.Ask){git, alike}, "any git command, any arguments, in workspace here, by runs and calls of agent:builder for user:owner in session deploy"},
		{approval.Timeboxed, nil, "any call of process.run with subject process.run:/usr/bin/make@default, by all runs and calls of agent:builder for user:owner"},
	} {
		d := approvaltest.NewDesk(t)
		_, rec := waiting(t, d, c.change...)
		offered := false
		for _, o := range rec.Prompt.Scopes {
			offered = offered || o.Scope == c.scope && o.What+", "+o.By == c.want && strings.HasPrefix(o.Matcher, c.want+", for up to ")
		}
		ttl := time.Hour
		rec = decide(t, d, alice, rec.ID, approval.Ballot{Allow: true, Scope: c.scope, TTL: ttl, Match: approval.MatchSubject})
		if g := must.Get(d.Grants.Get(t.Context(), rec.GrantID))(t); g.Covered != c.want || !offered {
			t.Errorf("the grant says %q, want %q; offered %t: %+v", g.Covered, c.want, offered, rec.Prompt.Scopes)
		}
	}
}
