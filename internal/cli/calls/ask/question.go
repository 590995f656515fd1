// Package ask has the shared parts of the commands for calls. It reads input as JSON or
// key=value, and prints results, determining policies and connections. It also displays and
// answers an approval in a terminal.
//
// Prompts are plain lines over a cancellable reader instead of huh forms. A prompt is withdrawn
// when the approval is answered elsewhere, ignores keys typed before it was displayed, and
// shows arguments of any length.
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

// Question asks the user at the terminal for an answer to an approval while the call waits for the
// first answer.
type Question struct {
	a     *client.App
	g     *client.Gateway
	about *palyrav1.Approval
	cast  Cast

	cancel context.CancelFunc
	done   chan struct{}
	// asking is true while the input line is incomplete.
	asking atomic.Bool
}

// Cast sends a vote and returns the resulting approval.
type Cast func(context.Context, *palyrav1.DecideApprovalRequest) (*palyrav1.Approval, error)

// Unary casts votes by separate requests.
func Unary(g *client.Gateway) Cast {
	return func(ctx context.Context, vote *palyrav1.DecideApprovalRequest) (*palyrav1.Approval, error) {
		reply, err := g.Approvals.DecideApproval(ctx, vote)
		return reply.GetApproval(), err
	}
}

// New returns a question about an approval; Put asks it. If policy requires a proof of presence and
// this device can give one, an approval includes it.
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

// Prove adds a proof of presence to a vote.
func Prove(ctx context.Context, a *client.App, g *client.Gateway, vote *palyrav1.DecideApprovalRequest) error {
	prover, err := a.Prover(g)
	if err != nil {
		return err
	}
	return prover.Vote(ctx, vote)
}

// HasPresence reports whether the current credential has a presence key.
func HasPresence(a *client.App) bool {
	dir, err := a.BundleInUse()
	if err != nil {
		return false
	}
	kept, err := identity.PresenceKept(dir)
	return err == nil && kept != nil
}

// ApprovalID returns the id of the approval.
func (q *Question) ApprovalID() string { return q.about.GetApprovalId() }

// Done is closed once a vote was accepted, or the approval is left pending.
func (q *Question) Done() <-chan struct{} { return q.done }

// Put displays the approval in brief and asks in the background; Close ends it.
func (q *Question) Put(ctx context.Context) {
	ctx, q.cancel = context.WithCancel(ctx)
	q.done = make(chan struct{})
	_, _ = q.a.Err.Write([]byte(Brief(q.a, q.about)))
	go func() {
		defer close(q.done)
		q.answer(ctx)
	}()
}

// Close stops the prompt and waits until it has ended.
func (q *Question) Close() {
	if q.asking.Load() {
		fmt.Fprintln(q.a.Err)
	}
	q.cancel()
	<-q.done
}

// answer asks until a vote was accepted, or the user leaves the approval pending.
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
				a.Say("your vote was recorded; still missing: %s", after.GetMissing())
				SayPresence(a, after, &palyrav1.DecideApprovalRequest{Allow: true})
			}
			return
		}
		e := client.Explain(nil, err)
		a.PrintError(e)
		switch e.Code {
		case reason.InvalidInput, reason.PresenceNotProven: // another answer may be accepted
		case reason.PermissionDenied, reason.NotConnected:
			SayHowToAnswer(ctx, a, q.g, v) // no answer of this user is accepted here
			return
		default:
			return
		}
	}
}

// Answerer returns the user at the terminal if the user may answer the approval. ok is false if
// the user may not answer approvals, or if another user must answer because the call is the
// user's own.
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
	a.Say("another user must answer: users cannot answer their own calls")
	return "", false
}

// callerTries is the maximum number of queries for the caller's identity. A retry covers a
// connection that breaks right after the approval arrived.
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

// othersAnswer reports whether the gateway would refuse an answer of this caller. If that is
// unknown, it returns false and the gateway decides.
func othersAnswer(ctx context.Context, g *client.Gateway, v *palyrav1.Approval) bool {
	reply, err := g.Approvals.GetApproval(ctx, &palyrav1.GetApprovalRequest{ApprovalId: v.GetApprovalId()})
	if err != nil {
		return client.Explain(nil, err).Code == reason.PermissionDenied
	}
	you := reply.GetApproval().GetYou()
	return you != nil && !you.GetMayDecide()
}

// SayPresence prints, after an approval without a proof of presence, that policy requires one and
// how to give it.
func SayPresence(a *client.App, after *palyrav1.Approval, vote *palyrav1.DecideApprovalRequest) {
	if !after.GetPresenceWanted() || !vote.GetAllow() || vote.GetPresence() != nil {
		return
	}
	a.Say("policy requires a proof of presence; approve again with:")
	a.Say("  palyra approve %s --present --digest %s", after.GetApprovalId(), after.GetCallDigest())
	if !HasPresence(a) {
		a.Say("  this device has no presence key yet; create one first: palyra key presence --passphrase")
	}
}

// SayHowToAnswer prints the commands that answer an approval. If the caller may not use them,
// it prints that instead, because the gateway would refuse an agent that runs them.
func SayHowToAnswer(ctx context.Context, a *client.App, g *client.Gateway, v *palyrav1.Approval) {
	a.Say("waiting for approval %s (%s): %s", v.GetApprovalId(), a.Relative(v.GetExpiresAt()), printer.VisibleLine(ApprovalSummary(v)))
	if othersAnswer(ctx, g, v) {
		a.Say("  you cannot answer it: ask a user who may decide it to run one of these commands")
	}
	a.Say("  show it: palyra approvals show %s", v.GetApprovalId())
	a.Say("  allow:   %s", Vote{Allow: true, Scope: palyrav1.ApprovalScope_APPROVAL_SCOPE_ONCE}.Command(v))
	a.Say("  deny:    %s", Vote{Reason: "TEXT"}.Command(v))
}
