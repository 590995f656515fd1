package call_test

import (
	"context"
	"slices"
	"sync"
	"sync/atomic"
	"testing"

	"palyra/internal/call"
	"palyra/internal/call/policy/policytest"
	"palyra/internal/core/access"
	"palyra/internal/core/event"
	"palyra/internal/core/reason"
	"palyra/internal/core/tool"
	"palyra/internal/gateway/gatewaytest"
)

func budget(n int) func(*world) { return func(w *world) { w.budget = n } }

// ofRun turns s into a call of a run that the gateway supervises.
func ofRun(s call.Submission) call.Submission {
	s.MaxCalls = 1 << 20
	return s
}

// wantBudget verifies whether one more call of a run is allowed. A call beyond the budget must
// not request an approval.
func (w *world) wantBudget(what string, s call.Submission, within bool) {
	w.t.Helper()
	r := w.begin(ofRun(s))
	select {
	case <-r.asks:
		r.leave()
		w.t.Errorf("%s: somebody was asked", what)
	case <-r.done:
	}
	o, err := r.wait()
	switch {
	case err != nil:
		w.t.Errorf("%s: %v", what, err)
	case within && !o.Decision.Allowed, !within && o.Decision.Reason != reason.BudgetExceeded:
		w.t.Errorf("%s: %+v, want within the budget: %v", what, o.Decision, within)
	}
}

// Every proposal counts: allowed ones, denied ones, and ones whose input was refused. The count
// survives a restart.
func TestEveryProposalCounts(t *testing.T) {
	t.Parallel()
	w := newWorld(t, budget(4))
	w.wantBudget("the first", readCall(), true)
	bad := readCall()
	bad.Input = []byte(`{}`)
	if _, _, err := w.call(ofRun(bad)); reason.Of(err) != reason.InvalidInput {
		t.Fatal(err)
	}
	r := w.begin(ofRun(runCall()))
	w.vote(alice, r.asked(), no)
	r.wait()
	w.wantBudget("the fourth", readCall(), true)
	w.wantBudget("the fifth", readCall(), false)
	w.wantBudget("one that would ask", otherInput(runCall()), false)
	w.read.Ran(t, 2)

	w.restart()
	w.wantBudget("after a restart", readCall(), false)
	other := readCall()
	other.Run = "run-2"
	w.wantBudget("another run", other, true)
}

// The count after a restart equals the count in memory.
func TestRestartCountsTheSame(t *testing.T) {
	t.Parallel()
	for name, use := range map[string]func(*world){
		"allowed": func(w *world) { w.call(ofRun(readCall())) },
		"unknown tool": func(w *world) {
			s := readCall()
			s.Tool = "fs.raed"
			w.call(ofRun(s))
		},
		"frozen": func(w *world) { w.Router.Freeze(); w.call(ofRun(readCall())); w.Router.Thaw() },
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, budget(2))
			use(w)
			w.wantBudget("the second", readCall(), true)
			w.wantBudget("the third", readCall(), false)

			w = newWorld(t, budget(2))
			use(w)
			w.restart()
			w.wantBudget("the second, after a restart", readCall(), true)
			w.wantBudget("the third, after a restart", readCall(), false)
		})
	}
}

// Two principals whose runs have the same name do not share a budget.
func TestRunsOfOthersAreSeparate(t *testing.T) {
	t.Parallel()
	w := newWorld(t, budget(1), twoAgents)
	mine, theirs := readCall(), readCall()
	theirs.Caller.Principal = access.Agent("other")
	w.wantBudget("mine", mine, true)
	w.wantBudget("theirs", theirs, true)
	w.wantBudget("mine again", mine, false)
	w.restart()
	w.wantBudget("theirs again, after a restart", theirs, false)
	w.wantBudget("one of the user's", call.Submission{Caller: gatewaytest.Person(policytest.Alice, access.RoleOwner), Tool: "fs.read", Input: mine.Input, Run: mine.Run}, true)
}

