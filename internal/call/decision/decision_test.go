package decision_test

import (
	"context"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"palyra/internal/call/approval"
	"palyra/internal/call/approval/approvaltest"
	"palyra/internal/call/decision"
	"palyra/internal/call/policy"
	"palyra/internal/call/policy/policytest"
	"palyra/internal/core/access"
	"palyra/internal/core/must"
	"palyra/internal/core/reason"
)

const proposalID = "01JNA3PZ80PR0P0SA100000000"

var now = time.Date(2026, 3, 2, 10, 0, 0, 0, time.UTC)

// answers has one answer of every kind, from a real desk.
type answers struct {
	// call is the digest of the call that the answers are about.
	call    string
	grantID string
	byName  map[string]approval.Answer
}

func makeAnswers(t *testing.T) answers {
	t.Helper()
	var made answers
	synctest.Test(t, func(t *testing.T) {
		d := approvaltest.NewDesk(t)
		d.Judge.Broad = map[access.Principal]bool{access.User("alice"): true}
		ask := approvaltest.Ask(t)
		made.call = ask.CallDigest
		once := approval.Ballot{Allow: true}
		otherCall := change(t, "default:elsewhere")
		made.byName = map[string]approval.Answer{
			"zero":           {},
			"not needed":     approval.NotNeeded(),
			"approval":       answered(t, d, ask, once),
			"approval other": answered(t, d, otherCall, once),
			"denied":         answered(t, d, change(t, "default:denied"), approval.Ballot{Reason: "no"}),
			"cancelled":      cancelled(t, d, change(t, "default:cancelled")),
			"gone":           gone(t, d, change(t, "default:gone")),
			"expired":        expired(t, d, change(t, "default:expired")),
		}
		standing := approval.Ballot{Allow: true, Scope: approval.Timeboxed, TTL: time.Hour, Match: approval.MatchTool}
		answered(t, d, change(t, "default:mint"), standing)
		grants, err := d.Grants.Find(t.Context(), ask.Query())
		if err != nil || len(grants) != 1 {
			t.Fatalf("%d grants, %v", len(grants), err)
		}
		made.grantID = grants[0].ID
		made.byName["grant"] = byGrant(t, d, made.grantID, ask)
		made.byName["grant for another call"] = byGrant(t, d, made.grantID, otherCall)
	})
	return made
}

func change(t *testing.T, cwd string) approval.Ask {
	t.Helper()
	return approvaltest.Ask(t, func(a *approval.Ask) { a.Plan.Binding.Cwd = cwd })
}

func answered(t *testing.T, d *approvaltest.Desk, ask approval.Ask, b approval.Ballot) approval.Answer {
	t.Helper()
	p := approvaltest.Resolve(d.Desk, ask)
	rec := <-p.Records
	must.Get(d.Votes.Decide(t.Context(), approvaltest.Caller("alice"), rec.ID, b))(t)
	return outcome(t, p)
}

func cancelled(t *testing.T, d *approvaltest.Desk, ask approval.Ask) approval.Answer {
	t.Helper()
	p := approvaltest.Resolve(d.Desk, ask)
	rec := <-p.Records
	must.Get(d.Records.Cancel(t.Context(), approvaltest.Caller("alice"), rec.ID, "changed my mind"))(t)
	return outcome(t, p)
}

func gone(t *testing.T, d *approvaltest.Desk, ask approval.Ask) approval.Answer {
	t.Helper()
	p := approvaltest.Resolve(d.Desk, ask)
	<-p.Records
	p.Leave(context.Canceled)
	return outcome(t, p)
}

func expired(t *testing.T, d *approvaltest.Desk, ask approval.Ask) approval.Answer {
	t.Helper()
	p := approvaltest.Resolve(d.Desk, ask)
	<-p.Records
	time.Sleep(11 * time.Minute) // in the bubble's clock
	return outcome(t, p)
}

func outcome(t *testing.T, p *approvaltest.Pending) approval.Answer {
	t.Helper()
	o := <-p.Done
	if o.Err != nil {
		t.Fatal(o.Err)
	}
	return o.Answer
}

func byGrant(t *testing.T, d *approvaltest.Desk, id string, ask approval.Ask) approval.Answer {
	t.Helper()
	return must.Get(d.Grants.Answer(t.Context(), id, ask))(t)
}

