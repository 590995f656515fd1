// Package decision joins Cedar's verdict and the human answer into the final
// allow or deny of one call. It is pure: no I/O, no clock of its own.
//
// Mint is the only maker of a Permit, and a Permit is the only key that
// dispatch takes. A deny is a value, not an error.
package decision

import (
	"fmt"
	"time"

	"palyra/internal/call/approval"
	"palyra/internal/call/policy"
	"palyra/internal/core/reason"
)

// PermitLife is how long a permit can be redeemed after its decision. It only
// has to outlast the durable write between the two.
const PermitLife = 30 * time.Second

// Budget is how many calls a run or a session may make, and which of them this
// one is.
type Budget struct {
	// Limit is max_calls_per_run, or for calls of no run of the gateway
	// max_calls_per_session; every proposal counts.
	Limit int
	// Used counts the calls of the run or session, this one included.
	Used int
	// Session is the session that counts; "" for a run.
	Session string
	// Said is the answer of people who were asked whether the session may go on, "" for none.
	Said string
}

// exceeded says that the budget is used up.
func (b Budget) exceeded() *reason.Error {
	if b.Session == "" {
		return reason.Errorf(reason.BudgetExceeded, "this is call %d of the run and %d are allowed", b.Used, b.Limit)
	}
	text := fmt.Sprintf("this is call %d of session %s and %d are allowed", b.Used, b.Session, b.Limit)
	if b.Said != "" {
		text += "; whether it may go on was asked: " + b.Said
	}
	return reason.Errorf(reason.BudgetExceeded, "%s", text).
		WithRemedy("A person can start the count anew with `palyra sessions end %s`, or raise max_calls_per_session.", b.Session)
}

// Input is all that a decision depends on.
type Input struct {
	// DecisionID and ProposalID are ULIDs.
	DecisionID string
	ProposalID string
	// CallDigest is of the call as planned now, FactsDigest of the facts that it
	// was judged by (policy.BoundDigest).
	CallDigest  string
	FactsDigest string
	Verdict     policy.Verdict
	Answer      approval.Answer
	Budget      Budget
	Now         time.Time
}

// Record is the decision as it is journaled and shown.
type Record struct {
	ID         string      `json:"decision_id"`
	ProposalID string      `json:"proposal_id"`
	Allowed    bool        `json:"allowed"`
	Reason     reason.Code `json:"reason,omitempty"`
	Message    string      `json:"message,omitempty"`
	Remedy     string      `json:"remedy,omitempty"`
	ApprovalID string      `json:"approval_id,omitempty"`
	GrantID    string      `json:"grant_id,omitempty"`
	// Joins is the proposal by which an agent's hook announced the call, and of which
	// people said yes.
	Joins string `json:"joins,omitempty"`
	// GrantCovers says in a person's words which calls that grant covers.
	GrantCovers string `json:"grant_covers,omitempty"`
	CallDigest  string `json:"call_digest"`
	// SnapshotDigest leads to the exact configuration that was in force.
	SnapshotDigest string               `json:"snapshot_digest"`
	PolicyVersion  string               `json:"policy_version"`
	Determining    []policy.Determining `json:"determining"`
	At             time.Time            `json:"at"`
}

// Make decides. The order of the rules is the order in which they are explained:
// budget, policy, human.
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

// refuse returns why the call is denied, or nil.
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

// refuseAllow checks that the answer fits a verdict that allows. A verdict without
// a grant needs the answer NotAsked, or a human's yes to this call (an earlier
// verdict asked for it). A verdict by a grant needs the answer of that very grant.
// The zero Answer allows nothing.
func refuseAllow(in *Input) *reason.Error {
	switch grant := in.Verdict.GrantID(); {
	case grant == "" && in.Answer.Kind() == approval.NotAsked:
		return nil
	case grant != "" && in.Answer.GrantID() != grant:
		return answerDenial(&in.Answer)
	}
	return refuseAnswer(in)
}

// refuseAnswer checks that a human said yes to exactly this call.
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
	code := v.Reason()
	if code == "" {
		code = reason.PolicyDenied
	}
	e := reason.Errorf(code, "%s", reason.Lookup(code).Sentence)
	if g := v.SkillGate(); g != nil && !g.Allowed {
		e.Message = g.Message()
	}
	if remedy := v.Remedy(); remedy != "" {
		e = e.WithRemedy("%s", remedy)
	}
	return e
}

func answerDenial(a *approval.Answer) *reason.Error {
	code := a.Reason()
	if code == "" {
		code = reason.ApprovalRequired
	}
	message := a.Message()
	if message == "" {
		message = reason.Lookup(code).Sentence
	}
	e := reason.Errorf(code, "%s", message)
	if remedy := a.Remedy(); remedy != "" {
		e = e.WithRemedy("%s", remedy)
	}
	return e
}