// The client's name for its run has no budget, because the client could use another name.
func TestLabelsHaveNoBudget(t *testing.T) {
	t.Parallel()
	w := newWorld(t, budget(1))
	for range 5 {
		if _, o, err := w.call(readCall()); err != nil || !o.Decision.Allowed {
			t.Fatalf("%+v, %v", o.Decision, err)
		}
	}
	w.read.Ran(t, 5)
}

func TestBudgetHoldsUnderConcurrency(t *testing.T) {
	t.Parallel()
	w := newWorld(t, budget(5))
	var allowed, over atomic.Int32
	var wg sync.WaitGroup
	for range 32 {
		wg.Go(func() {
			o, err := w.Call(t.Context(), ofRun(readCall()), func(call.Event) {})
			switch {
			case err != nil:
				t.Error(err)
			case o.Decision.Allowed:
				allowed.Add(1)
			case o.Decision.Reason == reason.BudgetExceeded:
				over.Add(1)
			}
		})
	}
	wg.Wait()
	if allowed.Load() != 5 || over.Load() != 27 {
		t.Errorf("%d allowed, %d over the budget", allowed.Load(), over.Load())
	}
	w.read.Ran(t, 5)
}

// The session facts that policy reads survive a restart: the number of calls, the used tools,
// whether external data was received, the bytes sent, and the available secrets.
func TestSessionFactsSurviveARestart(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.fetch.Found.Facts.Secrets = []string{"github"}
	w.fetch.Work = func(context.Context, tool.Call) tool.Report {
		r := gatewaytest.Succeeded(`{}`)
		r.Egress.Observed = []tool.Connection{{Host: "example.org", BytesOut: 40}, {Host: "example.org", BytesOut: 2}}
		return r
	}
	fetch := call.Submission{Caller: agent, Tool: "http.fetch", Input: []byte(`{"url":"https://example.org/"}`), Run: "run-1"}
	r := w.begin(fetch)
	w.vote(alice, r.asked(), yes)
	if o, err := r.wait(); err != nil || !o.Decision.Allowed {
		t.Fatalf("%+v, %v", o, err)
	}
	if asked := last[evaluated](w, event.Evaluated).Request; !slices.Contains(asked.Capabilities, tool.SecretsRead) || len(asked.SessionFacts.SecretsRead) > 0 {
		t.Errorf("policy was asked about %+v", asked)
	}
	denied := fetch
	denied.Input = []byte(`{"url":"https://example.org/denied"}`)
	w.fetch.Found.Facts.Secrets = []string{"unused"}
	d := w.begin(denied)
	w.vote(alice, d.asked(), no)
	if o, err := d.wait(); err != nil || o.Decision.Allowed {
		t.Fatalf("%+v, %v", o, err)
	}
	refused := readCall()
	refused.Tool = "not.there"
	w.call(refused)
	w.call(readCall())
	kept := last[evaluated](w, event.Evaluated).Request.SessionFacts
	w.restart()
	w.call(readCall())
	found := last[evaluated](w, event.Evaluated).Request.SessionFacts
	if !kept.Tainted || !found.Tainted || kept.CallsInRun != 4 || found.CallsInRun != 5 {
		t.Errorf("kept %+v, found %+v", kept, found)
	}
	if github := []string{"github"}; !slices.Equal(kept.SecretsRead, github) || !slices.Equal(found.SecretsRead, github) {
		t.Errorf("secrets: kept %v, found %v", kept.SecretsRead, found.SecretsRead)
	}
	if kept.BytesOut != 42 || found.BytesOut != 42 {
		t.Errorf("bytes out: kept %d, found %d, want 42", kept.BytesOut, found.BytesOut)
	}
	if !slices.Equal(kept.ToolsUsed, []string{"http.fetch"}) || !slices.Equal(found.ToolsUsed, []string{"fs.read", "http.fetch"}) {
		t.Errorf("kept %v, found %v", kept.ToolsUsed, found.ToolsUsed)
	}
}
