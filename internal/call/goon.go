package call

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"palyra/internal/call/approval"
	"palyra/internal/call/policy"
	"palyra/internal/call/record"
	"palyra/internal/call/session"
	"palyra/internal/core/canonical"
	"palyra/internal/core/event"
	"palyra/internal/core/reason"
	"palyra/internal/core/tool"
)

// moreCalls is how many calls a yes lets a session go on for.
const moreCalls = 200

// askToGoOn asks people whether the session may go on, for a call that is beyond
// the session's budget and that policy does not deny. For calls of runs nobody is
// asked: whoever started the run gave it its budget. After a no the call stays
// beyond its budget, and the decision denies it for that.
func (a *authorization) askToGoOn(ctx context.Context) error {
	for a.budget.Session != "" && a.budget.Used > a.budget.Limit && a.verdict.Effect() != policy.Deny {
		turn, mine := a.counted.AskMore()
		if !mine {
			if err := a.waitFor(ctx, turn); err != nil {
				return err
			}
			if a.takeBudget(); turn.Refused {
				a.budget.Said = turn.Said
				return nil
			}
			continue
		}
		allowed, refused, said, err := a.askForMore(ctx, turn)
		a.counted.Asked(turn, refused, said)
		if a.takeBudget(); err != nil || !allowed {
			a.budget.Said = said
			return err
		}
	}
	return nil
}

// waitFor waits with another call for the answer that this one needs, too, and shows its caller
// what people are asked.
func (a *authorization) waitFor(ctx context.Context, turn *session.Turn) error {
	asked := turn.Asked
	for {
		select {
		case <-asked:
			if r, is := turn.Question.(*approval.Record); is {
				a.observe(Event{Asked: r})
			}
			asked = nil
		case <-turn.Answered:
			return nil
		case <-ctx.Done():
			return leftEarly(ctx, "while it was asked whether the session may go on")
		}
	}
}

// askForMore asks, and lets the session go on after a yes. Refused says that
// people said no, or that there are none, and said is what they said with it.
func (a *authorization) askForMore(ctx context.Context, turn *session.Turn) (allowed, refused bool, said string, err error) {
	if !a.Evaluator.Current().SomebodyDecides(a.request, policy.SeverityMedium) {
		return false, true, "", nil
	}
	ask, err := a.moreAsk()
	if err != nil {
		return false, false, "", err
	}
	// What led to the ask is durable before anyone is asked.
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

// lostIsNo turns the error of an answer that was revoked before its use into a no.
func lostIsNo(err error) error {
	if answerLost(err) == nil {
		return unwritten(err)
	}
	return nil
}

// extend uses the answer up and lets the session go on.
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

// moreAsk is what people are asked. It binds to the session and to how far it
// has come, so that one answer is good once.
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
			Summary: fmt.Sprintf("Session %s of %s has made the %d calls that it may; a yes lets it make %d more.", id, p.Caller.Principal, limit, moreCalls),
			Notes:   []string{fmt.Sprintf("The call that waits is of %s. `palyra sessions show %s` tells what the session did; `palyra sessions end %s` starts its count, and everything else that is counted, anew.", a.proposal.Tool.Name, id, id)},
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

// EndSession ends a session: its caller's next call begins another, in which
// nothing is counted yet. Calls under way end in the one that they are counted
// in.
func (p *Pipeline) EndSession(ctx context.Context, e session.Ending) error {
	payload, err := canonical.Marshal(record.SessionEnded{
		Session: e.ID, Principal: e.Key.Principal.String(), DeviceID: e.Key.Device, Client: e.Key.Client, EndedBy: e.By.String(), Reason: e.Reason,
	})
	if err != nil {
		return err
	}
	draft := event.Draft{Code: event.SessionEnded, Actor: e.By.String(), Subject: e.ID, Payload: payload}
	if err := p.Ledger.EndSession(ctx, e, draft); err != nil {
		return unwritten(err)
	}
	p.sessions.Ended(e.Key, e.ID)
	return nil
}

// pastSessions folds what sessions did out of the ledger.
type pastSessions struct{ Ledger }

// NewestSession implements session.Store.
func (s pastSessions) NewestSession(ctx context.Context, k session.Key) (session.Past, bool, error) {
	var facts record.Facts
	past, found, err := s.Ledger.NewestSession(ctx, k, facts.Add)
	past.Did = facts.Did(past.StartedAt)
	return past, found, err
}

// Sessions lists sessions, newest first, without what policy reads of them.
func (p *Pipeline) Sessions(ctx context.Context, f session.Filter) ([]session.Past, string, error) {
	list, next, err := p.Ledger.Sessions(ctx, f)
	for i := range list {
		p.bringUp(&list[i])
	}
	return list, next, err
}

// Session returns one session with all that is counted of it.
func (p *Pipeline) Session(ctx context.Context, id string) (session.Past, error) {
	var facts record.Facts
	past, found, err := p.Ledger.Session(ctx, id, facts.Add)
	past.Did = facts.Did(past.StartedAt)
	if err == nil && !found {
		err = NoSession(id)
	}
	p.bringUp(&past)
	return past, err
}

// NoSession is the error for a session that does not exist, and in the same words
// for one that the caller may not see.
func NoSession(id string) error {
	return reason.Errorf(reason.NotFound, "there is no session %s", id).WithRemedy("`palyra sessions list` shows them.")
}

// bringUp replaces the stored facts of a session by those in memory, if it is there:
// they count calls that are under way.
func (p *Pipeline) bringUp(past *session.Past) {
	if did, live := p.sessions.Did(past.Key, past.ID); live {
		past.Did = did
	}
}

// SessionGoesOn reports whether the session has not ended, so that the next call of
// its caller belongs to it.
func (p *Pipeline) SessionGoesOn(past session.Past) bool {
	return past.EndedAt.IsZero() && (past.Facts.InFlight > 0 || time.Since(past.LastAt) <= p.sessions.Idle())
}