// makeVerdicts returns one verdict of every kind, from a real engine.
func makeVerdicts(t *testing.T, grantID string) map[string]policy.Verdict {
	t.Helper()
	set := policytest.Set(t, policytest.Options{Policies: `@id("no-fetch") @remedy("Read a file instead.")
forbid(principal, action == Action::"tool.execute/http.fetch", resource);`})
	run := policytest.Request("process.run", `{"argv":["make"]}`)
	standing := policytest.Approval(policytest.Vote(policytest.Alice, access.RoleOwner))
	standing.Standing = true
	made := map[string]policy.Verdict{
		"allow": set.Evaluate(policytest.Request("fs.read", `{"path":"a"}`), nil),
		"grant": set.Evaluate(run, []policy.Grant{{ID: grantID, Approval: standing}}),
		"other": set.Evaluate(run, []policy.Grant{{ID: "01JNA3PZ80GRANT0THER000000", Approval: standing}}),
		"ask":   set.Evaluate(run, nil),
		"deny":  set.Evaluate(policytest.Request("http.fetch", `{"url":"https://example.org/"}`), nil),
		"zero":  {},
	}
	for name, want := range map[string]policy.Effect{
		"allow": policy.Allow, "grant": policy.Allow, "other": policy.Allow, "ask": policy.Ask, "deny": policy.Deny, "zero": policy.Deny,
	} {
		if got := made[name].Effect(); got != want {
			t.Fatalf("verdict %s is %s, want %s", name, got, want)
		}
	}
	return made
}

// table maps every verdict and every answer to the resulting reason. "" means that the call is
// allowed.
var table = map[string]map[string]reason.Code{
	"allow": {
		"zero": reason.ApprovalRequired, "not needed": "", "approval": "", "approval other": reason.BindingMismatch,
		"grant": "", "grant for another call": reason.BindingMismatch,
		"denied": reason.ApprovalDenied, "expired": reason.ApprovalExpired, "cancelled": reason.ApprovalCancelled, "gone": reason.Cancelled,
	},
	"grant": {
		"zero": reason.ApprovalRequired, "not needed": reason.ApprovalRequired,
		"approval": reason.ApprovalRequired, "approval other": reason.ApprovalRequired,
		"grant": "", "grant for another call": reason.BindingMismatch,
		"denied": reason.ApprovalDenied, "expired": reason.ApprovalExpired, "cancelled": reason.ApprovalCancelled, "gone": reason.Cancelled,
	},
	"other": {
		"zero": reason.ApprovalRequired, "not needed": reason.ApprovalRequired,
		"approval": reason.ApprovalRequired, "approval other": reason.ApprovalRequired,
		"grant": reason.ApprovalRequired, "grant for another call": reason.ApprovalRequired,
		"denied": reason.ApprovalDenied, "expired": reason.ApprovalExpired, "cancelled": reason.ApprovalCancelled, "gone": reason.Cancelled,
	},
	"ask": {
		"zero": reason.ApprovalRequired, "not needed": reason.ApprovalRequired,
		"approval": "", "approval other": reason.BindingMismatch,
		"grant": "", "grant for another call": reason.BindingMismatch,
		"denied": reason.ApprovalDenied, "expired": reason.ApprovalExpired, "cancelled": reason.ApprovalCancelled, "gone": reason.Cancelled,
	},
	"deny": all(reason.PolicyDenied),
	"zero": all(reason.PermitRefused),
}

func all(code reason.Code) map[string]reason.Code {
	row := map[string]reason.Code{}
	for _, name := range []string{
		"zero", "not needed", "approval", "approval other", "grant", "grant for another call", "denied", "expired", "cancelled", "gone",
	} {
		row[name] = code
	}
	return row
}

var budgets = []struct {
	name   string
	budget decision.Budget
	within bool
}{
	{"first", decision.Budget{Limit: 3, Used: 1}, true},
	{"last", decision.Budget{Limit: 3, Used: 3}, true},
	{"over", decision.Budget{Limit: 3, Used: 4}, false},
	{"zero", decision.Budget{}, false},
	{"uncounted", decision.Budget{Limit: 3}, false},
	{"no limit", decision.Budget{Used: 1}, false},
}

