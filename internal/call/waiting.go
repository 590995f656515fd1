package call

import (
	"context"

	"palyra/internal/call/policy"
	"palyra/internal/call/record"
	"palyra/internal/core/event"
	"palyra/internal/core/reason"
	"palyra/internal/core/tool"
)

// waiting is the shared state of calls that wait on one approval. Pipeline.mu guards it.
type waiting struct {
	// of is the call that waited first, as submitted for approval.
	of authorization
	// plan plans in the context of that call.
	plan func(tool.Proposal) (tool.Plan, error)
	// edits maps call digests to the edited versions of the call.
	edits map[string]*editedCall
	calls int
}

// editedCall is an edited version of a waiting call.
type editedCall struct {
	input   []byte
	plan    tool.Plan
	request policy.Request
	event   record.Edited
	changes []tool.Difference
}

// waits registers the call under the approval that it waits on. The returned function removes
// it.
func (a *authorization) waits(ctx context.Context, id string) func() {
	if a.ran != nil {
		return func() {}
	}
	ctx = context.WithoutCancel(ctx)
	p := a.Pipeline
	p.mu.Lock()
	defer p.mu.Unlock()
	w := p.waiting[id]
	if w == nil {
		w = &waiting{of: *a, edits: make(map[string]*editedCall), plan: func(proposal tool.Proposal) (tool.Plan, error) {
			return p.Dispatcher.Plan(ctx, proposal)
		}}
		w.of.pending, w.of.observe = Entry{}, func(Event) {}
		p.waiting[id] = w
	}
	w.calls++
	return func() {
		p.mu.Lock()
		defer p.mu.Unlock()
		if w.calls--; w.calls == 0 {
			delete(p.waiting, id)
		}
	}
}

func (p *Pipeline) waitingOn(id string) *waiting {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.waiting[id]
}

// adopt replaces the call by the edited version that was approved. It fails if the approved
// version is not an edit of this call.
func (a *authorization) adopt(ctx context.Context, w *waiting) error {
	amended := a.answer.Amended()
	if amended == nil || a.answer.CallDigest() == a.digest {
		return nil
	}
	a.mu.Lock()
	edited := w.edits[a.answer.CallDigest()]
	a.mu.Unlock()
	if edited == nil || string(edited.input) != string(amended.Input) {
		return reason.Errorf(reason.BindingMismatch, "the approved call is not an edited version of this call")
	}
	a.proposal.Input, a.plan, a.digest = edited.input, edited.plan, a.answer.CallDigest()
	a.request.Args, a.request.Facts = edited.request.Args, edited.request.Facts
	a.request.Capabilities, a.request.Editors = edited.request.Capabilities, edited.request.Editors
	a.argumentsDigest = edited.event.ArgumentsDigest
	a.edited, a.edits = amended.EditOf(a.answer.ApprovalID(), edited.changes), amended.Edits
	if own := edited.event; own.ProposalID != a.proposal.ID {
		own.ProposalID = a.proposal.ID
		if err := a.draft(event.Edited, own); err != nil {
			return err
		}
	}
	return a.evaluate(ctx)
}
