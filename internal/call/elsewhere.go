package call

import (
	"context"

	"palyra/internal/call/approval"
	"palyra/internal/call/policy"
	"palyra/internal/core/event"
	"palyra/internal/core/reason"
)

// Elsewhere is a decision on a call that another gateway would run. It is valid for one call:
// the approval or the grant use that permits it is consumed, as for a call that runs here. Its
// facts state that no sandbox of this gateway confines it. Approvals and grants for local calls
// do not apply to it, and its approvals and grants do not apply to local calls.
type Elsewhere struct {
	Evaluation
	Allowed bool
	// ApprovalID and GrantID name the consumed answer; both are "" if policy alone allows.
	ApprovalID, GrantID string
	// Lost is the reason why an existing approval is not valid anymore, otherwise nil.
	Lost *reason.Error
}

// Note drafts the event of a decision, which is durable before the decision is returned.
type Note func(Elsewhere) (event.Draft, error)

// MayElsewhere decides about a call that another gateway would run. It does not propose the
// call, request an approval or run a tool. note is journaled in the transaction that consumes
// the answer. answer is the result of AskElsewhere for the identical call, or the zero value. A
// call that takes a secret of the vault is always denied, because secrets do not leave this
// gateway.
func (d *DryRuns) MayElsewhere(ctx context.Context, s Submission, answer approval.Answer, note Note) (Elsewhere, error) {
	w, err := d.weighElsewhere(ctx, s)
	if err != nil {
		return Elsewhere{}, err
	}
	out := Elsewhere{Evaluation: w.Evaluation}
	if w.verdict.Effect() == policy.Deny || w.keptHere() != nil {
		return out, d.noteElsewhere(ctx, out, note)
	}
	switch {
	case w.verdict.Effect() == policy.Allow && w.verdict.GrantID() == "":
		out.Allowed = true
		return out, d.noteElsewhere(ctx, out, note)
	case w.verdict.Effect() == policy.Allow:
		ask, err := w.ask()
		if err != nil {
			return Elsewhere{}, err
		}
		if answer, err = d.Grants.Answer(ctx, w.verdict.GrantID(), *ask); err != nil {
			return Elsewhere{}, err
		}
	case !answer.Allowed() || answer.CallDigest() != w.digest || !w.enough(w.request, answer):
		return out, d.noteElsewhere(ctx, out, note)
	}
	out.Allowed, out.ApprovalID, out.GrantID = true, answer.ApprovalID(), answer.GrantID()
	draft, err := note(out)
	if err != nil {
		return Elsewhere{}, err
	}
	err = d.Approver.Consume(context.WithoutCancel(ctx), answer, draft)
	if taken := answerLost(err); taken != nil {
		out = Elsewhere{Evaluation: w.Evaluation, Lost: taken}
		return out, d.noteElsewhere(ctx, out, note)
	}
	if err != nil {
		return Elsewhere{}, unwritten(err)
	}
	return out, nil
}

// weighElsewhere evaluates a call that another gateway would run, and journals the files that
// planning read.
func (d *DryRuns) weighElsewhere(ctx context.Context, s Submission) (weighed, error) {
	q, w, err := d.weigh(ctx, s, true)
	if q != nil {
		q.look(s.Asker.Principal)
	}
	return w, err
}

// noteElsewhere journals a decision that consumes no answer.
func (d *DryRuns) noteElsewhere(ctx context.Context, out Elsewhere, note Note) error {
	draft, err := note(out)
	if err != nil {
		return err
	}
	_, err = d.Ledger.Record(context.WithoutCancel(ctx), Entry{Drafts: []event.Draft{draft}})
	return unwritten(err)
}

// AskElsewhere requests an approval for a call that another gateway would run, and waits for
// the answer. It uses the same desk as other calls. notice is an additional notice for the
// approvers. The answer is held for MayElsewhere under the same rules and lifetime as the
// answer of a waiting call.
func (d *DryRuns) AskElsewhere(ctx context.Context, s Submission, notice string, observe func(*approval.Record)) (approval.Answer, error) {
	w, err := d.weighElsewhere(ctx, s)
	if err != nil {
		return approval.Answer{}, err
	}
	if err := w.keptHere(); err != nil {
		return approval.Answer{}, err
	}
	if w.verdict.Effect() != policy.Ask {
		return approval.Answer{}, reason.Errorf(reason.PolicyDenied, "policy requires no approval for the call")
	}
	ask, err := w.ask()
	if err != nil {
		return approval.Answer{}, err
	}
	if ask.Resolved, err = w.resolved(ctx); err != nil {
		return approval.Answer{}, err
	}
	ask.Prompt.Notes = append(ask.Prompt.Notes, notice)
	ask.Covers = nil // grants are looked up when the call is decided
	answer, err := d.Approver.Resolve(ctx, ask, observe)
	if err == nil {
		// The answer is consumed by MayElsewhere, or by a call of the same kind here.
		d.Approver.Release(answer)
	}
	return answer, err
}

// keptHere returns the reason why a call may not run on another gateway, or not now.
func (q *question) keptHere() error {
	switch {
	case len(q.plan.Injections) > 0:
		return reason.Errorf(reason.PolicyDenied, "the call uses a secret of this gateway, which must not be sent to another gateway")
	case q.Dispatcher.Frozen():
		return reason.Errorf(reason.GatewayFrozen, "an operator froze the gateway")
	}
	return nil
}
