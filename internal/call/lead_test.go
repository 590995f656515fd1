package call_test

import (
	"slices"
	"testing"

	"palyra/internal/call"
	"palyra/internal/call/record"
	"palyra/internal/core/event"
	"palyra/internal/core/must"
	"palyra/internal/core/reason"
)

// lead returns events that are recorded with a call and precede it.
func lead() []event.Draft {
	return []event.Draft{{Code: event.ModelTurn, Run: "run-1", Actor: agent.Principal.String(), Subject: "run-1", Payload: []byte(`{"turn":1}`)}}
}

func TestPrecedingTextIsRecordedFirst(t *testing.T) {
	t.Parallel()
	frozen := func(w *world) { w.Router.Freeze() }
	for name, c := range map[string]struct {
		submit call.Submission
		before func(*world)
		want   []event.Code
	}{
		"allowed":      {readCall(), nil, []event.Code{event.ModelTurn, event.Proposed, event.Evaluated, event.Decided, event.Attested}},
		"asked":        {runCall(), nil, []event.Code{event.ModelTurn, event.Proposed, event.Evaluated, event.Asked}},
		"unknown tool": {call.Submission{Caller: agent, Tool: "fs.raed", Run: "run-1"}, nil, []event.Code{event.ModelTurn, event.Refused}},
		"frozen":       {readCall(), frozen, []event.Code{event.ModelTurn, event.Proposed, event.Refused}},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			if c.before != nil {
				c.before(w)
			}
			c.submit.Lead = lead()
			running := w.begin(c.submit)
			if name == "asked" {
				running.asked()
				defer running.wait()
				defer running.leave()
			} else {
				_, _ = running.wait()
			}
			if got := w.codes(0); len(got) < len(c.want) || !slices.Equal(got[:len(c.want)], c.want) {
				t.Errorf("journal %v, want %v", got, c.want)
			}
		})
	}
}

// TestPrecedingTextFailsWithItsCall: the text that precedes a call is not recorded without the
// call.
func TestPrecedingTextFailsWithItsCall(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.ledger.failOn = []event.Code{event.Decided}
	s := readCall()
	s.Lead = lead()
	if _, _, err := w.call(s); reason.Of(err) != reason.JournalUnavailable {
		t.Errorf("the call ended with %v", err)
	}
	if got := w.codes(0); len(got) != 0 {
		t.Errorf("journal %v", got)
	}
	w.read.Ran(t, 0)
}

func TestCallIDIsOnRecord(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	s := readCall()
	s.CallID = "toolu_1"
	r, _, err := w.call(s)
	must.Do(t, err)
	if got := r.events[0].Proposed; got.CallID != "toolu_1" {
		t.Errorf("the client is told of call %q", got.CallID)
	}
	if got := last[record.Proposed](w, event.Proposed); got.CallID != "toolu_1" {
		t.Errorf("the proposal has call %q", got.CallID)
	}
	s.Tool = "none"
	_, _, _ = w.call(s)
	if got := last[record.Refused](w, event.Refused); got.CallID != "toolu_1" {
		t.Errorf("the refusal has call %q", got.CallID)
	}
}

func TestSmallerBudgetCounts(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct{ pipeline, submission, want int }{
		"the submission's": {200, 2, 2},
		"the pipeline's":   {2, 200, 2},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, func(w *world) { w.budget = c.pipeline })
			s := readCall()
			s.MaxCalls = c.submission
			for n := range c.want + 1 {
				_, o, err := w.call(s)
				must.Do(t, err)
				if over := n == c.want; o.Decision.Allowed == over || (over && o.Decision.Reason != reason.BudgetExceeded) {
					t.Errorf("call %d: %t %s", n+1, o.Decision.Allowed, o.Decision.Reason)
				}
			}
			w.read.Ran(t, int32(c.want))
		})
	}
}
