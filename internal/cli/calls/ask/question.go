// Package ask is what the commands about calls share: one call as it is typed and read (its
// input as JSON or key=value, its result as text, the policies that decided it, the
// connections that it made), and an approval as a person at the terminal sees and answers it.
package ask

import (
	"context"
	"errors"
	"fmt"
	"io"
	"sync/atomic"
	"time"

	palyrav1 "palyra/gen/palyra/v1"
	"palyra/internal/cli/client"
	"palyra/internal/cli/printer"
	"palyra/internal/core/reason"
	"palyra/internal/identity"
)

// Question is an approval that is put to the person at the terminal while the
// call waits for whoever answers first.
type Question struct {
	a     *client.App
	g     *client.Gateway
	about *palyrav1.Approval
	cast  Cast

	cancel context.CancelFunc
	done   chan struct{}
	// asking is true while the line of the answer is begun.
	asking atomic.Bool
}

// Cast sends a vote and returns the approval after it.
type Cast func(context.Context, *palyrav1.DecideApprovalRequest) (*palyrav1.Approval, error)

// Unary casts votes by calls of their own.
func Unary(g *client.Gateway) Cast {
	return func(ctx context.Context, vote *palyrav1.DecideApprovalRequest) (*palyrav1.Approval, error) {
		reply, err := g.Approvals.DecideApproval(ctx, vote)
		return reply.GetApproval(), err
	}
}

// New is one about an approval; put asks it. Where policy wants a proof of presence and
// this device can give one, a yes takes it.
func New(a *client.App, g *client.Gateway, about *palyrav1.Approval, cast Cast) *Question {
	return &Question{a: a, g: g, about: about, cast: func(ctx context.Context, vote *palyrav1.DecideApprovalRequest) (*palyrav1.Approval, error) {
		if about.GetPresenceWanted() && vote.GetAllow() && HasPresence(a) {
			if err := Prove(ctx, a, g, vote); err != nil {
				return nil, err
			}
		}
		return cast(ctx, vote)
	}}
}

// Prove adds a proof that the person at the terminal is there to a vote.
func Prove(ctx context.Context, a *client.App, g *client.Gateway, vote *palyrav1.DecideApprovalRequest) error {
	prover, err := a.Prover(g)
	if err != nil {
		return err
	}
	return prover.Vote(ctx, vote)
}

// HasPresence reports whether the credential in use has a presence key.
func HasPresence(a *client.App) bool {
	dir, err := a.BundleInUse()
	if err != nil {
		return false
	}
	kept, err := identity.PresenceKept(dir)
	return err == nil && kept != nil
}

// ApprovalID is the id of what is asked about.
func (q *Question) ApprovalID() string { return q.about.GetApprovalId() }

// Done is closed once a vote was taken, or the approval is left to others.
func (q *Question) Done() <-chan struct{} { return q.done }

// Put shows the approval in brief and asks in the background; Close ends it.
func (q *Question) Put(ctx context.Context) {
	ctx, q.cancel = context.WithCancel(ctx)
	q.done = make(chan struct{})
	_, _ = q.a.Err.Write([]byte(Brief(q.a, q.about)))
	go func() {
		defer close(q.done)
		q.answer(ctx)
	}()
}

// Close ends the asking and waits for its end.
func (q *Question) Close() {
	if q.asking.Load() {
		fmt.Fprintln(q.a.Err)
	}
	q.cancel()
	<-q.done
}

