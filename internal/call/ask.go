package call

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"palyra/internal/call/approval"
	"palyra/internal/call/policy"
	"palyra/internal/core/reason"
	"palyra/internal/core/tool"
)

// resolve finds the answer that the verdict needs, unless the call has no budget left.
func (s *settlement) resolve(ctx context.Context) error {
	switch {
	case s.budget.Used > s.budget.Limit, s.verdict.Effect() == policy.Deny:
		return nil
	case s.verdict.Effect() == policy.Allow && s.verdict.GrantID() == "":
		s.answer = approval.NotNeeded()
		return nil
	}
	if s.verdict.Effect() == policy.Ask && s.join() {
		return nil
	}
	ask, err := s.ask()
	if err != nil {
		return err
	}
	if s.verdict.Effect() == policy.Allow {
		s.answer, err = s.Grants.Answer(ctx, s.verdict.GrantID(), *ask)
		return err
	}
	return s.askPeople(ctx, ask)
}

// askPeople requests an approval and waits for the answer.
func (s *settlement) askPeople(ctx context.Context, ask *approval.Ask) error {
	// The events that led to the approval request are durable before it is made.
	if err := s.drafts.flush(ctx); err != nil {
		return err
	}
	resolved, err := s.resolved(ctx)
	if err != nil {
		return err
	}
	ask.Resolved = resolved
	var on *waiting
	leave := func() {}
	defer func() { leave() }()
	tell := s.observeAsk()
	answer, err := s.Approver.Resolve(ctx, ask, func(r *approval.Record) {
		if w := s.waiting.on(r.ID); w == nil || w != on {
			leave()
			leave = s.waiting.add(ctx, r.ID, s.question)
			on = s.waiting.on(r.ID)
		}
		tell(r)
	})
	if err != nil {
		return err
	}
	// The client may have disconnected, which denies the call. An expired credential is not a
	// denial, so a retry with another credential runs.
	if why := context.Cause(ctx); !answer.Allowed() && reason.Of(why) == reason.Unauthenticated {
		return why
	}
	s.answer, s.waited = answer, true
	s.observe(Event{Resolved: &answer})
	if on == nil {
		return nil
	}
	return s.adopt(ctx, on)
}

// join uses the answer of the announced call if policy accepts its votes and proofs for this
// call, and if the call is identical to the announced one. It applies only to the call itself,
// not to its changes or secrets, and is tried once.
func (s *settlement) join() bool {
	prior := s.sub.PriorAnswer
	if prior == nil || s.joined || s.ofCall != nil {
		return false
	}
	s.joined = true
	if prior.CallDigest != s.digest {
		return false
	}
	answer, ok := prior.Answer.Join(prior.Proposal, s.digest)
	if ok = ok && s.enough(s.request, answer); ok {
		s.answer = answer
	}
	return ok
}

// planAgain plans the call again after an approval: a file that the call reads may have been
// edited while it waited. If the new plan has the same call digest, and all facts that policy
// reads are equal, the call is judged again with the new facts. Otherwise planAgain changes
// nothing; dispatch then detects the difference and refuses the call, and the answer is
// consumed.
func (s *settlement) planAgain(ctx context.Context) error {
	if !s.waited || !s.answer.Allowed() || len(s.plan.Files) == 0 || s.ofCall != nil {
		return nil
	}
	q, same := s.question.again(ctx)
	if !same {
		return nil
	}
	return s.evaluate(ctx, q)
}

// again plans the call again. It reports whether the plan has the same call digest and differs
// only in facts that no policy reads.
func (q *question) again(ctx context.Context) (*question, bool) {
	plan, err := q.Dispatcher.Plan(ctx, q.proposal)
	if err != nil {
		return nil, false
	}
	digest, err := plan.Binding.Digest()
	if err != nil || digest != q.digest || policy.BoundDigest(&plan) == policy.BoundDigest(&q.plan) {
		return nil, false
	}
	now := *q
	now.plan, now.request.Facts = plan, plan.Facts
	return &now, !q.Evaluator.Current().ReadsChanged(q.request, now.request)
}

// enough reports whether the votes that were cast satisfy the policy now in force.
func (q *question) enough(r policy.Request, answer approval.Answer) bool {
	facts := policy.Approval{
		Votes: policyVotes(answer.Votes(), q.LiveDevice), Now: time.Now().UTC(),
		Standing: answer.Standing(),
	}
	return q.Evaluator.Current().Judge(r, facts).Allowed
}

