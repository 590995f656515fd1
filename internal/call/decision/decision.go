// Package decision combines the policy verdict and the approval answer into the final allow or
// deny of one call. It is pure: no I/O and no clock.
//
// Only Mint creates a Permit, and dispatch requires a Permit. A denial is a value, not an
// error.
package decision

import (
	"cmp"
	"fmt"
	"sync/atomic"
	"time"

	"palyra/internal/call/approval"
	"palyra/internal/call/policy"
	"palyra/internal/core/reason"
)

// PermitLife is how long a permit can be redeemed after its decision. It only has to outlast
// the durable write between the decision and the start of the call.
const PermitLife = 30 * time.Second

// Budget is the number of calls that a run or a session may make, and the number of this call.
type Budget struct {
	// Limit is max_calls_per_run, or max_calls_per_session for calls outside of gateway runs;
	// every proposal counts.
	Limit int
	// Used counts the calls of the run or session, this one included.
	Used int
	// Session is the session whose calls are counted; "" for a run.
	Session string
	// Said is the approvers' answer to a request to extend the session, or "".
	Said string
}

// exceeded returns an error if the budget is exceeded.
func (b Budget) exceeded() *reason.Error {
	if b.Session == "" {
		return reason.Errorf(reason.BudgetExceeded, "this is call %d of the run, %d are allowed", b.Used, b.Limit)
	}
	text := fmt.Sprintf("this is call %d of session %s, %d are allowed", b.Used, b.Session, b.Limit)
	if b.Said != "" {
		text += "; the request to extend it was answered: " + b.Said
	}
	return reason.Errorf(reason.BudgetExceeded, "%s", text).
		WithRemedy("Reset the count with `palyra sessions end %s`, or raise max_calls_per_session.", b.Session)
}

// Input has all inputs of a decision.
type Input struct {
	// DecisionID and ProposalID are ULIDs.
	DecisionID string
	ProposalID string
	// CallDigest is the digest of the call as planned now, FactsDigest of the facts that
	// it was judged by (policy.BoundDigest).
	CallDigest  string
	FactsDigest string
	Verdict     policy.Verdict
	Answer      approval.Answer
	Budget      Budget
	Now         time.Time
}

// Record is the decision in its journaled and displayed form.
//
// A call with an effect MUST NOT start before its record is durable. A record MUST NOT change
// afterwards: a call that is not allowed any more ends with a refusal of its own.
type Record struct {
	ID         string      `json:"decision_id"`
	ProposalID string      `json:"proposal_id"`
	Allowed    bool        `json:"allowed"`
	Reason     reason.Code `json:"reason,omitempty"`
	Message    string      `json:"message,omitempty"`
	Remedy     string      `json:"remedy,omitempty"`
	ApprovalID string      `json:"approval_id,omitempty"`
	GrantID    string      `json:"grant_id,omitempty"`
	// Joins is the approved proposal by which an agent's hook announced the call.
	Joins string `json:"joins,omitempty"`
	// GrantCovers describes in words the calls that the grant covers.
	GrantCovers string `json:"grant_covers,omitempty"`
	CallDigest  string `json:"call_digest"`
	// SnapshotDigest identifies the exact configuration that was in force.
	SnapshotDigest string               `json:"snapshot_digest"`
	PolicyVersion  string               `json:"policy_version"`
	Determining    []policy.Determining `json:"determining"`
	At             time.Time            `json:"at"`
}

// Make decides a call. Rules are applied, and explained, in the order budget, policy, approval.
func Make(in *Input) Record {
	r := Record{
		ID:             in.DecisionID,
		ProposalID:     in.ProposalID,
		ApprovalID:     in.Answer.ApprovalID(),
		GrantID:        in.Answer.GrantID(),
		Joins:          in.Answer.Joins(),
		GrantCovers:    in.Answer.Grant().Covered,
		CallDigest:     in.CallDigest,
		SnapshotDigest: in.Verdict.SnapshotDigest(),
		PolicyVersion:  in.Verdict.PolicyVersion(),
		Determining:    in.Verdict.Determining(),
		At:             in.Now,
	}
	if denial := refuse(in); denial != nil {
		r.Reason, r.Message, r.Remedy = denial.Code, denial.Message, denial.NextStep()
		return r
	}
	r.Allowed = true
	return r
}

// refuse returns the error with which the call is denied, or nil.
func refuse(in *Input) *reason.Error {
	switch {
	case in.ProposalID == "" || in.CallDigest == "" || in.FactsDigest == "" || in.Verdict.SnapshotDigest() == "":
		return reason.Errorf(reason.PermitRefused, "the call is not bound to a proposal, a call digest, the facts that policy judged and a policy snapshot")
	case in.Budget.Used < 1:
		return reason.Errorf(reason.BudgetExceeded, "the call was not counted in its run")
	case in.Budget.Used > in.Budget.Limit:
		return in.Budget.exceeded()
	}
	switch in.Verdict.Effect() {
	case policy.Allow:
		return refuseAllow(in)
	case policy.Ask:
		return refuseAnswer(in)
	default:
		return verdictDenial(&in.Verdict)
	}
}

// refuseAllow checks that the answer fits a verdict that allows. A verdict without a grant
// needs the answer NotAsked, or an approval of this call (required by an earlier verdict). A
// verdict by a grant needs the answer of that same grant. The zero Answer allows nothing.
func refuseAllow(in *Input) *reason.Error {
	switch grant := in.Verdict.GrantID(); {
	case grant == "" && in.Answer.Kind() == approval.NotAsked:
		return nil
	case grant != "" && in.Answer.GrantID() != grant:
		return answerDenial(&in.Answer)
	}
	return refuseAnswer(in)
}

// refuseAnswer checks that exactly this call was approved.
func refuseAnswer(in *Input) *reason.Error {
	if kind := in.Answer.Kind(); kind != approval.ByApproval && kind != approval.ByGrant && kind != approval.ByJoin {
		return answerDenial(&in.Answer)
	}
	if in.Answer.CallDigest() != in.CallDigest {
		return reason.Errorf(reason.BindingMismatch, "the approval is for call %s and this is %s", in.Answer.CallDigest(), in.CallDigest)
	}
	return nil
}

func verdictDenial(v *policy.Verdict) *reason.Error {
	if g := v.SkillGate(); g != nil && !g.Allowed {
		return denial(v.Reason(), g.Message(), v.Remedy())
	}
	return denial(v.Reason(), "", v.Remedy())
}

func answerDenial(a *approval.Answer) *reason.Error {
	return denial(cmp.Or(a.Reason(), reason.ApprovalRequired), a.Message(), a.Remedy())
}

// denial returns an error whose message defaults to the sentence of its code.
func denial(code reason.Code, message, remedy string) *reason.Error {
	e := reason.Errorf(code, "%s", cmp.Or(message, reason.Lookup(code).Sentence))
	if remedy != "" {
		e = e.WithRemedy("%s", remedy)
	}
	return e
}

// Mint creates the permit for a call that Make allows, and returns nil for a denied call. The
// caller must have made the decision durable before. For a tool without effects, it may instead
// make the decision durable together with the outcome.
func Mint(in *Input) *Permit {
	if refuse(in) != nil {
		return nil
	}
	return &Permit{
		spent:          new(atomic.Bool),
		proposalID:     in.ProposalID,
		callDigest:     in.CallDigest,
		factsDigest:    in.FactsDigest,
		snapshotDigest: in.Verdict.SnapshotDigest(),
		expires:        in.Now.Add(PermitLife),
	}
}