func TestEveryVerdictAnswerAndBudget(t *testing.T) {
	t.Parallel()
	made := makeAnswers(t)
	verdicts := makeVerdicts(t, made.grantID)
	checked := 0
	for verdictName, row := range table {
		for answerName, want := range row {
			answer, ok := made.byName[answerName]
			if !ok {
				t.Fatalf("no answer is named %q", answerName)
			}
			for _, b := range budgets {
				checked++
				want := want
				if !b.within && verdictName != "zero" {
					want = reason.BudgetExceeded
				}
				name := fmt.Sprintf("%s, %s, %s", verdictName, answerName, b.name)
				checkMake(t, name, decision.Input{
					DecisionID: "01JNA3PZZ0DEC1S10N00000000", ProposalID: proposalID, CallDigest: made.call, FactsDigest: "sha256:facts",
					Verdict: verdicts[verdictName], Answer: answer, Budget: b.budget, Now: now,
				}, want)
			}
		}
	}
	if want := len(verdicts) * len(made.byName) * len(budgets); checked != want {
		t.Errorf("%d combinations were checked, there are %d", checked, want)
	}
}

func checkMake(t *testing.T, name string, in decision.Input, want reason.Code) {
	t.Helper()
	r, permit := decision.Make(&in), decision.Mint(&in)
	switch {
	case r.Reason != want, r.Allowed != (want == ""):
		t.Errorf("%s: allowed %v, reason %q (%s), want %q", name, r.Allowed, r.Reason, r.Message, want)
	case r.Allowed != (permit != nil):
		t.Errorf("%s: allowed %v and permit %v", name, r.Allowed, permit)
	case !r.Allowed && (r.Message == "" || r.Remedy == ""):
		t.Errorf("%s: a denial without words: %+v", name, r)
	}
	if r.ProposalID != in.ProposalID || r.CallDigest != in.CallDigest || r.SnapshotDigest != in.Verdict.SnapshotDigest() ||
		r.ApprovalID != in.Answer.ApprovalID() || r.GrantID != in.Answer.GrantID() || !r.At.Equal(in.Now) {
		t.Errorf("%s: the record does not name what it rests on: %+v", name, r)
	}
}

// A decision about a call without a digest is never an allow, even if all other inputs are
// valid.
func TestUnboundCallIsDenied(t *testing.T) {
	t.Parallel()
	good := decision.Input{
		DecisionID: "d", ProposalID: proposalID, CallDigest: "sha256:call", FactsDigest: "sha256:facts",
		Verdict: policytest.Set(t, policytest.Options{}).Evaluate(policytest.Request("fs.read", `{"path":"a"}`), nil),
		Answer:  approval.NotNeeded(), Budget: decision.Budget{Limit: 1, Used: 1}, Now: now,
	}
	if decision.Mint(&good) == nil {
		t.Fatal("the control is denied")
	}
	for name, spoil := range map[string]func(*decision.Input){
		"no proposal": func(in *decision.Input) { in.ProposalID = "" },
		"no digest":   func(in *decision.Input) { in.CallDigest = "" },
		"no facts":    func(in *decision.Input) { in.FactsDigest = "" },
		"no verdict":  func(in *decision.Input) { in.Verdict = policy.Verdict{} },
	} {
		in := good
		spoil(&in)
		if r, permit := decision.Make(&in), decision.Mint(&in); permit != nil || r.Reason != reason.PermitRefused {
			t.Errorf("%s: permit %v, reason %s", name, permit, r.Reason)
		}
	}
}

// The remedy of a policy is part of the decision record.
func TestDenialCarriesTheRemedyOfThePolicy(t *testing.T) {
	t.Parallel()
	in := decision.Input{
		ProposalID: proposalID, CallDigest: "sha256:call", FactsDigest: "sha256:facts", Verdict: makeVerdicts(t, "g")["deny"],
		Answer: approval.NotNeeded(), Budget: decision.Budget{Limit: 1, Used: 1}, Now: now,
	}
	r := decision.Make(&in)
	if r.Remedy != "Read a file instead." || len(r.Determining) != 1 || r.Determining[0].ID != "no-fetch" {
		t.Errorf("got remedy %q, determining %+v", r.Remedy, r.Determining)
	}
}
