package call_test

import (
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"palyra/internal/call"
	"palyra/internal/call/approval"
	"palyra/internal/call/decision"
	"palyra/internal/core/canonical"
	"palyra/internal/core/event"
	"palyra/internal/core/must"
	"palyra/internal/core/reason"
	"palyra/internal/core/tool"
	"palyra/internal/evidence/attest"
)

func wantSteps(t *testing.T, what string, got, want []string) {
	t.Helper()
	if !slices.Equal(got, want) {
		t.Errorf("%s:\n got %q\nwant %q", what, got, want)
	}
}

// asksFirst are the first events of every call that asks.
var asksFirst = []event.Code{event.Proposed, event.Evaluated, event.Asked}

func TestAllowRunsTheStagesInOrder(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	r, o, err := w.call(readCall())
	if err != nil || !o.Decision.Allowed || o.Report.Outcome != tool.Succeeded {
		t.Fatalf("got %+v, %v", o, err)
	}
	wantSteps(t, "stages", w.trace.take(), []string{
		"check", "plan", "evaluate", "record proposed+evaluated+decided", "run", "sign", "record attested",
	})
	wantSteps(t, "events", r.kinds(), []string{"proposed", "decision", "result", "attestation"})
	w.wantJournal(0, event.Proposed, event.Evaluated, event.Decided, event.Attested)
	w.read.Ran(t, 1)
	w.open(0)
	if o.Attestation.Seq != w.head() {
		t.Errorf("attested at %d, the journal ends at %d", o.Attestation.Seq, w.head())
	}
	w.checkEvidence(o)
}

// checkEvidence compares the outcome with the journal and the attestation.
func (w *world) checkEvidence(o call.Outcome) {
	w.t.Helper()
	v, err := attest.Verify(o.Attestation.Envelope.JSON, w.notary.KeySet())
	if err != nil {
		w.t.Fatalf("the attestation does not verify: %v", err)
	}
	p := v.Statement.Predicate
	if p.Invocation.ProposalID != o.Decision.ProposalID || p.Invocation.DecisionID != o.Decision.ID ||
		p.Invocation.CallDigest != o.Decision.CallDigest || p.Policy.SnapshotDigest != o.Decision.SnapshotDigest ||
		p.Invocation.ApprovalID != o.Decision.ApprovalID || p.Invocation.GrantID != o.Decision.GrantID {
		w.t.Errorf("the attestation is of another call: %+v", p.Invocation)
	}
	if len(o.Report.Result) > 0 && "sha256:"+p.ExecutionSHA256 != canonical.Digest(o.Report.Result) {
		w.t.Errorf("execution_sha256 %s is not of the result", p.ExecutionSHA256)
	}
	recorded := last[decision.Record](w, event.Decided)
	if recorded.ID != o.Decision.ID || recorded.CallDigest != o.Decision.CallDigest {
		w.t.Errorf("the journal has decision %+v, the client %+v", recorded, o.Decision)
	}
	e := w.journal(o.Attestation.Seq - 1)[0]
	if e.Code != event.Attested || e.Subject != o.Decision.ProposalID || e.Actor != agent.Principal.String() {
		w.t.Errorf("event %d is %s about %s by %s", e.Seq, e.Code, e.Subject, e.Actor)
	}
}

func TestAskAndAllow(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	r := w.begin(runCall())
	rec := r.asked()
	w.run.Ran(t, 0)
	w.wantJournal(0, asksFirst...)
	w.vote(alice, rec, yes)
	o, err := r.wait()
	if err != nil || !o.Decision.Allowed || o.Decision.ApprovalID != rec.ID || o.Report.Outcome != tool.Succeeded {
		t.Fatalf("got %+v, %v", o, err)
	}
	wantSteps(t, "stages", w.trace.take(), []string{
		"check", "plan", "evaluate", "record proposed+evaluated", "resolve", "consume decided", "run", "sign", "record attested",
	})
	wantSteps(t, "events", r.kinds(), []string{"proposed", "asked", "resolved", "decision", "result", "attestation"})
	w.wantJournal(0, append(asksFirst, event.Voted, event.Answered, event.Consumed, event.Decided, event.Attested)...)
	w.checkEvidence(o)
	if rec, err := w.Desk.Records.Get(t.Context(), rec.ID); err != nil || rec.State != approval.Consumed {
		t.Errorf("the approval is %s, %v", rec.State, err)
	}
}

