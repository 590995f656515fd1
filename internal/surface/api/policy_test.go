package api_test

import (
	"strings"
	"testing"
	"time"

	"google.golang.org/protobuf/types/known/timestamppb"

	palyrav1 "palyra/gen/palyra/v1"
	"palyra/internal/core/must"
	"palyra/internal/core/reason"
	"palyra/internal/store/sqlite"
)

func describedRun(principal, facts string) *palyrav1.CallDescription {
	return &palyrav1.CallDescription{
		Principal: principal, Tool: "process.run", InputJson: []byte(`{"argv":["make"]}`), FactsJson: []byte(facts),
		At: timestamppb.New(time.Date(2026, 1, 5, 12, 0, 0, 0, time.UTC)),
	}
}

func explainCall(d *palyrav1.CallDescription) *palyrav1.ExplainPolicyRequest {
	return &palyrav1.ExplainPolicyRequest{Subject: &palyrav1.ExplainPolicyRequest_Call{Call: d}}
}

const noRisk = `@id("no-risk")
@reason("too risky")
forbid(principal, action == Action::"tool.execute/process.run", resource)
when { context.risk > 50 || context.session.tainted };
@id("no-simulation")
forbid(principal == User::"alice", action == Action::"policy.simulate", resource)
when { context.device_id == "never" };
`

// A described call is explained with the given facts and votes. It is neither run nor
// journaled.
func TestExplainDescribedCall(t *testing.T) {
	t.Parallel()
	w := newWorld(t, func(w *world) { w.policies = noRisk })
	before := w.journal.Head().Seq
	res, err := w.alice.policy().ExplainPolicy(t.Context(), explainCall(describedRun("", "")))
	must.Do(t, err)
	if res.GetVerdict() != "ask" || res.GetPrincipal() != "user:alice" || res.GetTool() != "process.run" || res.GetSummary() == "" || len(res.GetFlips()) == 0 {
		t.Errorf("explanation %v", res)
	}
	if !strings.Contains(string(res.GetContextJson()), "2026-01-05T12:00:00") {
		t.Errorf("the context has another time: %s", res.GetContextJson())
	}
	res = must.Get(w.alice.policy().ExplainPolicy(t.Context(), explainCall(describedRun("", `{"risk":60}`))))(t)
	p := res.GetPolicies()[0]
	if res.GetVerdict() != "deny" || p.GetPolicyId() != "no-risk" || !p.GetDetermining() || p.GetFile() != "secret-rules.cedar" || p.GetLine() != 1 || p.GetOutcome() != "satisfied" {
		t.Fatalf("explanation %v", res)
	}
	c := p.GetConjuncts()[0]
	if c.GetClause() != "when" || c.GetOutcome() != "true" || c.GetLine() != 4 || len(c.GetParts()) != 2 ||
		c.GetParts()[0].GetValues()[0].GetPath() != "context.risk" || c.GetParts()[0].GetValues()[0].GetValue() != "60" || c.GetParts()[1].GetOutcome() != "skipped" {
		t.Errorf("conjunct %v", c)
	}
	if res.GetFlips()[0].GetSteps()[0].GetKind() == "" || res.GetFlips()[0].GetSummary() == "" {
		t.Errorf("flip %v", res.GetFlips()[0])
	}
	d := describedRun("", "")
	d.Votes = []*palyrav1.DescribedVote{{User: "bob", Paired: true}}
	if res, err = w.alice.policy().ExplainPolicy(t.Context(), explainCall(d)); err != nil || res.GetVerdict() != "allow" {
		t.Errorf("with a vote: %s, %v", res.GetVerdict(), err)
	}
	if w.run.Runs.Load() != 0 || w.journal.Head().Seq != before {
		t.Errorf("%d runs, %d events", w.run.Runs.Load(), w.journal.Head().Seq-before)
	}
}

