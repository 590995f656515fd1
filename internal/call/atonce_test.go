package call_test

import (
	"context"
	"encoding/json"
	"errors"
	"testing"

	"palyra/internal/call"
	"palyra/internal/call/policy/policytest"
	"palyra/internal/core/event"
	"palyra/internal/core/must"
	"palyra/internal/core/reason"
	"palyra/internal/core/tool"
	"palyra/internal/gateway/gatewaytest"
)

// pureProbe is a probe that declares that it has no effect.
type pureProbe struct{ *gatewaytest.Probe }

func (pureProbe) Pure() {}

// sum is the tool of these tests. It has no capability and requires no approval.
var sum = tool.Descriptor{
	Name: "sum", Title: "Sum", Executor: tool.Builtin, ReadOnly: true, Capabilities: []tool.Capability{},
	InputSchema: json.RawMessage(`{"type":"object"}`),
}

func withSum(p *gatewaytest.Probe) func(*world) {
	return func(w *world) {
		w.more = append(w.more, pureProbe{p})
		w.options.Tools = append(w.options.Tools, sum)
	}
}

func sumCall() call.Submission {
	return call.Submission{Caller: agent, Tool: sum.Name, Input: []byte(`{}`), Run: "run-1"}
}

// atOnce is the trace of a call without effect.
const atOnce = "record proposed+evaluated+decided+attested"

func TestCallWithoutEffectIsRecordedAtOnce(t *testing.T) {
	t.Parallel()
	p := gatewaytest.NewProbe(sum)
	w := newWorld(t, withSum(p))
	p.Work = func(_ context.Context, c tool.Call) tool.Report {
		c.Output("stdout", []byte("too early"))
		w.wantJournal(0) // no event is durable, and the client has received nothing
		return gatewaytest.Succeeded(`{"ok":true}`)
	}
	r, o, err := w.call(sumCall())
	if err != nil || !o.Decision.Allowed || o.Report.Outcome != tool.Succeeded {
		t.Fatalf("got %+v, %v", o, err)
	}
	wantSteps(t, "stages", w.trace.take(), []string{"check", "plan", "evaluate", "run", "sign", atOnce})
	wantSteps(t, "events", r.kinds(), []string{"proposed", "decision", "result", "attestation"})
	w.wantJournal(0, event.Proposed, event.Evaluated, event.Decided, event.Attested)
	w.open(0)
	w.checkEvidence(o)
	if o.Attestation.Seq != w.head() {
		t.Errorf("attested at %d, the journal ends at %d", o.Attestation.Seq, w.head())
	}
}

// The same tool without the declaration is recorded in steps: the decision first.
func TestCallThatMayHaveAnEffectIsNot(t *testing.T) {
	t.Parallel()
	p := gatewaytest.NewProbe(sum)
	w := newWorld(t, func(w *world) {
		w.more = append(w.more, p)
		w.options.Tools = append(w.options.Tools, sum)
	})
	if _, _, err := w.call(sumCall()); err != nil {
		t.Fatal(err)
	}
	wantSteps(t, "stages", w.trace.take(), []string{
		"check", "plan", "evaluate", "record proposed+evaluated+decided", "run", "sign", "record attested",
	})
}

func TestNoResultWithoutImmediateRecord(t *testing.T) {
	t.Parallel()
	for _, code := range []event.Code{event.Proposed, event.Evaluated, event.Decided, event.Attested} {
		p := gatewaytest.NewProbe(sum)
		w := newWorld(t, withSum(p))
		w.ledger.fail(code)
		r, _, err := w.call(sumCall())
		if reason.Of(err) != reason.JournalUnavailable {
			t.Errorf("failing %s: %v, want %s", code, err, reason.JournalUnavailable)
		}
		wantSteps(t, "events", r.kinds(), []string{"proposed"})
		w.wantJournal(0)
		w.open(0)
		// A restart has no call to close, because no event was recorded.
		if n := w.restart(); n != 0 {
			t.Errorf("%d calls were closed as ambiguous", n)
		}
	}
}