// resolved returns the digest of the effect of the call, of its changes, or of the use of a
// secret by its program. Denials are remembered under it.
func (q *question) resolved(ctx context.Context) (string, error) {
	planned := q
	if q.ofCall != nil {
		planned = q.ofCall
	}
	r, err := q.Dispatcher.Resolved(ctx, planned.proposal, planned.plan)
	if commit := q.request.Commit; commit != nil {
		places := r.Places
		if err != nil { // the program ran; its caller's state may be gone
			places = []string{commit.Workspace}
		}
		return tool.Resolved{Act: "commit", Places: places, What: map[string]any{"root": commit.Root}}.Digest()
	}
	if err != nil {
		return "", err
	}
	call, err := r.Digest()
	if injection := q.request.Injection; err == nil && injection != nil {
		return tool.Resolved{Act: "inject", Places: r.Places, What: map[string]any{"secret": injection, "call": call}}.Digest()
	}
	return call, err
}

// ask builds the approval request and the data that the approval binds to. It fails if policy
// requires a reason from the requester and the call has none.
func (e *evaluated) ask() (*approval.Ask, error) {
	if err := e.reasonGiven(); err != nil {
		return nil, err
	}
	request, err := json.Marshal(e.request)
	if err != nil {
		return nil, fmt.Errorf("encoding the policy request: %w", err)
	}
	prompt, err := approval.NewPrompt(e.proposal, e.plan, e.verdict.Severity(), causes(e.verdict)...)
	if err != nil {
		return nil, err
	}
	prompt.RequesterReason = e.request.RequesterReason
	covers := e.covers
	if e.request.Injection != nil {
		covers = nil // grants never cover secrets
	}
	return &approval.Ask{
		Proposal: e.proposal, Plan: e.plan, CallDigest: e.digest, SnapshotDigest: e.verdict.SnapshotDigest(),
		Request: request, Prompt: prompt, SubjectType: e.subjectType, SubjectID: e.subjectID,
		Timeout: e.verdict.Timeout(), Severity: e.verdict.Severity(), Edits: e.edits,
		Missing: e.verdict.Missing(), Needs: needs(e.verdict.Wanted()), Covers: covers,
	}, nil
}

// observeAsk passes each approval record to the call's observer once, when the approval is
// requested. Later votes are not passed on; clients receive them from WatchApprovals.
func (s *scope) observeAsk() func(*approval.Record) {
	asked := make(map[string]bool)
	return func(r *approval.Record) {
		if !asked[r.ID] {
			asked[r.ID] = true
			s.observe(Event{Asked: r})
		}
	}
}

// covers evaluates the call with a grant that was created while the call waited.
func (q *question) covers(ctx context.Context, g approval.Grant) (bool, error) {
	verdict, err := q.Evaluator.Evaluate(ctx, q.request, policyGrants([]approval.Grant{g}, q.LiveDevice, time.Now().UTC()))
	return err == nil && verdict.Effect() == policy.Allow, err
}

// causes lists the policies that require an approval.
func causes(v policy.Verdict) []approval.Cause {
	var list []approval.Cause
	for _, d := range v.Determining() {
		list = append(list, approval.Cause{
			PolicyID: d.ID, Location: fmt.Sprintf("%s:%d", d.File, d.Line), Reason: d.Reason, Condition: d.Condition,
		})
	}
	return list
}

// policyGrants converts grants to the facts that policy evaluates.
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

// policyVotes returns the votes that policy evaluates: the approving votes of devices that are
// not revoked. A denial has already ended the approval. A revoked device may have been stolen,
// and its votes may be the thief's.
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

// needs converts the missing approvers of a verdict for display.
func needs(w *policy.Wanted) *approval.Needs {
	if w == nil {
		return nil
	}
	return &approval.Needs{
		Have: w.Have, Want: w.Have + w.More, Role: w.Role, Surfaces: w.Surfaces, Present: w.Present, Paired: w.Paired,
	}
}

// noteAsk stores the approval that the call waits for, for PastCall.WaitsFor.
func (c *call) noteAsk(e *Event) {
	switch {
	case e.Asked != nil && e.Asked.State == approval.Pending:
		id := e.Asked.ID
		c.asked.Store(&id)
	case e.Resolved != nil:
		c.asked.Store(nil)
	}
}
