package api

import (
	"context"
	"time"

	palyrav1 "palyra/gen/palyra/v1"
	"palyra/internal/call"
	"palyra/internal/call/policy"
	"palyra/internal/call/policy/explain"
	"palyra/internal/call/policy/policytests"
	"palyra/internal/core/access"
	"palyra/internal/core/reason"
	"palyra/internal/surface/api/export"
)

// ExplainPolicy explains a decided call, or a call that the request describes.
func (p *policies) ExplainPolicy(ctx context.Context, req *palyrav1.ExplainPolicyRequest) (*palyrav1.ExplainPolicyResponse, error) {
	if id := req.GetDecisionId(); id != "" {
		return p.explainPast(ctx, id)
	}
	call, err := p.described(ctx, req.GetCall())
	if err != nil {
		return nil, err
	}
	return call.explain(p.engine.Current())
}

// SimulatePolicy explains a described call under policies that need not be in force.
func (p *policies) SimulatePolicy(ctx context.Context, req *palyrav1.SimulatePolicyRequest) (*palyrav1.SimulatePolicyResponse, error) {
	call, err := p.described(ctx, req.GetCall())
	if err != nil {
		return nil, err
	}
	inForce, err := call.explain(p.engine.Current())
	if err != nil || len(req.GetSources()) == 0 && !req.GetReplace() {
		return &palyrav1.SimulatePolicyResponse{Explanation: inForce}, err
	}
	set, err := p.admin.Build(ctx, export.Sources(req.GetSources()), req.GetReplace())
	if err != nil {
		return nil, err
	}
	other, err := call.explain(set)
	return &palyrav1.SimulatePolicyResponse{Explanation: other, VerdictInForce: inForce.GetVerdict()}, err
}

// noteRestrictedFacts replaces an explanation that the caller may not read.
const noteRestrictedFacts = "The explanation contains facts of files that policy does not let you read. Ask a user who may read the files or the journal."

// explainPast explains a call under the policies that decided it.
func (p *policies) explainPast(ctx context.Context, id string) (*palyrav1.ExplainPolicyResponse, error) {
	past, err := p.admin.Past(ctx, callerOf(ctx), id)
	if err != nil {
		return nil, err
	}
	m := &palyrav1.ExplainPolicyResponse{Notes: []string{noteRestrictedFacts}}
	if caller := callerOf(ctx); may(p.engine, caller, access.PermJournalRead) || p.pipeline.MayReadFacts(ctx, caller, &past.Request.Facts) {
		m = explanationMessage(explain.Verdict(past.Set, past.Request, policy.Approval{}, past.Grants))
		m.Notes = past.Notes
	}
	m.ProposalId, m.DecisionId = past.ProposalID, past.Decision.ID
	switch d := past.Decision; {
	case d.ID == "":
	case d.Allowed:
		m.Decision = "allowed"
	default:
		// The final denial may have another cause than policy.
		m.Decision, m.Reason, m.Message, m.Remedy = "denied", string(d.Reason), d.Message, d.Remedy
	}
	return m, nil
}

// describedCall is a call that a caller describes.
type describedCall struct {
	request policy.Request
	grants  []policy.Grant
	votes   []*palyrav1.DescribedVote
}

// described builds the request of a described call. Describing a call of another principal needs
// the permission to simulate.
func (p *policies) described(ctx context.Context, d *palyrav1.CallDescription) (describedCall, error) {
	caller := callerOf(ctx)
	set := p.engine.Current()
	if name := d.GetPrincipal(); name != "" && name != caller.Principal.String() {
		if err := set.Access().Permit(policy.AccessRequest{Caller: caller, Permission: access.PermPolicySimulate}); err != nil {
			return describedCall{}, err
		}
		other, err := principalOf(name)
		if err != nil {
			return describedCall{}, err
		}
		caller = policytests.CallerFor(set, other)
	}
	request, grants, err := p.pipeline.Describe(ctx, call.Description{
		Submission: call.Submission{
			Caller: caller, Tool: d.GetTool(), Input: d.GetInputJson(), Session: d.GetSession(), Channel: d.GetChannel(),
		},
		Facts: d.GetFactsJson(), At: timeOf(d.GetAt()), By: callerOf(ctx),
	})
	return describedCall{request, grants, d.GetVotes()}, err
}

