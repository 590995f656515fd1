package call

import (
	"context"
	"sync"

	"palyra/internal/call/policy"
	"palyra/internal/call/record"
	"palyra/internal/core/event"
	"palyra/internal/core/reason"
	"palyra/internal/core/tool"
)

// waitingCalls are the calls that wait on approvals and can be edited, by the id of the approval.
type waitingCalls struct {
	mu   sync.Mutex
	byID map[string]*waiting
}

// waiting is the shared state of calls that wait on one approval. waitingCalls.mu guards edits and
// calls.
type waiting struct {
	// of is the call that waited first, as submitted for approval. Its drafts and its observer
	// MUST NOT be used.
	of *question
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

// add registers the call under the approval that it waits on. The returned function removes it.
// Changes and secrets of a call cannot be edited and are not registered.
func (w *waitingCalls) add(ctx context.Context, id string, q *question) (leave func()) {
	if q.ofCall != nil {
		return func() {}
	}
	ctx = context.WithoutCancel(ctx)
	w.mu.Lock()
	defer w.mu.Unlock()
	one := w.byID[id]
	if one == nil {
		one = &waiting{of: q, edits: make(map[string]*editedCall), plan: func(proposal tool.Proposal) (tool.Plan, error) {
			return q.Dispatcher.Plan(ctx, proposal)
		}}
		w.byID[id] = one
	}
	one.calls++
	return func() {
		w.mu.Lock()
		defer w.mu.Unlock()
		if one.calls--; one.calls == 0 {
			delete(w.byID, id)
		}
	}
}

// on returns the calls that wait on an approval, or nil.
func (w *waitingCalls) on(id string) *waiting {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.byID[id]
}

// edited returns the edited version with a call digest, or nil.
func (w *waitingCalls) edited(on *waiting, digest string) *editedCall {
	w.mu.Lock()
	defer w.mu.Unlock()
	return on.edits[digest]
}

// adopt replaces the call by the edited version that was approved. It fails if the approved
// version is not an edit of this call.
func (s *settlement) adopt(ctx context.Context, on *waiting) error {
	amended, digest := s.answer.Amended(), s.answer.CallDigest()
	if amended == nil || digest == s.digest {
		return nil
	}
	edited := s.waiting.edited(on, digest)
	if edited == nil || string(edited.input) != string(amended.Input) {
		return reason.Errorf(reason.BindingMismatch, "the approved call is not an edited version of this call")
	}
	s.releaseSecrets() // their answers are bound to the digest of the call
	q := *s.question
	q.proposal.Input, q.plan, q.digest = edited.input, edited.plan, digest
	q.request.Args, q.request.Facts = edited.request.Args, edited.request.Facts
	q.request.Capabilities, q.request.Editors = edited.request.Capabilities, edited.request.Editors
	q.argumentsDigest = edited.event.ArgumentsDigest
	q.edited, q.edits = amended.EditOf(s.answer.ApprovalID(), edited.changes), amended.Edits
	if own := edited.event; own.ProposalID != q.proposal.ID {
		own.ProposalID = q.proposal.ID
		if err := q.drafts.draft(event.Edited, own); err != nil {
			return err
		}
	}
	return s.evaluate(ctx, &q)
}
