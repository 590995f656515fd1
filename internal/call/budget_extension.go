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
func (a *authorization) askToGoOn(ctx context.Context) error {
	for a.budget.Session != "" && a.budget.Used > a.budget.Limit && a.verdict.Effect() != policy.Deny {
		turn, created := a.counted.AskMore()
		if !created {
			if err := a.waitFor(ctx, turn); err != nil {
				return err
			}
			if a.takeBudget(); turn.Refused {
				a.budget.Said = turn.Said
				return nil
			}
			continue
		}
		allowed, refused, extension, err := a.askForMore(ctx, turn)
		a.counted.Asked(turn, refused, extension)
		if a.takeBudget(); err != nil || !allowed {
			a.budget.Said = extension
			return err
		}
	}
	return nil
}

// waitFor waits for an answer that another call has already requested and that this call needs
// too. It reports the pending approval to the caller of this call.
func (a *authorization) waitFor(ctx context.Context, turn *session.Turn) error {
	questions := turn.Asked
	for {
		select {
		case <-questions:
			if r, is := turn.Question.(*approval.Record); is {
				a.observe(Event{Asked: r})
			}
			questions = nil
		case <-turn.Answered:
			return nil
		case <-ctx.Done():
			return leftEarly(ctx, "while it was asked whether the session may go on")
		}
	}
}

// askForMore requests the approval and extends the session if it is granted. refused is true if
// the approvers denied it or if none exist; extension is their reason.
func (a *authorization) askForMore(ctx context.Context, turn *session.Turn) (allowed, refused bool, extension string, err error) {
	if !a.Evaluator.Current().SomebodyDecides(a.request, policy.SeverityMedium) {
		return false, true, "", nil
	}
	ask, err := a.moreAsk()
	if err != nil {
		return false, false, "", err
	}
	// The events that led to the approval request are durable before it is made.
	if err := a.flush(ctx); err != nil {
		return false, false, "", err
	}
	observe := a.observeAsk()
	answer, err := a.Approver.Resolve(ctx, ask, func(r *approval.Record) {
		if turn.Question == nil {
			shown := *r
			turn.Question = &shown
			close(turn.Asked)
		}
		observe(r)
	})
	if err != nil {
		return false, false, "", err
	}
	a.observe(Event{Resolved: &answer})
	switch {
	case ctx.Err() != nil && !answer.Allowed():
		return false, false, "", leftEarly(ctx, "while it was asked whether the session may go on")
	case !answer.Allowed():
		return false, true, answer.Message(), nil
	}
	err = a.extend(context.WithoutCancel(ctx), answer)
	return err == nil, answerLost(err) != nil, "", lostIsNo(err)
}

// lostIsNo converts the error of an answer that was revoked before its use to a denial.
func lostIsNo(err error) error {
	if answerLost(err) == nil {
		return unwritten(err)
	}
	return nil
}

// extend consumes the answer and extends the session.
func (a *authorization) extend(ctx context.Context, answer approval.Answer) error {
	limit := a.counted.More(moreCalls)
	draft, err := newDraft(event.SessionExtended, a.proposal, record.SessionExtended{
		Session: a.counted.Session(), Principal: a.sub.Caller.Principal.String(), Calls: moreCalls, Limit: limit,
		ProposalID: a.proposal.ID, ApprovalID: answer.ApprovalID(),
	})
	if err != nil {
		return err
	}
	draft.Subject = a.counted.Session()
	if err := a.Approver.Consume(ctx, answer, draft); err != nil {
		return err
	}
	a.counted.Allow(limit)
	return nil
}

// moreAsk builds the approval request. It binds to the session and to its current call count,
// so that an answer is valid once.
func (a *authorization) moreAsk() (*approval.Ask, error) {
	id, limit := a.counted.Session(), a.budget.Limit
	arguments, err := canonical.Marshal(map[string]any{"session": id, "calls": moreCalls, "after": limit})
	if err != nil {
		return nil, err
	}
	p := a.proposal
	p.Session, p.Input = id, arguments
	p.Tool = tool.Descriptor{Name: approval.SessionTool, Title: fmt.Sprintf("Let %s go on for %d more calls", p.Caller.Principal, moreCalls)}
	plan := tool.Plan{
		Binding: tool.Binding{
			Principal: p.Caller.Principal.String(), OnBehalfOf: p.Caller.OnBehalfOf.String(), Tool: approval.SessionTool, Arguments: arguments,
		},
		Preview: tool.Preview{
			Summary: fmt.Sprintf("Session %s of %s has used its budget of %d calls; an approval lets it make %d more.", id, p.Caller.Principal, limit, moreCalls),
			Notes:   []string{fmt.Sprintf("The waiting call uses the tool %s. Inspect the session with `palyra sessions show %s`. Reset all its counts with `palyra sessions end %s`.", a.proposal.Tool.Name, id, id)},
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
	request, err := json.Marshal(a.request)
	if err != nil {
		return nil, fmt.Errorf("encoding the policy request: %w", err)
	}
	return &approval.Ask{
		Proposal: p, Plan: plan, CallDigest: digest, SnapshotDigest: a.verdict.SnapshotDigest(), Request: request, Prompt: prompt,
		SubjectType: approval.SubjectTool, SubjectID: approval.SessionSubject + id, Severity: policy.SeverityMedium,
		Missing: "a person who may decide approvals", Needs: &approval.Needs{Want: 1},
	}, nil
}

// pastSessions computes the state of past sessions from the ledger.
type pastSessions struct{ Ledger }

// NewestSession implements session.Store.
func (s pastSessions) NewestSession(ctx context.Context, k session.Key) (session.Past, bool, error) {
	var facts record.Facts
	past, found, err := s.Ledger.NewestSession(ctx, k, facts.Add)
	past.Did = facts.Did(past.StartedAt)
	return past, found, err
}
