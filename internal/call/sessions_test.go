package call_test

import (
	"context"
	"errors"
	"math/rand/v2"
	"reflect"
	"strconv"
	"strings"
	"testing"
	"time"

	"palyra/internal/call"
	"palyra/internal/call/approval"
	"palyra/internal/call/policy/policytest"
	"palyra/internal/call/record"
	"palyra/internal/call/session"
	"palyra/internal/core/access"
	"palyra/internal/core/event"
	"palyra/internal/core/must"
	"palyra/internal/core/reason"
	"palyra/internal/core/tool"
	"palyra/internal/gateway/gatewaytest"
)

// facts returns the session facts of the last evaluation.
func (w *world) facts() tool.SessionFacts {
	return last[evaluated](w, event.Evaluated).Request.SessionFacts
}

// TestLabelsDoNotResetASession: a client has one session, whatever labels and API methods it
// uses. Another credential, principal or kind of client has a separate session.
func TestLabelsDoNotResetASession(t *testing.T) {
	t.Parallel()
	w := newWorld(t, twoAgents)
	w.call(readCall())
	first := last[record.Proposed](w, event.Proposed).GatewaySession
	for name, c := range map[string]struct {
		change func(*call.Submission)
		same   bool
	}{
		"no label":        {func(s *call.Submission) { s.Run = "" }, true},
		"another run":     {func(s *call.Submission) { s.Run = "x" }, true},
		"another label":   {func(s *call.Submission) { s.Session = "y" }, true},
		"a channel":       {func(s *call.Submission) { s.Run, s.Session = "", "z" }, true},
		"a stream":        {func(s *call.Submission) { s.Caller.Surface = access.SurfaceStream }, true},
		"a gateway's run": {func(s *call.Submission) { s.Run, s.MaxCalls = "01RUN", 5 }, true},
		"another device":  {func(s *call.Submission) { s.Caller.DeviceID = "other" }, false},
		"another agent":   {func(s *call.Submission) { s.Caller.Principal = access.Agent("other") }, false},
		"another client":  {func(s *call.Submission) { s.Caller.Surface = access.SurfaceInClient }, false},
	} {
		s := readCall()
		c.change(&s)
		w.call(s)
		request := last[evaluated](w, event.Evaluated).Request
		used := len(request.SessionFacts.ToolsUsed) == 1
		if used != c.same || (request.GatewaySession == first) != c.same {
			t.Errorf("%s: session %s with %+v, want the same as %s: %t", name, request.GatewaySession, request.SessionFacts, first, c.same)
		}
	}
}

// TestUsersCountAsAgentsDo: a client with a user's credential becomes tainted like any other.
func TestUsersCountAsAgentsDo(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.read.Work = func(context.Context, tool.Call) tool.Report {
		r := gatewaytest.Succeeded(`{}`)
		r.Egress.Observed = []tool.Connection{{Host: "a.org", BytesIn: 1}}
		return r
	}
	s := readCall()
	s.Caller = alice
	w.call(s)
	w.call(s)
	if f := w.facts(); !f.Tainted || f.CallsInRun != 2 {
		t.Errorf("%+v", f)
	}
}

// TestWaitingCallSeesTheFactsOfItsDecision: events while a call waits for approval count, and
// the approval does not cover them.
func TestWaitingCallSeesTheFactsOfItsDecision(t *testing.T) {
	t.Parallel()
	for name, spoiled := range map[string]bool{"fresh facts": false, "control: old facts": true} {
		w := newWorld(t, policies(`forbid(principal, action == Action::"tool.execute/process.run", resource) when { context.session.tools_used.contains("fs.read") };`))
		if spoiled {
			w.Pipeline.UseOldFacts()
		}
		r := w.begin(runCall())
		rec := r.asked()
		s := readCall()
		s.Session, s.Run = "another", "label"
		w.call(s)
		w.vote(alice, rec, yes)
		o, err := r.wait()
		if err != nil || o.Decision.Allowed != spoiled {
			t.Errorf("%s: %+v, %v", name, o.Decision, err)
		}
	}
}

// TestFactsThatNobodyReadsAreNotJudgedAgain: a call that waited is evaluated only once if no
// policy reads the changed facts.
func TestFactsThatNobodyReadsAreNotJudgedAgain(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	r := w.begin(runCall())
	rec := r.asked()
	w.call(readCall())
	w.trace.take()
	w.vote(alice, rec, yes)
	if o, err := r.wait(); err != nil || !o.Decision.Allowed {
		t.Fatalf("%+v, %v", o, err)
	}
	if steps := strings.Join(w.trace.take(), ", "); strings.Contains(steps, "evaluate") {
		t.Error(steps)
	}
}

