package call

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"github.com/oklog/ulid/v2"

	"palyra/internal/call/approval"
	"palyra/internal/call/policy"
	"palyra/internal/core/access"
	"palyra/internal/core/reason"
)

// SessionID names the session of a caller: the credential and the name that
// the client gave it, "default" when it gave none.
func SessionID(c access.Caller, declared string) string {
	if declared == "" {
		declared = "default"
	}
	return c.DeviceID + "." + declared
}

// CheckClientName refuses a name that a client gives a session or a run and that
// has the form of a ULID: the gateway names its runs so, and the session of each,
// and what it says of them ("by this run alone") holds for nothing else.
func CheckClientName(what, name string) error {
	if _, err := ulid.ParseStrict(name); err == nil {
		return reason.Errorf(reason.InvalidInput, "%s %q has the form of a ULID: such names are those of the runs that the gateway drives", what, name).
			WithRemedy("Name the %s otherwise, or leave it out; to add to a run of the gateway, send it a message over RunStream.", what)
	}
	return nil
}

// ask builds what humans are shown and what the approval binds to. There is none
// without the reason that policy wants of the requester.
func (a *authorization) ask() (*approval.Ask, error) {
	if err := a.reasonGiven(); err != nil {
		return nil, err
	}
	request, err := json.Marshal(a.request)
	if err != nil {
		return nil, fmt.Errorf("encoding the policy request: %w", err)
	}
	prompt, err := approval.NewPrompt(a.proposal, a.plan, a.verdict.Severity(), causes(a.verdict)...)
	if err != nil {
		return nil, err
	}
	prompt.RequesterReason = a.request.RequesterReason
	covers := a.covers
	if a.request.Injection != nil {
		covers = nil // no grant gives a secret to a program
	}
	return &approval.Ask{
		Proposal: a.proposal, Plan: a.plan, CallDigest: a.digest, SnapshotDigest: a.verdict.SnapshotDigest(),
		Request: request, Prompt: prompt, SubjectType: a.subjectType, SubjectID: a.subjectID,
		Timeout: a.verdict.Timeout(), Severity: a.verdict.Severity(), Edits: a.edits,
		Missing: a.verdict.Missing(), Needs: needs(a.verdict.Wanted()), Covers: covers,
	}, nil
}

// observeAsk tells the call's observer of each record once, when it is asked. The
// votes that follow are not told; clients get them from WatchApprovals.
func (a *authorization) observeAsk() func(*approval.Record) {
	asked := make(map[string]bool)
	return func(r *approval.Record) {
		if !asked[r.ID] {
			asked[r.ID] = true
			a.observe(Event{Asked: r})
		}
	}
}

// covers evaluates the call with a grant that was minted while it waited.
func (a *authorization) covers(ctx context.Context, g approval.Grant) (bool, error) {
	verdict, err := a.Evaluator.Evaluate(ctx, a.request, policyGrants([]approval.Grant{g}, a.LiveDevice, time.Now().UTC()))
	return err == nil && verdict.Effect() == policy.Allow, err
}

// causes names the policies that want a human.
func causes(v policy.Verdict) []approval.Cause {
	var list []approval.Cause
	for _, d := range v.Determining() {
		list = append(list, approval.Cause{
			PolicyID: d.ID, Location: fmt.Sprintf("%s:%d", d.File, d.Line), Reason: d.Reason, Condition: d.Condition,
		})
	}
	return list
}

// policyGrants gives each grant as the facts that policy reads.
func policyGrants(grants []approval.Grant, live func(string) bool, now time.Time) []policy.Grant {
	list := make([]policy.Grant, len(grants))
	for i, g := range grants {
		list[i] = policy.Grant{
			ID:       g.ID,
			Approval: policy.Approval{Votes: policyVotes(g.MintedBy, live), Standing: true, Now: now},
		}
	}
	return list
}

// policyVotes returns the votes that policy sees: the yes votes, since a no has
// ended the approval already, from devices that were not revoked since. A revoked
// device may have been stolen, and the thief may have voted.
func policyVotes(votes []approval.Vote, live func(string) bool) []policy.Vote {
	var list []policy.Vote
	for _, v := range votes {
		if v.Allow && live(v.Device) {
			list = append(list, policy.Vote{
				User: v.User, Roles: v.Roles, Surface: v.Surface, Paired: v.Paired, Present: v.Present, At: v.At,
			})
		}
	}
	return list
}

// Judge lets the desk ask policy about votes. It is approval.Judge.
type Judge struct {
	// Evaluator gives the policy set in force.
	Evaluator Evaluator
	// LiveDevice is that of Config.
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

// needs gives who is wanted to those who show it.
func needs(w *policy.Wanted) *approval.Needs {
	if w == nil {
		return nil
	}
	return &approval.Needs{
		Have: w.Have, Want: w.Have + w.More, Role: w.Role, Surfaces: w.Surfaces, Present: w.Present, Paired: w.Paired,
	}
}

// MayDecide asks policy whether the caller may answer this approval: for its requester,
// and for everybody who changed the call, since they ask for it, too.
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
		return reason.Errorf(reason.PresenceNotProven, "policy lets %s answer this who proves to be present", caller.Principal)
	}
	return err
}

// MayGrantBroad asks policy whether the caller may mint a grant for a whole
// tool.
func (j Judge) MayGrantBroad(_ context.Context, caller access.Caller) error {
	return j.authorize(policy.AccessRequest{Caller: caller, Permission: access.PermApprovalGrantBroad})
}

func (j Judge) authorize(r policy.AccessRequest) error {
	return j.Evaluator.Current().Permit(r)
}