// explain explains the call under a policy set, with the votes counted as if cast when the call was
// proposed.
func (c describedCall) explain(set *policy.Set) (*palyrav1.ExplainPolicyResponse, error) {
	cast := policy.Approval{Now: c.request.Time}
	for _, m := range c.votes {
		v, err := voteOf(set, m, c.request.Time)
		if err != nil {
			return nil, err
		}
		cast.Votes = append(cast.Votes, v)
	}
	return explanationMessage(explain.Verdict(set, c.request, cast, c.grants)), nil
}

func voteOf(set *policy.Set, m *palyrav1.DescribedVote, at time.Time) (policy.Vote, error) {
	v, err := policytests.NamedVote(m.GetUser(), m.GetRoles())
	if err != nil {
		return v, reason.Errorf(reason.InvalidInput, "%w", err)
	}
	v.Surface, v.Paired, v.Present = access.Surface(m.GetSurface()), m.GetPaired(), m.GetPresent()
	return policytests.VoteFor(set, v, at)
}

func explanationMessage(e explain.Explanation) *palyrav1.ExplainPolicyResponse {
	m := &palyrav1.ExplainPolicyResponse{
		Verdict: e.Effect.String(), Reason: string(e.Reason), Remedy: e.Remedy, PolicyVersion: e.PolicyVersion,
		SnapshotDigest: e.SnapshotDigest, NearestPermit: e.Nearest.String(), ContextJson: e.Context, Tool: e.Tool,
		Principal: e.Principal.String(), Errors: e.Errors, Missing: e.Missing, Summary: e.Summary, Path: e.Path,
	}
	m.SkillGateDecision = skillGateMessage(e.Gate, true)
	if e.Reason != "" {
		m.Message = reason.Lookup(e.Reason).Sentence
	}
	for _, p := range e.Policies {
		m.Policies = append(m.Policies, &palyrav1.ExplainedPolicy{
			PolicyId: p.ID, File: p.File, Line: int32(p.Line), Effect: p.Effect, Determining: p.Determining, Outcome: p.Outcome,
			Conjuncts: conjunctMessages(p.Conjuncts), Reason: p.Reason, Remedy: p.Remedy,
		})
	}
	for _, f := range e.Flips {
		m.Flips = append(m.Flips, flipMessage(f))
	}
	return m
}

func conjunctMessages(list []explain.Conjunct) []*palyrav1.ExplainedConjunct {
	out := make([]*palyrav1.ExplainedConjunct, len(list))
	for i, c := range list {
		m := &palyrav1.ExplainedConjunct{
			Text: c.Text, Line: int32(c.Line), Column: int32(c.Column), Clause: c.Clause, Outcome: c.Outcome,
			Parts: conjunctMessages(c.Parts), Error: c.Error,
		}
		for _, v := range c.Values {
			m.Values = append(m.Values, &palyrav1.ExplainedValue{Path: v.Path, Value: v.Value})
		}
		out[i] = m
	}
	return out
}

func flipMessage(f explain.Flip) *palyrav1.PolicyFlip {
	m := &palyrav1.PolicyFlip{Verdict: f.Verdict.String(), Summary: f.Summary, PolicyId: f.PolicyID}
	for _, s := range f.Steps {
		m.Steps = append(m.Steps, &palyrav1.FlipStep{
			Kind: string(s.Kind), Path: s.Path, Was: s.Was, Becomes: s.Becomes, File: s.File, Line: int32(s.Line),
		})
	}
	return m
}