// TestChangingFactsRefuse: a call whose answer becomes invalid at each evaluation is finally
// refused, with a remedy, and does not run.
func TestChangingFactsRefuse(t *testing.T) {
	t.Parallel()
	const asks = `@id("asks") forbid(principal, action == Action::"tool.execute/fs.read", resource) unless { context.approval.granted };`
	w := newWorld(t, policies(asks))
	flip := 0
	w.onCurrent = func() { // at each evaluation
		flip++
		w.reload([]string{asks, ""}[flip%2])
	}
	w.Connect(t)
	r := w.begin(readCall())
	go func() {
		for rec := range r.asks {
			_, _ = w.Desk.Votes.Decide(context.Background(), alice, rec.ID, yes)
		}
	}()
	_, err := r.wait()
	close(r.asks)
	known := &reason.Error{}
	if reason.Of(err) != reason.FactsChanged || !errors.As(err, &known) || known.NextStep() == "" {
		t.Errorf("%v", err)
	}
	w.read.Ran(t, 0)
}

// TestBytesAreReserved: the bytes that running calls may send count for other calls. After they
// end, the bytes that they sent count instead.
func TestBytesAreReserved(t *testing.T) {
	t.Parallel()
	w := newWorld(t, policies(`@waives("approval: a test") permit(principal, action == Action::"tool.execute/http.fetch", resource) when { context.session.bytes_out + 100 <= 250 };
forbid(principal, action == Action::"tool.execute/http.fetch", resource) when { context.session.bytes_out + 100 > 250 };`))
	w.fetch.Change(func(p *gatewaytest.Probe) { p.Found.MaySend = 100 })
	inside, leave := make(chan struct{}, 9), make(chan struct{})
	w.fetch.Work = func(context.Context, tool.Call) tool.Report {
		inside <- struct{}{}
		<-leave
		r := gatewaytest.Succeeded(`{}`)
		r.Egress.Observed = []tool.Connection{{Host: "example.org", BytesOut: 40}}
		return r
	}
	fetch := call.Submission{Caller: agent, Tool: "http.fetch", Input: []byte(`{"url":"https://example.org/"}`)}
	calls := []*running{w.begin(fetch), w.begin(fetch)}
	<-inside
	<-inside
	if _, o, err := w.call(fetch); err != nil || o.Decision.Allowed {
		t.Errorf("a third call beside two: %+v, %v", o.Decision, err)
	}
	close(leave)
	for _, r := range calls {
		r.wait()
	}
	w.call(fetch) // 80 bytes were sent
	if f := w.facts(); f.BytesOut != 80 {
		t.Errorf("%d bytes out", f.BytesOut)
	}
	w.fetch.Ran(t, 3)
}

func policies(text string) func(*world) { return func(w *world) { w.options.Policies = text } }

// TestRestartFindsTheSameFacts: the session facts that policy reads are the same whether they
// are in memory or computed again from the journal.
func TestRestartFindsTheSameFacts(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	random := rand.New(rand.NewPCG(10, 3))
	key := session.KeyOf(agent)
	w.call(readCall())
	for round := range 60 {
		w.anyCall(random)
		id := last[record.Proposed](w, event.Proposed).GatewaySession
		live := must.Get(w.Pipeline.Session(t.Context(), id))(t)
		var facts record.Facts
		stored, found, err := w.ledger.NewestSession(t.Context(), key, facts.Add)
		stored.Did = facts.Did(stored.StartedAt)
		if err != nil || !found || stored.ID != id {
			t.Fatalf("round %d: %+v, %t, %v", round, stored, found, err)
		}
		live.LastAt, stored.LastAt = time.Time{}, time.Time{}
		if !reflect.DeepEqual(live.Did, stored.Did) {
			t.Fatalf("round %d: remembered %+v, stored %+v", round, live.Did, stored.Did)
		}
		if random.IntN(8) == 0 {
			w.restart()
			w.call(readCall()) // loads the session again
			if again := last[record.Proposed](w, event.Proposed).GatewaySession; again != id {
				t.Fatalf("round %d: session %s after a restart, was %s", round, again, id)
			}
		}
	}
}

// anyCall makes one random call with a random outcome.
func (w *world) anyCall(random *rand.Rand) {
	s := []call.Submission{
		readCall(), runCall(), {Caller: agent, Tool: "http.fetch", Input: []byte(`{"url":"https://example.org/"}`)},
		{Caller: agent, Tool: "not.there"}, ofRun(readCall()), otherInput(readCall()),
	}[random.IntN(6)]
	report := gatewaytest.Succeeded(`{}`)
	report.Egress = tool.Egress{Mode: []string{"strict", "strict", "strict", "preflight"}[random.IntN(4)]}
	for range random.IntN(3) {
		report.Egress.Observed = append(report.Egress.Observed, tool.Connection{Host: "a.org", BytesOut: random.Int64N(50), BytesIn: random.Int64N(2)})
	}
	for _, p := range []*gatewaytest.Probe{w.read, w.run, w.fetch} {
		p.Change(func(p *gatewaytest.Probe) {
			p.Found.MaySend = random.Int64N(100)
			p.Found.Facts.Secrets = []string{"s" + strconv.Itoa(random.IntN(4))}
			p.Work = func(context.Context, tool.Call) tool.Report { return report }
		})
	}
	r := w.begin(s)
	select {
	case rec := <-r.asks:
		w.vote(alice, rec, []approval.Ballot{yes, no}[random.IntN(2)])
	case <-r.done:
	}
	r.wait()
}