// TestCallsRunDuringACheck: while policies are being checked, calls complete, also those of the
// same caller on the same connection.
func TestCallsRunDuringACheck(t *testing.T) {
	t.Parallel()
	began, goOn := make(chan struct{}), make(chan struct{})
	w := newWorld(t, func(w *world) {
		w.checking = func() { close(began); <-goOn }
	})
	checked := make(chan error, 1)
	go func() {
		_, err := w.alice.policy().ValidatePolicy(t.Context(), &palyrav1.ValidatePolicyRequest{
			Sources: []*palyrav1.PolicySource{{Name: "a.cedar", Text: noRisk}},
		})
		checked <- err
	}()
	select {
	case <-began:
	case err := <-checked:
		t.Fatalf("nothing was checked: %v", err)
	}
	for name, who := range map[string]*client{"who checks": w.alice, "an agent": w.coder} {
		events, err := who.call(reading())
		if err != nil || len(events) == 0 || events[len(events)-1].GetAttestation() == nil {
			t.Errorf("%s: the call has %d events and no end, %v", name, len(events), err)
		}
	}
	w.read.Ran(t, 2)
	// Control: the check is still running.
	select {
	case err := <-checked:
		t.Errorf("the check ended before the calls, with %v", err)
	default:
	}
	close(goOn)
	must.Do(t, <-checked)
}

func TestInvalidDescribedCalls(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	for name, change := range map[string]func(*palyrav1.CallDescription){
		"tool":      func(d *palyrav1.CallDescription) { d.Tool = "process.rum" },
		"arguments": func(d *palyrav1.CallDescription) { d.InputJson = []byte(`{"argc":[]}`) },
		"fact":      func(d *palyrav1.CallDescription) { d.FactsJson = []byte(`{"rist":1}`) },
		"principal": func(d *palyrav1.CallDescription) { d.Principal = "alice" },
		"voter":     func(d *palyrav1.CallDescription) { d.Votes = []*palyrav1.DescribedVote{{User: "nobody"}} },
		"role": func(d *palyrav1.CallDescription) {
			d.Votes = []*palyrav1.DescribedVote{{User: "alice", Roles: []string{"Role"}}}
		},
	} {
		d := describedRun("", "")
		change(d)
		_, err := w.alice.policy().ExplainPolicy(t.Context(), explainCall(d))
		want := reason.InvalidInput
		if name == "tool" {
			want = reason.UnknownTool
		}
		wantError(t, name, err, want)
	}
}

// An explanation for another principal requires policy.simulate.
func TestExplainSomebodyElsesCall(t *testing.T) {
	t.Parallel()
	w := newWorld(t, func(w *world) { w.policies = noRisk })
	for _, principal := range []string{"user:alice", "agent:coder", "user:stranger"} {
		res, err := w.alice.policy().ExplainPolicy(t.Context(), explainCall(describedRun(principal, "")))
		if err != nil || res.GetPrincipal() != principal {
			t.Errorf("%s: %v, %v", principal, res, err)
		}
	}
	w.policies = strings.Replace(noRisk, `when { context.device_id == "never" }`, "", 1)
	w.engine.Swap(w.policySet(must.Get(sqlite.NewIdentity(w.db).Members(t.Context()))(t)))
	_, err := w.alice.policy().ExplainPolicy(t.Context(), explainCall(describedRun("agent:coder", "")))
	wantError(t, "without policy.simulate", err, reason.PermissionDenied)
	// Control: a caller may explain its own call.
	for _, principal := range []string{"", "user:alice"} {
		if _, err := w.alice.policy().ExplainPolicy(t.Context(), explainCall(describedRun(principal, ""))); err != nil {
			t.Errorf("%q: %v", principal, err)
		}
	}
}

// The explanation of a past call has the reason of its denial, and the verdict of policy.
func TestExplainPastDecision(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	ask := func(id string) (*palyrav1.ExplainPolicyResponse, error) {
		return w.alice.policy().ExplainPolicy(t.Context(), &palyrav1.ExplainPolicyRequest{Subject: &palyrav1.ExplainPolicyRequest_DecisionId{DecisionId: id}})
	}
	res, err := ask(pastDecision)
	must.Do(t, err)
	if res.GetVerdict() != "deny" || res.GetDecision() != "denied" || res.GetReason() != string(reason.BudgetExceeded) || !strings.Contains(res.GetMessage(), "call 3") ||
		res.GetPolicies()[0].GetPolicyId() != "past" || res.GetDecisionId() != pastDecision || res.GetProposalId() == "" || len(res.GetNotes()) != 1 {
		t.Errorf("explanation %v", res)
	}
	_, err = ask("01JZ8Q4T2M0000000000000002")
	wantError(t, "an unknown id", err, reason.NotFound)
}