// answer asks until a vote was taken, or the person leaves the approval
// pending for others.
func (q *Question) answer(ctx context.Context) {
	a, v := q.a, q.about
	for ctx.Err() == nil {
		q.asking.Store(true)
		vote, err := ReadVote(ctx, a, v)
		q.asking.Store(false)
		switch {
		case ctx.Err() != nil:
			return
		case errors.Is(err, io.EOF), err == nil && vote.Leave:
			a.Say("left pending")
			SayHowToAnswer(ctx, a, q.g, v)
			return
		case err != nil:
			a.Say("%v", err)
			return
		}
		after, err := q.cast(ctx, vote.Request(v.GetApprovalId(), v.GetCallDigest()))
		if ctx.Err() != nil {
			return
		}
		if err == nil {
			if after.GetState() == palyrav1.ApprovalState_APPROVAL_STATE_PENDING {
				a.Say("your vote counts; still missing: %s", after.GetMissing())
				SayPresence(a, after, &palyrav1.DecideApprovalRequest{Allow: true})
			}
			return
		}
		e := client.Explain(nil, err)
		a.PrintError(e)
		switch e.Code {
		case reason.InvalidInput, reason.PresenceNotProven: // another answer may be taken
		case reason.PermissionDenied, reason.NotConnected:
			SayHowToAnswer(ctx, a, q.g, v) // this way, no answer of this person is taken
			return
		default:
			return
		}
	}
}

// Answerer is the person at the terminal if it makes sense to ask them: they
// answer approvals, and this one is not about a call of their own that another
// user has to answer.
func Answerer(ctx context.Context, a *client.App, g *client.Gateway, v *palyrav1.Approval) (principal string, ok bool) {
	if !a.Interactive() {
		return "", false
	}
	caller, err := callerOf(ctx, a, g)
	if err != nil || !mayDecide(caller) {
		return "", false
	}
	principal = caller.GetPrincipal()
	if !asksFor(v, principal) || !severalDecide(ctx, g) {
		return principal, true
	}
	a.Say("another user has to answer: nobody answers for a call of their own")
	return "", false
}

// callerTries is how often the gateway is asked who the caller is. A connection
// that breaks right after a question came takes this request with it.
const callerTries = 4

func callerOf(ctx context.Context, a *client.App, g *client.Gateway) (*palyrav1.Identity, error) {
	for try := 1; ; try++ {
		status, err := g.Status.GetStatus(ctx, &palyrav1.GetStatusRequest{})
		if err == nil || try == callerTries {
			return status.GetCaller(), err
		}
		select {
		case <-ctx.Done():
			return nil, ctx.Err()
		case <-time.After(a.Retry):
		}
	}
}

// othersAnswer reports whether the gateway would refuse an answer of this caller. What the
// gateway does not say is left to it.
func othersAnswer(ctx context.Context, g *client.Gateway, v *palyrav1.Approval) bool {
	reply, err := g.Approvals.GetApproval(ctx, &palyrav1.GetApprovalRequest{ApprovalId: v.GetApprovalId()})
	if err != nil {
		return client.Explain(nil, err).Code == reason.PermissionDenied
	}
	you := reply.GetApproval().GetYou()
	return you != nil && !you.GetMayDecide()
}

// SayPresence says after a yes without a proof of presence that policy wants one, and
// how it is given.
func SayPresence(a *client.App, after *palyrav1.Approval, vote *palyrav1.DecideApprovalRequest) {
	if !after.GetPresenceWanted() || !vote.GetAllow() || vote.GetPresence() != nil {
		return
	}
	a.Say("policy wants whoever says yes to prove that they are there; say yes again with it:")
	a.Say("  palyra approve %s --present --digest %s", after.GetApprovalId(), after.GetCallDigest())
	if !HasPresence(a) {
		a.Say("  this device has no presence key yet; first: palyra key presence --passphrase")
	}
}

// SayHowToAnswer names the commands that answer an approval. It says so where they are for
// others: an agent that ran them would be refused.
func SayHowToAnswer(ctx context.Context, a *client.App, g *client.Gateway, v *palyrav1.Approval) {
	a.Say("waiting for approval %s (%s): %s", v.GetApprovalId(), a.Relative(v.GetExpiresAt()), printer.VisibleLine(ApprovalSummary(v)))
	if othersAnswer(ctx, g, v) {
		a.Say("  you cannot answer it: a person who may decide it runs one of these commands")
	}
	a.Say("  see it:  palyra approvals show %s", v.GetApprovalId())
	a.Say("  allow:   %s", Vote{Allow: true, Scope: palyrav1.ApprovalScope_APPROVAL_SCOPE_ONCE}.Command(v))
	a.Say("  deny:    %s", Vote{Reason: "TEXT"}.Command(v))
}
