package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"sync/atomic"

	palyrav1 "palyra/gen/palyra/v1"
	"palyra/internal/reason"
)

// question is an approval that is put to the person at the terminal while the
// call waits for whoever answers first.
type question struct {
	a     *app
	about *palyrav1.Approval
	// cast sends a vote and returns the approval after it.
	cast func(context.Context, *palyrav1.DecideApprovalRequest) (*palyrav1.Approval, error)

	cancel context.CancelFunc
	done   chan struct{}
	// asking is true while the line of the answer is begun.
	asking atomic.Bool
}

// put shows the approval in full and asks in the background; close ends it.
func (q *question) put(ctx context.Context) {
	ctx, q.cancel = context.WithCancel(ctx)
	q.done = make(chan struct{})
	q.a.showPrompt(q.about)
	go func() {
		defer close(q.done)
		q.answer(ctx)
	}()
}

func (q *question) close() {
	if q.asking.Load() {
		fmt.Fprintln(q.a.err)
	}
	q.cancel()
	<-q.done
}

// answer asks until a vote was taken, or the person leaves the approval
// pending for others.
func (q *question) answer(ctx context.Context) {
	a, v := q.a, q.about
	for ctx.Err() == nil {
		q.asking.Store(true)
		vote, err := a.askVote(ctx, v)
		q.asking.Store(false)
		switch {
		case ctx.Err() != nil:
			return
		case errors.Is(err, io.EOF), err == nil && vote.leave:
			a.say("left pending")
			a.sayHowToAnswer(v)
			return
		case err != nil:
			a.say("%v", err)
			return
		}
		after, err := q.cast(ctx, vote.request(v.GetApprovalId(), v.GetCallDigest()))
		if ctx.Err() != nil {
			return
		}
		if err == nil {
			if after.GetState() == palyrav1.ApprovalState_APPROVAL_STATE_PENDING {
				a.say("your vote counts; still missing: %s", after.GetMissing())
			}
			return
		}
		e := explain(nil, err)
		a.printError(e)
		switch e.Code {
		case reason.InvalidInput: // another answer may be taken
		case reason.PermissionDenied, reason.NotConnected:
			a.sayHowToAnswer(v) // this way, no answer of this person is taken
			return
		default:
			return
		}
	}
}

// answerer is the person at the terminal if it makes sense to ask them: they
// answer approvals, and this one is not about a call of their own that another
// user has to answer.
func (a *app) answerer(ctx context.Context, g *gateway, v *palyrav1.Approval) (principal string, ok bool) {
	if !a.interactive() {
		return "", false
	}
	status, err := g.status.GetStatus(ctx, &palyrav1.GetStatusRequest{})
	if err != nil || !mayDecide(status.GetCaller()) {
		return "", false
	}
	principal = status.GetCaller().GetPrincipal()
	if !asksFor(v, principal) || !g.severalUsers(ctx) {
		return principal, true
	}
	a.say("another user has to answer: nobody answers for a call of their own")
	return "", false
}

func (a *app) sayHowToAnswer(v *palyrav1.Approval) {
	a.say("waiting for approval %s (%s): %s", v.GetApprovalId(), a.relative(v.GetExpiresAt()), v.GetPrompt().GetTitle())
	a.say("  see it:  palyra approvals show %s", v.GetApprovalId())
	a.say("  allow:   palyra approvals decide %s --allow once --digest %s", v.GetApprovalId(), v.GetCallDigest())
	a.say("  deny:    palyra approvals decide %s --deny --reason TEXT --digest %s", v.GetApprovalId(), v.GetCallDigest())
}

// decideUnary casts a vote by a call of its own.
func (g *gateway) decideUnary(ctx context.Context, vote *palyrav1.DecideApprovalRequest) (*palyrav1.Approval, error) {
	reply, err := g.approvals.DecideApproval(ctx, vote)
	return reply.GetApproval(), err
}