// Sources that are not in force are evaluated and compared with the policies in force.
func TestSimulatePolicy(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	simulate := func(req *palyrav1.SimulatePolicyRequest) *palyrav1.SimulatePolicyResponse {
		t.Helper()
		req.Call = describedRun("agent:coder", `{"risk":60}`)
		return must.Get(w.alice.policy().SimulatePolicy(t.Context(), req))(t)
	}
	if res := simulate(&palyrav1.SimulatePolicyRequest{}); res.GetExplanation().GetVerdict() != "ask" || res.GetVerdictInForce() != "" {
		t.Errorf("without sources: %v", res)
	}
	res := simulate(&palyrav1.SimulatePolicyRequest{Sources: []*palyrav1.PolicySource{{Name: "new.cedar", Text: noRisk}}})
	if res.GetExplanation().GetVerdict() != "deny" || res.GetVerdictInForce() != "ask" || res.GetExplanation().GetPolicies()[0].GetFile() != "new.cedar" {
		t.Errorf("with sources: %v", res)
	}
	if res := simulate(&palyrav1.SimulatePolicyRequest{Replace: true}); res.GetVerdictInForce() != "ask" {
		t.Errorf("with none instead: %v", res)
	}
	_, err := w.alice.policy().SimulatePolicy(t.Context(), &palyrav1.SimulatePolicyRequest{
		Call: describedRun("", ""), Sources: []*palyrav1.PolicySource{{Name: "new.cedar", Text: "permit("}},
	})
	wantError(t, "sources that do not load", err, reason.PolicyInvalid)
}

func TestTestPolicy(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	const tests = "principal: agent:coder\ntests:\n" +
		"  - {name: risky, call: {tool: process.run, args: {argv: [x]}, facts: {risk: 60}}, expect: {verdict: deny}}\n" +
		"  - {name: wrong, call: {tool: process.run, args: {argv: [x]}}, expect: {verdict: deny}}\n"
	res := must.Get(w.alice.policy().TestPolicy(t.Context(), &palyrav1.TestPolicyRequest{
		Sources: []*palyrav1.PolicySource{{Name: "new.cedar", Text: noRisk}}, Tests: []*palyrav1.PolicySource{{Name: "a.test.yaml", Text: tests}},
	}))(t)
	if res.GetPassed() != 1 || res.GetFailed() != 1 || len(res.GetResults()) != 2 || res.GetResults()[1].GetLine() != 4 || res.GetResults()[1].GetVerdict() != "ask" ||
		res.GetResults()[0].GetDetermining()[0] != "no-risk" {
		t.Errorf("results %v", res)
	}
	c := res.GetCoverage()
	if len(c) != 2 || c[0].GetDetermined() != 1 || c[0].GetConditions()[0].GetWasTrue() != 1 || c[0].GetConditions()[0].GetWasFalse() != 1 || res.GetCoveragePercent() != 50 {
		t.Errorf("coverage %v, %d %%", c, res.GetCoveragePercent())
	}
}

func TestPolicyVersions(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	list, err := w.alice.policy().ListPolicyVersions(t.Context(), &palyrav1.ListPolicyVersionsRequest{PageSize: 3, PageToken: "here"})
	if err != nil || list.GetNextPageToken() != "next" || list.GetVersions()[0].GetVersion() != "here" || list.GetVersions()[0].GetPolicies() != 3 || list.GetVersions()[0].GetFiles()[0] != "a.cedar" {
		t.Errorf("%v, %v", list, err)
	}
	on, err := w.alice.policy().ActivatePolicy(t.Context(), &palyrav1.ActivatePolicyRequest{Version: "sha256:12345678"})
	if err != nil || on.GetVersion() != "sha256:12345678" || on.GetWasVersion() != "before user:alice" || !on.GetChanged() {
		t.Errorf("%v, %v", on, err)
	}
	old, err := w.alice.policy().GetPolicy(t.Context(), &palyrav1.GetPolicyRequest{Version: "12345678"})
	if err != nil || old.GetVersion() != "12345678" || old.GetSources()[0].GetName() != "old.cedar" || old.GetSchema() != "" {
		t.Errorf("%v, %v", old, err)
	}
	_, err = w.alice.policy().ActivatePolicy(t.Context(), &palyrav1.ActivatePolicyRequest{Version: "short"})
	wantError(t, "a short digest", err, reason.InvalidInput)
}
