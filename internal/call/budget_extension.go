package call

import (
	"context"
	"encoding/json"
	"fmt"

	"palyra/internal/call/approval"
	"palyra/internal/call/policy"
	"palyra/internal/call/record"
	"palyra/internal/call/session"
	"palyra/internal/core/canonical"
	"palyra/internal/core/event"
	"palyra/internal/core/tool"
)

// moreCalls is the number of calls by which an approval extends a session's budget.
const moreCalls = 200

// askToGoOn requests an approval to extend the session, for a call that is beyond the session's
// budget and that policy does not deny. A run is never extended: its budget was set when it was
// started. After a denial the call stays beyond its budget, and the decision denies it for that
// reason.
//
// Policy does not define the approvers of an extension, because the budget limits volume and is
// not a permission. One member who may decide approvals of the requester is sufficient,
// whichever approval the call itself needs.
func (s *settlement) askToGoOn(ctx context.Context) error {
	for s.budget.Session != "" && s.budget.Used > s.budget.Limit && s.verdict.Effect() != policy.Deny {
		turn, created := s.counted.AskMore()
		if !created {
			if err := s.waitFor(ctx, turn); err != nil {
				return err
			}
			if s.budget = s.scope.budget(); turn.Refused {
				s.budget.Said = turn.Said
				return nil
			}
			continue
		}
		refused, said, err := s.askForMore(ctx, turn)
		s.counted.Asked(turn, refused, said)
		if s.budget = s.scope.budget(); err != nil || refused {
			s.budget.Said = said
			return err
		}
	}
	return nil
}

// waitFor waits for an answer that another call has already requested and that this call needs
// too. It reports the pending approval to the caller of this call.
func (s *settlement) waitFor(ctx context.Context, turn *session.Turn) error {
	questions := turn.Asked
	for {
		select {
		case <-questions:
			if r, is := turn.Question.(*approval.Record); is {
				s.observe(Event{Asked: r})
			}
			questions = nil
		case <-turn.Answered:
			return nil
		case <-ctx.Done():
			return leftEarly(ctx, "while it was asked whether the session may go on")
		}
	}
}

// askForMore requests the approval and extends the session, unless the approvers refuse, for the
// reason in said, or none exist.
func (s *settlement) askForMore(ctx context.Context, turn *session.Turn) (refused bool, said string, err error) {
	if !s.Evaluator.Current().SomebodyDecides(s.request, policy.SeverityMedium) {
		return true, "", nil
	}
	ask, err := s.moreAsk()
	if err != nil {
		return false, "", err
	}
	// The events that led to the approval request are durable before it is made.
	if err := s.drafts.flush(ctx); err != nil {
		return false, "", err
	}
	observe := s.observeAsk()
	answer, err := s.Approver.Resolve(ctx, ask, func(r *approval.Record) {
		if turn.Question == nil {
			shown := *r
			turn.Question = &shown
			close(turn.Asked)
		}
		observe(r)
	})
	if err != nil {
		return false, "", err
	}
	s.observe(Event{Resolved: &answer})
	switch {
	case ctx.Err() != nil && !answer.Allowed():
		return false, "", leftEarly(ctx, "while it was asked whether the session may go on")
	case !answer.Allowed():
		return true, answer.Message(), nil
	}
	err = s.extend(context.WithoutCancel(ctx), answer)
	lost := answerLost(err) != nil // it was revoked before its use
	if lost {
		err = nil
	}
	return lost, "", unwritten(err)
}

// extend consumes the answer and extends the session.
func (s *settlement) extend(ctx context.Context, answer approval.Answer) error {
	limit := s.counted.More(moreCalls)
	draft, err := newDraft(event.SessionExtended, &s.proposal, record.SessionExtended{
		Session: s.counted.Session(), Principal: s.sub.Caller.Principal.String(), Calls: moreCalls, Limit: limit,
		ProposalID: s.proposal.ID, ApprovalID: answer.ApprovalID(),
	})
	if err != nil {
		return err
	}
	draft.Subject = s.counted.Session()
	if err := s.Approver.Consume(ctx, answer, draft); err != nil {
		return err
	}
	s.counted.Allow(limit)
	return nil
}

// moreAsk builds the approval request. It binds to the session and to its current call count,
// so that an answer is valid once.
func (s *settlement) moreAsk() (*approval.Ask, error) {
	id, limit := s.counted.Session(), s.budget.Limit
	arguments, err := canonical.Marshal(map[string]any{"session": id, "calls": moreCalls, "after": limit})
	if err != nil {
		return nil, err
	}
	p := s.proposal
	p.Session, p.Input = id, arguments
	p.Tool = tool.Descriptor{Name: approval.SessionTool, Title: fmt.Sprintf("Let %s go on for %d more calls", p.Caller.Principal, moreCalls)}
	plan := tool.Plan{
		Binding: tool.Binding{
			Principal: p.Caller.Principal.String(), OnBehalfOf: p.Caller.OnBehalfOf.String(), Tool: approval.SessionTool, Arguments: arguments,
		},
		Preview: tool.Preview{
			Summary: fmt.Sprintf("Session %s of %s has used its budget of %d calls; an approval lets it make %d more.", id, p.Caller.Principal, limit, moreCalls),
			Notes:   []string{fmt.Sprintf("The waiting call uses the tool %s. Inspect the session with `palyra sessions show %s`. Reset all its counts with `palyra sessions end %s`.", s.proposal.Tool.Name, id, id)},
		},
	}
	digest, err := plan.Binding.Digest()
	if err != nil {
		return nil, err
	}
	prompt, err := approval.NewPrompt(p, plan, policy.SeverityMedium)
	if err != nil {
		return nil, err
	}
	request, err := json.Marshal(s.request)
	if err != nil {
		return nil, fmt.Errorf("encoding the policy request: %w", err)
	}
	return &approval.Ask{
		Proposal: p, Plan: plan, CallDigest: digest, SnapshotDigest: s.verdict.SnapshotDigest(), Request: request, Prompt: prompt,
		SubjectType: approval.SubjectTool, SubjectID: approval.SessionSubject + id, Severity: policy.SeverityMedium,
		Missing: "a person who may decide approvals", Needs: &approval.Needs{Want: 1},
	}, nil
}
