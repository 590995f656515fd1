package call_test

import (
	"testing"
	"testing/synctest"
	"time"

	"palyra/internal/call"
	"palyra/internal/call/approval"
	"palyra/internal/core/event"
	"palyra/internal/core/must"
	"palyra/internal/core/reason"
	"palyra/internal/core/reason/reasontest"
	"palyra/internal/core/tool"
	"palyra/internal/gateway/gatewaytest"
)

var (
	forSession = approval.Ballot{Allow: true, Scope: approval.Session}
	forAnHour  = approval.Ballot{Allow: true, Scope: approval.Timeboxed, TTL: time.Hour}
)

// grant approves a call, waits for it, and returns the resulting grant.
func (w *world) grant(s call.Submission, b approval.Ballot) approval.Grant {
	w.t.Helper()
	r := w.begin(s)
	w.vote(alice, r.asked(), b)
	if o, err := r.wait(); err != nil || !o.Decision.Allowed || o.Decision.GrantID != "" {
		w.t.Fatalf("the call that was asked about: %+v, %v", o.Decision, err)
	}
	list, _, err := w.Desk.Grants.List(w.t.Context(), approval.GrantFilter{Open: true})
	if err != nil || len(list) != 1 {
		w.t.Fatalf("%d grants, %v", len(list), err)
	}
	return list[0]
}

// wantGranted submits a call that the grant must allow without a question.
func (w *world) wantGranted(what string, s call.Submission, g approval.Grant) {
	w.t.Helper()
	before := w.head()
	_, o, err := w.call(s)
	if err != nil || !o.Decision.Allowed || o.Decision.GrantID != g.ID || o.Decision.ApprovalID != g.ApprovalID {
		w.t.Errorf("%s: %+v, %v", what, o.Decision, err)
		return
	}
	w.wantJournal(before, event.Proposed, event.Evaluated, event.GrantUsed, event.Decided, event.Attested)
	w.checkEvidence(o)
}

// wantAsked submits a call that no approval covers, and cancels it once it asks.
func (w *world) wantAsked(what string, s call.Submission) {
	w.t.Helper()
	r := w.begin(s)
	select {
	case <-r.asks:
	case <-r.done:
		w.t.Errorf("%s: nobody was asked: %+v, %v", what, r.outcome.Decision, r.err)
	}
	r.leave()
	r.wait()
}

func in(session string, s call.Submission) call.Submission {
	s.Session = session
	return s
}

func otherInput(s call.Submission) call.Submission {
	s.Input = []byte(`{"argv":["make","clean"]}`)
	return s
}

func TestSessionGrant(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	g := w.grant(in("one", runCall()), forSession)
	w.wantGranted("the same session", in("one", runCall()), g)
	w.wantAsked("another session", in("two", runCall()))
	w.wantAsked("another input", in("one", otherInput(runCall())))
	elsewhere := in("one", runCall())
	elsewhere.Caller.DeviceID = "01JNA3Q0G0DEV1CE0000000002"
	w.wantAsked("another device with a session of that name", elsewhere)
	w.restart()
	w.wantGranted("after a restart", in("one", runCall()), g)
	must.Do(t, w.Desk.EndSession(t.Context(), call.SessionID(agent, "one")))
	w.wantAsked("after the session ended", in("one", runCall()))
	if g, err := w.Desk.Grants.Get(t.Context(), g.ID); err != nil || g.Uses != 2 {
		t.Errorf("%d uses are counted, %v", g.Uses, err)
	}
}

func TestTimeboxedGrant(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		g := w.grant(in("one", runCall()), forAnHour)
		w.wantGranted("another session", in("two", runCall()), g)
		time.Sleep(59 * time.Minute)
		w.wantGranted("just before its end", runCall(), g)
		time.Sleep(2 * time.Minute)
		w.wantAsked("after its end", runCall())
	})
}

func TestSubjectGrantCoversOtherInputs(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	b := forAnHour
	b.Match = approval.MatchSubject
	g := w.grant(runCall(), b)
	w.wantGranted("another input", otherInput(runCall()), g)
	w.run.Change(func(p *gatewaytest.Probe) { p.Found.Subject = "process.run:another" })
	w.wantAsked("another subject", runCall())
}

// A changed tool definition is another tool: its grants do not apply. The call requires
// approval and is not refused.
func TestGrantEndsWithTheDefinition(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	b := forAnHour
	b.Match = approval.MatchTool
	g := w.grant(runCall(), b)
	w.wantGranted("the same definition", otherInput(runCall()), g)
	flips["tool_definition_digest"].call(w, nil)
	w.wantAsked("another definition", runCall())
	w.run.Ran(t, 2)
}

func TestPolicyCanForbidGrants(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.grant(runCall(), forAnHour)
	w.reload(noStanding)
	w.wantAsked("with standing approvals ruled out", runCall())
	w.run.Ran(t, 1)
}

func TestRevokedGrantAsksAgain(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	g := w.grant(runCall(), forAnHour)
	w.revoke(g)
	w.wantAsked("after the revoke", runCall())
	w.run.Ran(t, 1)
}

func (w *world) revoke(g approval.Grant) {
	w.t.Helper()
	if _, err := w.Desk.Grants.Revoke(w.t.Context(), alice, g.ID, "enough"); err != nil {
		w.t.Error(err)
	}
}