// perSession limits the calls of a session.
func perSession(n int) func(*world) { return func(w *world) { w.perSession = n } }

// TestSessionRequestsABudgetExtension: a session that has used its call budget requests an
// extension of 200 calls from a person. The extension is journaled and survives a restart.
func TestSessionRequestsABudgetExtension(t *testing.T) {
	t.Parallel()
	w := newWorld(t, perSession(2))
	w.call(readCall())
	w.call(otherInput(readCall()))
	s := readCall()
	s.Run, s.Session = "another", "label"
	r := w.begin(s)
	rec := r.asked()
	if !rec.AboutSession() || !strings.Contains(rec.Prompt.Title, "200 more") || len(rec.Prompt.Scopes) != 1 {
		t.Errorf("%s %+v", rec.SubjectID, rec.Prompt)
	}
	if _, err := w.Desk.Votes.Decide(t.Context(), alice, rec.ID, approval.Ballot{Allow: true, Scope: approval.Session}); reason.Of(err) != reason.InvalidInput {
		t.Errorf("a standing yes: %v", err)
	}
	if _, err := w.Desk.Votes.Decide(t.Context(), agent, rec.ID, yes); reason.Of(err) != reason.PermissionDenied {
		t.Errorf("the agent's own yes: %v", err)
	}
	w.vote(alice, rec, yes)
	if o, err := r.wait(); err != nil || !o.Decision.Allowed {
		t.Fatalf("%+v, %v", o, err)
	}
	extended := last[record.SessionExtended](w, event.SessionExtended)
	if extended.Calls != 200 || extended.Limit != 203 || extended.ApprovalID != rec.ID {
		t.Errorf("%+v", extended)
	}
	w.restart()
	if _, o, err := w.call(readCall()); err != nil || !o.Decision.Allowed {
		t.Errorf("after a restart: %+v, %v", o.Decision, err)
	}
}

// TestBudgetExtensionDenied: after a denial, or without approvers, the call is refused, and the
// error names the command that resets the budget. Calls that policy denies request no
// extension.
func TestBudgetExtensionDenied(t *testing.T) {
	t.Parallel()
	w := newWorld(t, perSession(1), policies(`forbid(principal, action == Action::"tool.execute/http.fetch", resource);`))
	w.call(readCall())
	denied := w.begin(call.Submission{Caller: agent, Tool: "http.fetch", Input: []byte(`{"url":"https://example.org/"}`)})
	if o, err := denied.wait(); err != nil || len(denied.asks) > 0 || o.Decision.Allowed {
		t.Errorf("a denied call: %+v, %v", o.Decision, err)
	}
	r := w.begin(readCall())
	w.vote(alice, r.asked(), approval.Ballot{Reason: "finish what you have"})
	o, err := r.wait()
	if !strings.Contains(o.Decision.Message, "finish what you have") {
		t.Errorf("what people said is left out: %s", o.Decision.Message)
	}
	if err != nil || o.Decision.Allowed || o.Decision.Reason != reason.BudgetExceeded || !strings.Contains(o.Decision.Remedy, "palyra sessions end ") {
		t.Errorf("%+v, %v", o.Decision, err)
	}
	w.read.Ran(t, 1)
}

// TestBudgetExtensionWithoutApprovers: no extension is requested if no member may decide.
func TestBudgetExtensionWithoutApprovers(t *testing.T) {
	t.Parallel()
	w := newWorld(t, perSession(1), policies(`forbid(principal, action == Action::"approval.decide", resource);`))
	w.call(readCall())
	r := w.begin(readCall())
	o, err := r.wait()
	if err != nil || len(r.asks) > 0 || o.Decision.Reason != reason.BudgetExceeded || !strings.Contains(o.Decision.Remedy, "palyra sessions end ") {
		t.Errorf("%+v, %v", o.Decision, err)
	}
}

