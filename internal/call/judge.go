package call

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"palyra/internal/call/approval"
	"palyra/internal/call/policy"
	"palyra/internal/core/access"
	"palyra/internal/core/reason"
)

// Judge evaluates votes and permissions against policy. It implements approval.Judge.
type Judge struct {
	// Evaluator returns the policy set in force.
	Evaluator Evaluator
	// LiveDevice is Config.LiveDevice.
	LiveDevice func(id string) bool
}

var _ approval.Judge = Judge{}

// Judge evaluates the stored request of the record with the votes.
func (j Judge) Judge(_ context.Context, r approval.Record, votes []approval.Vote) (approval.Ruling, error) {
	var request policy.Request
	if err := json.Unmarshal(r.Request, &request); err != nil {
		return approval.Ruling{}, fmt.Errorf("reading the request of approval %s: %w", r.ID, err)
	}
	cast := policy.Approval{Votes: policyVotes(votes, j.LiveDevice), Now: time.Now().UTC()}
	judge := j.Evaluator.Current().Judge
	if r.AboutSession() {
		judge = j.Evaluator.Current().JudgeMoreCalls
	}
	judgement := judge(request, cast)
	return approval.Ruling{Allowed: judgement.Allowed, Missing: judgement.Missing, Needs: needs(judgement.Wanted)}, nil
}

// MayDecide evaluates whether the caller may answer this approval. Policy must allow it for the
// requester and for every person who edited the call, because an editor is a requester too.
func (j Judge) MayDecide(_ context.Context, caller access.Caller, r approval.Record) error {
	for _, requester := range append([]access.Principal{r.OnBehalfOf}, r.Editors()...) {
		if err := j.mayDecide(caller, r, requester); err != nil {
			return err
		}
	}
	return nil
}

func (j Judge) mayDecide(caller access.Caller, r approval.Record, requester access.Principal) error {
	request := policy.AccessRequest{
		Caller: caller, Permission: access.PermApprovalDecide,
		Approval: &policy.ApprovalResource{ID: r.ID, Severity: r.Severity, Requester: requester},
	}
	err := j.authorize(request)
	if err == nil || caller.Present {
		return err
	}
	if request.Caller.Present = true; j.authorize(request) == nil {
		return reason.Errorf(reason.PresenceNotProven, "policy requires %s to prove presence for this answer", caller.Principal)
	}
	return err
}

// MayGrantBroad evaluates whether the caller may create a grant for a whole tool.
func (j Judge) MayGrantBroad(_ context.Context, caller access.Caller) error {
	return j.authorize(policy.AccessRequest{Caller: caller, Permission: access.PermApprovalGrantBroad})
}

func (j Judge) authorize(r policy.AccessRequest) error {
	return j.Evaluator.Current().Access().Permit(r)
}
