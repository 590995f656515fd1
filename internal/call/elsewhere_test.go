package call_test

import (
	"errors"
	"testing"
	"time"

	"palyra/internal/call"
	"palyra/internal/call/approval"
	"palyra/internal/call/policy"
	"palyra/internal/call/policy/policytest"
	"palyra/internal/core/event"
	"palyra/internal/core/must"
	"palyra/internal/core/reason"
)

// noted returns the event of an answer.
func noted(out call.Elsewhere) (event.Draft, error) {
	return event.DraftOf(event.EvaluatedFor, "agent:edge", "agent:coder", map[string]any{"allowed": out.Allowed, "approval_id": out.ApprovalID})
}

// elsewhereFree allows calls that run elsewhere, and matches them by each of their facts.
const elsewhereFree = `@id("elsewhere") @waives("approval: a test") permit(principal, action == Action::"tool.execute/process.run", resource)
when { context.sandbox.tier == "external" && context.sandbox.level == "none" && context.sandbox.layers.isEmpty() && context.egress.mode == "none" };`

func withPolicies(policies string) func(*world) {
	return func(w *world) { w.options.Policies += policies }
}

// TestElsewhereReportsItsFacts: a rule for sandboxed calls matches no call that runs elsewhere, and
// vice versa.
func TestElsewhereReportsItsFacts(t *testing.T) {
	t.Parallel()
	here := newWorld(t, unattended)
	if e, err := here.Evaluate(t.Context(), runCall()); err != nil || e.Verdict.Effect() != policy.Allow {
		t.Fatalf("the control, here: %+v, %v", e, err)
	}
	if out, err := here.MayElsewhere(t.Context(), runCall(), approval.Answer{}, noted); err != nil || out.Allowed || out.Verdict.Effect() != policy.Ask {
		t.Errorf("a rule for the sandbox: %+v, %v", out, err)
	}
	there := newWorld(t, withPolicies(elsewhereFree))
	if out, err := there.MayElsewhere(t.Context(), runCall(), approval.Answer{}, noted); err != nil || !out.Allowed {
		t.Errorf("a rule for calls elsewhere: %+v, %v", out, err)
	}
	if e, err := there.Evaluate(t.Context(), runCall()); err != nil || e.Verdict.Effect() != policy.Ask {
		t.Errorf("the same call here: %+v, %v", e, err)
	}
}

// TestElsewhereHasItsOwnGrants: the widest grant for calls on this gateway does not cover a
// call that runs elsewhere, and vice versa.
func TestElsewhereHasItsOwnGrants(t *testing.T) {
	t.Parallel()
	for _, match := range []approval.Match{approval.MatchExact, approval.MatchTool} {
		standing := approval.Ballot{Allow: true, Scope: approval.Timeboxed, TTL: time.Hour, Match: match}
		here := newWorld(t)
		here.grant(runCall(), standing)
		if e, err := here.Evaluate(t.Context(), runCall()); err != nil || e.Verdict.Effect() != policy.Allow || e.Verdict.GrantID() == "" {
			t.Fatalf("the control, here: %+v, %v", e, err)
		}
		if out, err := here.MayElsewhere(t.Context(), runCall(), approval.Answer{}, noted); err != nil || out.Allowed || out.GrantID != "" {
			t.Errorf("%s: a grant for the sandbox: %+v, %v", match, out, err)
		}
		there := newWorld(t)
		_ = there.approveElsewhere(standing)
		if out, err := there.MayElsewhere(t.Context(), runCall(), approval.Answer{}, noted); err != nil || !out.Allowed || out.GrantID == "" {
			t.Errorf("%s: a grant for calls elsewhere: %+v, %v", match, out, err)
		}
		if e, err := there.Evaluate(t.Context(), runCall()); err != nil || e.Verdict.Effect() != policy.Ask {
			t.Errorf("%s: the same call here: %+v, %v", match, e, err)
		}
	}
}

// TestElsewhereKeepsSecrets: a call that uses a vault secret runs only on this gateway.
// Control: the same call without a secret.
func TestElsewhereKeepsSecrets(t *testing.T) {
	t.Parallel()
	w := newWorld(t, withPolicies(elsewhereFree), injecting(awsSecret))
	if out, err := w.MayElsewhere(t.Context(), runCall(), approval.Answer{}, noted); err != nil || out.Allowed {
		t.Errorf("%+v, %v", out, err)
	}
	if _, err := w.AskElsewhere(t.Context(), runCall(), "told", nil); reason.Of(err) != reason.PolicyDenied {
		t.Errorf("people are asked: %v", err)
	}
	w = newWorld(t, withPolicies(elsewhereFree))
	if out, err := w.MayElsewhere(t.Context(), runCall(), approval.Answer{}, noted); err != nil || !out.Allowed {
		t.Errorf("control: %+v, %v", out, err)
	}
}

// approveElsewhere requests approval of a call that runs elsewhere, and approves it.
func (w *world) approveElsewhere(ballot approval.Ballot) approval.Answer {
	w.t.Helper()
	answer := must.Get(w.AskElsewhere(w.t.Context(), runCall(), "told", func(r *approval.Record) {
		if r.State == approval.Pending && len(r.Votes) == 0 {
			go func() { _, _ = w.Desk.Votes.Decide(w.t.Context(), alice, r.ID, ballot) }()
		}
	}))(w.t)
	if !answer.Allowed() {
		w.t.Fatalf("%+v", answer)
	}
	return answer
}

// TestElsewhereConsumesTheApproval: an approval permits only the requested call, once, under the
// policies in force at that time. The event is written in the same transaction.
func TestElsewhereConsumesTheApproval(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	answer := w.approveElsewhere(yes)
	other := runCall()
	other.Input = []byte(`{"argv":["rm"]}`)
	if out, err := w.MayElsewhere(t.Context(), other, answer, noted); err != nil || out.Allowed {
		t.Errorf("another call: %+v, %v", out, err)
	}
	broken := errors.New("no event")
	if _, err := w.MayElsewhere(t.Context(), runCall(), answer, func(call.Elsewhere) (event.Draft, error) { return event.Draft{}, broken }); !errors.Is(err, broken) {
		t.Errorf("without an event: %v", err)
	}
	if out, err := w.MayElsewhere(t.Context(), runCall(), approval.Answer{}, noted); err != nil || out.Allowed {
		t.Errorf("without the answer: %+v, %v", out, err)
	}
	w.engine.Swap(loaded(t, w.with(`@id("no") forbid(principal, action, resource == Tool::"process.run");`)))
	if out, err := w.MayElsewhere(t.Context(), runCall(), answer, noted); err != nil || out.Allowed || out.Verdict.Effect() != policy.Deny {
		t.Errorf("under other policies: %+v, %v", out, err)
	}
	w.engine.Swap(loaded(t, w.options))
	if out, err := w.MayElsewhere(t.Context(), runCall(), answer, noted); err != nil || !out.Allowed || out.ApprovalID != answer.ApprovalID() {
		t.Fatalf("%+v, %v", out, err)
	}
	out, err := w.MayElsewhere(t.Context(), runCall(), answer, noted)
	if err != nil || out.Allowed || out.Lost == nil {
		t.Errorf("a second time: %+v, %v", out, err)
	}
	if w.run.Runs.Load() != 0 {
		t.Error("it ran here")
	}
}

// with are the options of a set with more policies.
func (w *world) with(policies string) (o policytest.Options) {
	o = w.options
	o.Policies = policies
	return o
}