func TestAskAndDeny(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	r := w.begin(runCall())
	w.vote(alice, r.asked(), no)
	o, err := r.wait()
	if err != nil || o.Decision.Allowed || o.Decision.Reason != reason.ApprovalDenied {
		t.Fatalf("got %+v, %v", o, err)
	}
	wantSteps(t, "stages", w.trace.take(), []string{
		"check", "plan", "evaluate", "record proposed+evaluated", "resolve", "record decided",
	})
	wantSteps(t, "events", r.kinds(), []string{"proposed", "asked", "resolved", "decision"})
	w.wantJournal(0, append(asksFirst, event.Voted, event.Answered, event.Decided)...)
	w.run.Ran(t, 0)
	w.open(0)
}

func TestPolicyDenies(t *testing.T) {
	t.Parallel()
	w := newWorld(t, func(w *world) {
		w.options.Policies = `@id("no-programs") @remedy("Use fs.read.")
forbid(principal, action == Action::"tool.execute/process.run", resource);`
	})
	r, o, err := w.call(runCall())
	if err != nil || o.Decision.Allowed || o.Decision.Reason != reason.PolicyDenied || o.Decision.Remedy != "Use fs.read." {
		t.Fatalf("got %+v, %v", o, err)
	}
	wantSteps(t, "stages", w.trace.take(), []string{"check", "plan", "evaluate", "record proposed+evaluated+decided"})
	wantSteps(t, "events", r.kinds(), []string{"proposed", "decision"})
	w.wantJournal(0, event.Proposed, event.Evaluated, event.Decided)
	w.run.Ran(t, 0)
}

// A policy whose evaluation fails denies the call, even if another policy permits it.
func TestPolicyErrorDenies(t *testing.T) {
	t.Parallel()
	const overflow = `@id("overflows")
forbid(principal, action == Action::"tool.execute/fs.read", resource)
when { context.args has limit && context.args.limit * 9223372036854775807 > 5 };`
	w := newWorld(t, func(w *world) { w.options.Policies = overflow })
	s := readCall()
	s.Input = []byte(`{"limit":7,"path":"a"}`)
	_, o, err := w.call(s)
	if err != nil || o.Decision.Allowed || o.Decision.Reason != reason.PolicyError {
		t.Fatalf("got %+v, %v", o, err)
	}
	w.read.Ran(t, 0)
	// Control: without the overflow the same policies allow the call.
	if _, o, err := w.call(readCall()); err != nil || !o.Decision.Allowed {
		t.Errorf("the control: %+v, %v", o, err)
	}
	w.read.Ran(t, 1)
}

func TestNobodyAnswersInTime(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		r := w.begin(runCall())
		rec := r.asked()
		began := time.Now()
		o, err := r.wait()
		if err != nil || o.Decision.Allowed || o.Decision.Reason != reason.ApprovalExpired || o.Decision.ApprovalID != rec.ID {
			t.Fatalf("got %+v, %v", o, err)
		}
		if waited := time.Since(began); waited < 10*time.Minute-time.Second || waited > 10*time.Minute+time.Second {
			t.Errorf("waited %s", waited)
		}
		w.wantJournal(0, append(asksFirst, event.Expired, event.Decided)...)
		w.run.Ran(t, 0)
		if _, err := w.Desk.Votes.Decide(t.Context(), alice, rec.ID, yes); reason.Of(err) != reason.ApprovalConflict {
			t.Errorf("a late yes: %v", err)
		}
	})
}