// A revoked grant stops a call that has not started: before the verdict, before the decision,
// and between decision and start.
func TestRevokeStopsAnUnstartedCall(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		// at selects the event or plan of the call at which the revocation happens.
		at func(w *world, revoke func()) func(call.Event)
		// decided reports whether the decision came first.
		decided bool
	}{
		"before the decision": {at: func(w *world, revoke func()) func(call.Event) {
			w.ledger.after = map[event.Code]func(){event.Evaluated: revoke}
			return nil
		}},
		"after the decision": {decided: true, at: func(_ *world, revoke func()) func(call.Event) {
			return func(e call.Event) {
				if e.Decision != nil {
					revoke()
				}
			}
		}},
		"while it gets ready": {decided: true, at: func(w *world, revoke func()) func(call.Event) {
			w.run.Change(func(p *gatewaytest.Probe) {
				p.OnPlan = func(n int) {
					if n == 4 { // the first call has two plans, and the decision of the second one
						revoke()
					}
				}
			})
			return nil
		}},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			g := w.grant(runCall(), forAnHour)
			r := w.beginWith(runCall(), c.at(w, func() { w.revoke(g) }))
			o, err := r.wait()
			switch {
			case err != nil:
				t.Fatal(err)
			case !c.decided && (o.Decision.Allowed || o.Decision.Reason != reason.ApprovalRevoked):
				t.Errorf("got %+v", o.Decision)
			case c.decided && (o.Report.Outcome != tool.Refused || o.Report.Reason != string(reason.ApprovalRevoked)):
				t.Errorf("got %+v", o.Report)
			case c.decided:
				w.checkEvidence(o)
			}
			w.run.Ran(t, 1)
			w.open(0)
		})
	}
}

// A freeze suspends grants; a thaw reactivates them.
func TestFreezeSuspendsGrants(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	g := w.grant(runCall(), forAnHour)
	w.freeze()
	_, _, err := w.call(runCall())
	reasontest.Want(t, "frozen", err, reason.GatewayFrozen)
	w.thaw()
	w.wantGranted("thawed", runCall(), g)
}

// TestOneTimeApprovalIsUsedOnce: a one-time approval is used once.
func TestOneTimeApprovalIsUsedOnce(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	r := w.begin(runCall())
	w.vote(alice, r.asked(), yes)
	r.wait()
	w.wantAsked("the same call again", runCall())
	w.restart()
	w.wantAsked("after a restart", runCall())
	w.run.Ran(t, 1)
}

// The decision of a call under a grant contains the digest that the grant covers. Concurrent
// calls never share the last use: each other call is denied with APPROVAL_EXPIRED or requires
// approval.
func TestLastUseOfAGrant(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	b := forAnHour
	b.Uses = 1
	g := w.grant(runCall(), b)
	var started []*running
	for range 4 {
		started = append(started, w.begin(runCall()))
	}
	through := 0
	for _, r := range started {
		select {
		case <-r.asks:
			r.leave()
			_, _ = r.wait()
			continue
		case <-r.done:
		}
		o, err := r.wait()
		switch {
		case err != nil && reason.Of(err) == reason.ApprovalExpired:
		case err != nil:
			t.Errorf("a call ended with %v", err)
		case o.Decision.Allowed:
			through++
			if o.Decision.GrantID != g.ID || o.Decision.GrantCovers != g.Covered || g.Covered == "" {
				t.Errorf("the decision is %+v of grant %+v", o.Decision, g)
			}
		case o.Decision.Reason != reason.ApprovalExpired:
			t.Errorf("a call was denied for %s", o.Decision.Reason)
		}
	}
	if through != 1 {
		t.Errorf("%d calls went through with one use", through)
	}
}

// The prompt reports how many recent calls an offered grant would have covered. These include
// calls that required approval and calls allowed by a grant or policy. Calls of other tools or
// other people do not count, and for a session only its own calls count.
func TestCoveredCallsAreCounted(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	covered := func(s call.Submission) (asked int64, of map[approval.Scope]map[approval.Match]int64) {
		r := w.begin(s)
		rec := r.asked()
		r.leave()
		_, _ = r.wait()
		of = map[approval.Scope]map[approval.Match]int64{approval.Once: {}, approval.Session: {}, approval.Timeboxed: {}}
		for _, o := range rec.Prompt.Scopes {
			of[o.Scope][o.Match] = o.CoveredLately
		}
		return rec.Prompt.AskedLately, of
	}
	g := w.grant(in("one", runCall()), forAnHour)
	w.wantGranted("in its session", in("one", runCall()), g)
	w.wantGranted("in another", in("two", runCall()), g)
	for range 3 { // allowed by policy, and of another tool
		if _, o, err := w.call(in("one", readCall())); err != nil || !o.Decision.Allowed {
			t.Fatalf("%+v, %v", o.Decision, err)
		}
	}
	must.Get(w.Desk.Grants.Revoke(t.Context(), alice, g.ID, "enough"))(t)
	asked, of := covered(in("one", runCall()))
	if asked != 1 || of[approval.Once][approval.MatchExact] != 0 || of[approval.Session][approval.MatchExact] != 2 || of[approval.Timeboxed][approval.MatchExact] != 3 || of[approval.Timeboxed][approval.MatchTool] != 3 {
		t.Errorf("asked %d, covered %v", asked, of)
	}
	w.reload(`@id("free") @waives("approval: a test") permit(principal, action == Action::"tool.execute/process.run", resource) when { context.egress.mode != "none" };`)
	for range 2 {
		if _, o, err := w.call(in("one", runCall())); err != nil || !o.Decision.Allowed || o.Decision.ApprovalID != "" {
			t.Fatalf("%+v, %v", o.Decision, err)
		}
	}
	w.reload("")
	// The earlier ask counts, too.
	if asked, of := covered(in("one", runCall())); asked != 2 || of[approval.Session][approval.MatchExact] != 5 || of[approval.Timeboxed][approval.MatchExact] != 6 {
		t.Errorf("after what policy let run: asked %d, covered %v", asked, of)
	}
}