// TestRequesterCannotApproveOwnExtension: with two users, the user of the session cannot
// approve its extension. Control: the approval of the other user.
func TestRequesterCannotApproveOwnExtension(t *testing.T) {
	t.Parallel()
	w := newWorld(t, perSession(1), func(w *world) { w.options.TwoUsers = true })
	s := readCall()
	s.Caller = alice
	w.call(s)
	r := w.begin(s)
	rec := r.asked()
	if _, err := w.Desk.Votes.Decide(t.Context(), alice, rec.ID, yes); reason.Of(err) != reason.PermissionDenied {
		t.Errorf("their own yes: %v", err)
	}
	w.vote(bob, rec, yes)
	if o, err := r.wait(); err != nil || !o.Decision.Allowed {
		t.Errorf("%+v, %v", o.Decision, err)
	}
}

// TestOneExtensionRequestForManyCalls: calls that wait for the same answer share one question.
func TestOneExtensionRequestForManyCalls(t *testing.T) {
	t.Parallel()
	for name, ballot := range map[string]approval.Ballot{"yes": yes, "no": no} {
		w := newWorld(t, perSession(1))
		w.call(readCall())
		var calls []*running
		asks := make(chan approval.Record, 99)
		for range 8 {
			calls = append(calls, w.beginWith(readCall(), func(e call.Event) {
				if e.Asked != nil {
					asks <- *e.Asked
				}
			}))
		}
		// Each of them reports the question to its caller; otherwise the caller could not find the
		// pending approval.
		var rec approval.Record
		for i := range calls {
			shown := <-asks
			if i > 0 && shown.ID != rec.ID {
				t.Errorf("%s: a call that waits shows %s, want %s", name, shown.ID, rec.ID)
			}
			rec = shown
		}
		w.vote(alice, rec, ballot)
		for _, r := range calls {
			if o, err := r.wait(); err != nil || o.Decision.Allowed != ballot.Allow {
				t.Errorf("%s: %+v, %v", name, o.Decision, err)
			}
		}
		// A call that arrives after a denial may be answered from the cached denial.
		if n := len(w.events(event.Asked)); n != 1 {
			t.Errorf("%s: %d asks", name, n)
		}
	}
}

// events lists the events with a code.
func (w *world) events(code event.Code) (list []journaled) {
	w.t.Helper()
	for _, e := range w.journal(0) {
		if e.Code == code {
			list = append(list, e)
		}
	}
	return list
}

// TestEndedSessionRestartsItsBudget: taint and count of a session end with it. A call that was
// waiting still belongs to the ended session.
func TestEndedSessionRestartsItsBudget(t *testing.T) {
	t.Parallel()
	w := newWorld(t, perSession(3))
	waits := w.begin(runCall())
	rec := waits.asked()
	w.call(readCall())
	old := last[record.Proposed](w, event.Proposed).GatewaySession
	past, err := w.Pipeline.Session(t.Context(), old)
	if err != nil || past.Facts.CallsInRun != 2 || past.Facts.InFlight != 1 || !w.SessionGoesOn(past) {
		t.Fatalf("%+v, %v", past, err)
	}
	end := session.Ending{ID: old, Key: past.Key, By: policytest.Alice, Reason: "looked at it"}
	must.Do(t, w.EndSession(t.Context(), end))
	if err := w.EndSession(t.Context(), end); reason.Of(err) != reason.AlreadyExists {
		t.Errorf("ended twice: %v", err)
	}
	w.call(readCall())
	if f := w.facts(); f.CallsInRun != 1 || len(f.ToolsUsed) != 0 {
		t.Errorf("%+v", f)
	}
	w.vote(alice, rec, yes)
	if o, err := waits.wait(); err != nil || !o.Decision.Allowed {
		t.Errorf("%+v, %v", o, err)
	}
	if past, err = w.Pipeline.Session(t.Context(), old); err != nil || past.EndedAt.IsZero() || past.EndedBy != policytest.Alice || past.EndReason != "looked at it" || w.SessionGoesOn(past) {
		t.Errorf("%+v, %v", past, err)
	}
	if got := past.Facts.ToolsUsed; !reflect.DeepEqual(got, []string{"fs.read", "process.run"}) {
		t.Errorf("the ended session used %v", got)
	}
	ended := last[record.SessionEnded](w, event.SessionEnded)
	if ended.Session != old || ended.EndedBy != policytest.Alice.String() || ended.DeviceID != agent.DeviceID {
		t.Errorf("%+v", ended)
	}
	w.restart()
	w.call(readCall())
	if now := last[record.Proposed](w, event.Proposed).GatewaySession; now == old {
		t.Error("an ended session went on after a restart")
	}
	list, _, err := w.Sessions(t.Context(), session.Filter{Of: policytest.Alice})
	if err != nil || len(list) != 2 || list[1].ID != old {
		t.Errorf("%+v, %v", list, err)
	}
	if list, _, err = w.Sessions(t.Context(), session.Filter{Open: true, Principal: agent.Principal}); err != nil || len(list) != 1 || list[0].Facts.CallsInRun != 2 {
		t.Errorf("%+v, %v", list, err)
	}
}