func TestPolicyNamesTheTimeout(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, func(w *world) {
			w.options.Policies = `@id("quick") @timeout("45s")
forbid(principal, action == Action::"tool.execute/process.run", resource) unless { context.approval.granted };`
		})
		began := time.Now()
		_, o, _ := w.call(runCall())
		if waited := time.Since(began); o.Decision.Reason != reason.ApprovalExpired || waited > 46*time.Second {
			t.Errorf("reason %s after %s", o.Decision.Reason, waited)
		}
	})
}

func TestOperatorCancels(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	r := w.begin(runCall())
	rec := r.asked()
	must.Get(w.Desk.Records.Cancel(t.Context(), alice, rec.ID, "never mind"))(t)
	o, err := r.wait()
	if err != nil || o.Decision.Reason != reason.ApprovalCancelled {
		t.Fatalf("got %+v, %v", o, err)
	}
	w.wantJournal(0, append(asksFirst, event.Cancelled, event.Decided)...)
	w.run.Ran(t, 0)
}

func TestClientDisconnectsDuringApproval(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	r := w.begin(runCall())
	rec := r.asked()
	r.leave()
	o, err := r.wait()
	if err != nil || o.Decision.Allowed || o.Decision.Reason != reason.Cancelled {
		t.Fatalf("got %+v, %v", o, err)
	}
	w.wantJournal(0, append(asksFirst, event.Cancelled, event.Decided)...)
	w.run.Ran(t, 0)
	if rec, err := w.Desk.Records.Get(t.Context(), rec.ID); err != nil || rec.State != approval.Cancelled {
		t.Errorf("the approval is %s, %v", rec.State, err)
	}
}

func TestDryRunLeavesNothing(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	for name, want := range map[string]string{"fs.read": "allow", "process.run": "ask"} {
		s := runCall()
		if s.Tool = name; name == "fs.read" {
			s.Input = readCall().Input
		}
		e, err := w.Pipeline.Evaluate(t.Context(), s)
		if err != nil || e.Verdict.Effect().String() != want || e.CallDigest == "" || e.Plan.Subject != name+":subject" {
			t.Errorf("%s: %s, %+v, %v", name, e.Verdict.Effect(), e.Plan.Subject, err)
		}
	}
	for _, frozen := range []bool{false, true} {
		if frozen {
			w.Router.Freeze()
		}
		if e, err := w.Pipeline.Evaluate(t.Context(), readCall()); err != nil || e.Frozen != frozen {
			t.Errorf("frozen %v: %v, %v", frozen, e.Frozen, err)
		}
	}
	w.Router.Thaw()
	if _, err := w.Pipeline.Evaluate(t.Context(), call.Submission{Caller: agent, Tool: "fs.raed"}); reason.Of(err) != reason.UnknownTool {
		t.Errorf("an unknown tool: %v", err)
	}
	if w.head() != 0 {
		t.Errorf("the journal has %v", w.codes(0))
	}
	w.read.Ran(t, 0)
	w.run.Ran(t, 0)
	// A dry run does not count as a call: the next call of the run is the first.
	w.call(readCall())
	if n := last[evaluated](w, event.Evaluated).Request.SessionFacts.CallsInRun; n != 1 {
		t.Errorf("the dry run counted: this is call %d", n)
	}
}

// evaluated has the fields of an evaluated event that tests read.
type evaluated struct {
	Request struct {
		Capabilities []tool.Capability `json:"capabilities"`
		SessionFacts tool.SessionFacts `json:"session_facts"`
		// GatewaySession is the session of the facts.
		GatewaySession string `json:"gateway_session"`
	} `json:"request"`
}

// A dry run and the call have the same digest.
func TestDryRunHasTheDigestOfTheCall(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	e := must.Get(w.Pipeline.Evaluate(t.Context(), readCall()))(t)
	_, o, err := w.call(readCall())
	if err != nil || o.Decision.CallDigest != e.CallDigest {
		t.Errorf("dry run %s, call %s, %v", e.CallDigest, o.Decision.CallDigest, err)
	}
}