// A crash while the call runs loses the whole call.
func TestCrashLosesTheWholeCallWithoutEffect(t *testing.T) {
	t.Parallel()
	p := gatewaytest.NewProbe(sum)
	w := newWorld(t, withSum(p))
	started, hold := make(chan struct{}), make(chan struct{})
	p.Work = func(context.Context, tool.Call) tool.Report {
		close(started)
		<-hold
		return gatewaytest.Succeeded(`{}`)
	}
	r := w.begin(sumCall())
	<-started
	if n := w.restart(); n != 0 {
		t.Errorf("%d calls were closed as ambiguous", n)
	}
	w.wantJournal(0)
	wantSteps(t, "events", r.kinds(), []string{"proposed"})
	close(hold)
	must.Get(r.wait())(t)
}

// A decision stays recorded if it cannot be attested.
func TestDecisionWithoutAttestationStaysOnRecord(t *testing.T) {
	t.Parallel()
	w := newWorld(t, withSum(gatewaytest.NewProbe(sum)))
	w.notary.fail(errors.New("the key is gone"))
	r, _, err := w.call(sumCall())
	if reason.Of(err) != reason.AttestationFailed {
		t.Fatalf("got %v, want %s", err, reason.AttestationFailed)
	}
	wantSteps(t, "events", r.kinds(), []string{"proposed"})
	w.wantJournal(0, event.Proposed, event.Evaluated, event.Decided, event.Ambiguous)
	w.open(0)
	if n := w.restart(); n != 0 {
		t.Errorf("%d calls were closed as ambiguous, want none", n)
	}
}

// Calls with keys, approvals or denials record the decision before any further step.
func TestDeferredRecords(t *testing.T) {
	t.Parallel()
	const asks = `@id("ask") @reason("sums are asked about")
forbid(principal, action == Action::"tool.execute/sum", resource) unless { context.approval.approvers >= 1 };`
	const never = `@id("never") @reason("no sums") forbid(principal, action == Action::"tool.execute/sum", resource);`
	for name, c := range map[string]struct {
		policies string
		change   func(*call.Submission)
		votes    bool
		want     []string
	}{
		"idempotency key": {
			change: func(s *call.Submission) { s.IdempotencyKey = "key-1" },
			want:   []string{"check", "plan", "evaluate", "record proposed+evaluated+decided", "run", "sign", "record attested"},
		},
		"approval": {
			policies: asks, votes: true,
			want: []string{"check", "plan", "evaluate", "record proposed+evaluated", "resolve", "consume decided", "run", "sign", "record attested"},
		},
		"denial": {
			policies: never,
			want:     []string{"check", "plan", "evaluate", "record proposed+evaluated+decided"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, withSum(gatewaytest.NewProbe(sum)), func(w *world) { w.options = policytest.Options{Policies: c.policies, Tools: w.options.Tools} })
			s := sumCall()
			if c.change != nil {
				c.change(&s)
			}
			r := w.begin(s)
			if c.votes {
				w.vote(alice, r.asked(), yes)
			}
			must.Get(r.wait())(t)
			wantSteps(t, "stages", w.trace.take(), c.want)
		})
	}
}

// A refusal at dispatch is attested immediately, like any outcome.
func TestRefusalAtDispatchIsRecordedAtOnce(t *testing.T) {
	t.Parallel()
	p := gatewaytest.NewProbe(sum)
	w := newWorld(t, withSum(p))
	p.OnPlan = func(n int) {
		if n == 2 { // the plan at dispatch
			p.Change(func(p *gatewaytest.Probe) { p.Found.Binding.Cwd = "elsewhere:." })
		}
	}
	_, o, err := w.call(sumCall())
	if err != nil || o.Report.Outcome != tool.Refused || o.Report.Reason != string(reason.BindingMismatch) {
		t.Fatalf("got %+v, %v", o.Report, err)
	}
	p.Ran(t, 0)
	w.wantJournal(0, event.Proposed, event.Evaluated, event.Decided, event.Attested)
}
