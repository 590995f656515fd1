package call

import (
	"context"

	"palyra/internal/call/approval"
	"palyra/internal/call/policy"
	"palyra/internal/core/event"
	"palyra/internal/core/reason"
)

// Elsewhere says whether somebody may make a call that another gateway would run. It
// holds for one call: what lets it through, an approval or a use of a grant, is used up
// as by a call that runs here. Its facts state that no sandbox of this gateway holds it,
// and a yes or a grant for a call here is none for it, nor the other way around.
type Elsewhere struct {
	Evaluation
	Allowed bool
	// ApprovalID and GrantID are what was used up; "" where policy alone allows.
	ApprovalID, GrantID string
	// Lost is why an approval that was there is not good any more, nil for others.
	Lost *reason.Error
}

// Note makes the event of an answer, which is durable before the answer is given.
type Note func(Elsewhere) (event.Draft, error)

// MayElsewhere decides about a call that another gateway would run. Nothing is
// proposed, nobody is asked and nothing runs; note is journaled, in the unit that uses
// up what lets the call through. An answer is that of AskElsewhere to the very same
// call, or the zero value. A call that takes a secret of the vault is never allowed:
// secrets stay here.
func (p *Pipeline) MayElsewhere(ctx context.Context, s Submission, answer approval.Answer, note Note) (Elsewhere, error) {
	c, evaluation, err := p.weighElsewhere(ctx, s)
	if err != nil {
		return Elsewhere{}, err
	}
	out := Elsewhere{Evaluation: evaluation}
	if c.verdict.Effect() == policy.Deny || c.keptHere() != nil {
		return out, p.noteElsewhere(ctx, out, note)
	}
	c.answer = answer
	switch {
	case c.verdict.Effect() == policy.Allow && c.verdict.GrantID() == "":
		out.Allowed = true
		return out, p.noteElsewhere(ctx, out, note)
	case c.verdict.Effect() == policy.Allow:
		ask, err := c.ask()
		if err != nil {
			return Elsewhere{}, err
		}
		if c.answer, err = p.Approver.GrantAnswer(ctx, c.verdict.GrantID(), *ask); err != nil {
			return Elsewhere{}, err
		}
	case !answer.Allowed() || answer.CallDigest() != c.digest || !c.enough(c.request):
		return out, p.noteElsewhere(ctx, out, note)
	}
	out.Allowed, out.ApprovalID, out.GrantID = true, c.answer.ApprovalID(), c.answer.GrantID()
	draft, err := note(out)
	if err != nil {
		return Elsewhere{}, err
	}
	err = p.Approver.Consume(context.WithoutCancel(ctx), c.answer, draft)
	if taken := answerLost(err); taken != nil {
		out = Elsewhere{Evaluation: evaluation, Lost: taken}
		return out, p.noteElsewhere(ctx, out, note)
	}
	if err != nil {
		return Elsewhere{}, unwritten(err)
	}
	return out, nil
}

// weighElsewhere evaluates a call that another gateway would run, and has what planning it
// read journaled.
func (p *Pipeline) weighElsewhere(ctx context.Context, s Submission) (*call, Evaluation, error) {
	c, evaluation, err := p.weigh(ctx, s, true)
	if c != nil {
		c.look(s.Asker.Principal)
	}
	return c, evaluation, err
}

// noteElsewhere journals an answer that uses nothing up.
func (p *Pipeline) noteElsewhere(ctx context.Context, out Elsewhere, note Note) error {
	draft, err := note(out)
	if err != nil {
		return err
	}
	_, err = p.Ledger.Record(context.WithoutCancel(ctx), Entry{Drafts: []event.Draft{draft}})
	return unwritten(err)
}

// AskElsewhere asks people about a call that another gateway would run, at the desk
// where all calls are asked about, and waits for their answer. Told is what people are
// told beside the call. The answer is kept for MayElsewhere: it is as good as that of a
// call that waits, and for as long.
func (p *Pipeline) AskElsewhere(ctx context.Context, s Submission, told string, observe func(*approval.Record)) (approval.Answer, error) {
	c, _, err := p.weighElsewhere(ctx, s)
	if err != nil {
		return approval.Answer{}, err
	}
	if err := c.keptHere(); err != nil {
		return approval.Answer{}, err
	}
	if c.verdict.Effect() != policy.Ask {
		return approval.Answer{}, reason.Errorf(reason.PolicyDenied, "policy asks nobody about the call")
	}
	ask, err := c.ask()
	if err != nil {
		return approval.Answer{}, err
	}
	if ask.Resolved, err = c.resolved(ctx); err != nil {
		return approval.Answer{}, err
	}
	ask.Prompt.Notes = append(ask.Prompt.Notes, told)
	ask.Covers = nil // a grant is found when the call is decided
	answer, err := p.Approver.Resolve(ctx, ask, observe)
	if err == nil {
		// Whoever decides the call holds the answer; so may a call of the same kind here.
		p.Approver.Release(answer)
	}
	return answer, err
}

// keptHere is why a call runs nowhere else, or not now.
func (c *call) keptHere() error {
	switch {
	case len(c.plan.Injections) > 0:
		return reason.Errorf(reason.PolicyDenied, "the call takes a secret of this gateway, which stays here")
	case c.Dispatcher.Frozen():
		return reason.Errorf(reason.GatewayFrozen, "an operator froze the gateway")
	}
	return nil
}
