package call

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"slices"

	"palyra/internal/call/approval"
	"palyra/internal/call/policy"
	"palyra/internal/call/record"
	"palyra/internal/core/access"
	"palyra/internal/core/canonical"
	"palyra/internal/core/event"
	"palyra/internal/core/reason"
	"palyra/internal/core/tool"
	"palyra/internal/egress/secret"
)

// Change is the call of a pending approval as somebody who may answer wants it.
type Change struct {
	ApprovalID string
	// Version and ShownDigest are of the approval that the editor was shown.
	Version     int64
	ShownDigest string
	// Input are all arguments of the call. What the editor was shown redacted stays
	// what it is.
	Input  []byte
	Reason string
}

// waiting is what calls that wait on one approval have in common. Pipeline.mu guards
// it.
type waiting struct {
	// of is the call that waited first, as it was when it was asked about.
	of authorization
	// plan plans in the context of that call.
	plan func(tool.Proposal) (tool.Plan, error)
	// edits are the calls that it was changed into, by call digest.
	edits map[string]*editedCall
	calls int
}

// editedCall is a call that somebody made of one that waits.
type editedCall struct {
	input   []byte
	plan    tool.Plan
	request policy.Request
	event   record.Edited
	changes []tool.Difference
}

// waits registers the call under the approval that it waits on; the function takes
// that back.
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

// Edit changes the arguments of a call that waits for people. The call is checked,
// planned and judged anew, for its requester and for the editor, who asks for it from
// then on as the requester does; what policy would deny either of them is not put in
// its place. Nothing is approved by it. The evidence of both calls is durable when it
// returns.
func (p *Pipeline) Edit(ctx context.Context, caller access.Caller, c Change) (approval.Record, error) {
	rec, err := p.Approver.MayEdit(ctx, caller, c.ApprovalID, c.Version, c.ShownDigest)
	if err != nil {
		return approval.Record{}, err
	}
	w := p.waitingOn(c.ApprovalID)
	switch {
	case w == nil:
		return approval.Record{}, reason.Errorf(reason.InvalidInput, "no call of this gateway waits on approval %s any more, so that none can be changed", c.ApprovalID)
	case w.of.sub.NoEdit != "":
		return approval.Record{}, reason.Errorf(reason.InvalidInput, "the call cannot be edited: %s", w.of.sub.NoEdit).
			WithRemedy("Deny it, and say in the reason what should be called instead.")
	}
	a, edited, err := w.change(ctx, caller, rec, c.Input)
	if err != nil {
		return approval.Record{}, err
	}
	ask, err := a.editedAsk(ctx, rec, edited.changes)
	if err != nil {
		return approval.Record{}, err
	}
	// What the events name by digest is there before them.
	if len(a.pending.Blobs) > 0 {
		if _, err := p.Ledger.Record(context.WithoutCancel(ctx), Entry{Blobs: a.pending.Blobs}); err != nil {
			return approval.Record{}, unwritten(err)
		}
	}
	p.mu.Lock()
	w.edits[a.digest] = edited
	p.mu.Unlock()
	return p.Approver.Edit(ctx, caller, c.ApprovalID, approval.Amendment{
		Version: c.Version, ShownDigest: c.ShownDigest, Reason: c.Reason, Ask: ask, Extra: a.pending.Drafts,
	})
}

// change makes the call of other arguments, judged, with what the journal says of it.
func (w *waiting) change(ctx context.Context, caller access.Caller, rec approval.Record, input []byte) (*authorization, *editedCall, error) {
	a := w.of
	proposed := a.proposal.Input
	was := proposed
	if rec.Input != nil {
		was = rec.Input
	}
	var err error
	if a.proposal.Input, err = a.editedInput(was, input); err != nil {
		return nil, nil, err
	}
	var conflict *tool.RestrictedError
	if a.plan, err = w.plan(a.proposal); errors.As(err, &conflict) {
		a.plan, err = conflict.Plan, nil
	}
	if err != nil {
		return nil, nil, err
	}
	if a.digest, err = a.plan.Binding.Digest(); err != nil {
		return nil, nil, err
	}
	var request policy.Request // a new one: what is read goes into the bytes that are there
	if err := json.Unmarshal(rec.Request, &request); err != nil {
		return nil, nil, fmt.Errorf("reading the request of approval %s: %w", rec.ID, err)
	}
	a.request = request
	a.request.Args, a.request.Facts = a.proposal.Input, a.plan.Facts
	a.request.Capabilities = capabilities(&a.proposal.Tool, &a.plan.Facts)
	a.request.Editors = append(slices.DeleteFunc(a.request.Editors, func(e access.Caller) bool { return e.Principal == caller.Principal }), caller)
	if err := a.judgeEdit(ctx, caller); err != nil {
		a.look(caller.Principal)
		return nil, nil, err
	}
	if conflict != nil { // after the verdict, so that a denial does not depend on the content
		a.look(caller.Principal)
		return nil, nil, tool.Disclose(conflict, func(files []tool.FileAccess) bool { return a.mayDiscloseTo(caller, files) })
	}
	edited := &editedCall{input: a.proposal.Input, plan: a.plan, request: a.request}
	if edited.changes, err = tool.ArgumentChanges(proposed, a.proposal.Input, a.proposal.Tool.SecretPaths); err != nil {
		return nil, nil, err
	}
	edited.event, err = a.editedEvent(caller, rec)
	return &a, edited, err
}

// editedInput are the arguments that an editor made of those that they were shown, as
// the tool takes them.
func (a *authorization) editedInput(was, input []byte) (json.RawMessage, error) {
	text, err := canonical.JSON(input)
	if err != nil {
		return nil, reason.Errorf(reason.InvalidInput, "the edited arguments are not JSON: %w", err)
	}
	kept, refused, err := tool.Keep(was, text, a.proposal.Tool.SecretPaths, secret.Marked)
	if err != nil {
		return nil, reason.Errorf(reason.InvalidInput, "%w", err)
	}
	if len(refused) > 0 {
		return nil, reason.Errorf(reason.InvalidInput, "an edit neither brings secrets nor takes their places: %s", refused[0]).
			WithRemedy("Leave redacted values and placeholders as they were shown, or leave the member away.").WithField("pointer", refused[0])
	}
	_, checked, err := a.Dispatcher.Check(a.proposal.Tool.Name, kept)
	return checked, err
}

// judgeEdit asks policy about the edited call: once for all who ask for it, and if that
// is a no, whether it is one to the editor.
func (a *authorization) judgeEdit(ctx context.Context, caller access.Caller) error {
	verdict, err := a.Evaluator.Evaluate(ctx, a.request, nil)
	if err != nil {
		return reason.Errorf(reason.PolicyError, "policy could not be evaluated: %w", err)
	}
	a.verdict = verdict
	if verdict.Effect() != policy.Deny {
		return nil
	}
	whom := "its requester"
	own := a.request
	own.Caller, own.Editors = caller, nil
	if alone, err := a.Evaluator.Evaluate(ctx, own, nil); err == nil && alone.Effect() == policy.Deny {
		whom = caller.Principal.String()
	}
	return reason.Errorf(verdict.Reason(), "policy does not let %s make the edited call", whom).WithRemedy("%s", verdict.Remedy())
}

// editedEvent drafts what the journal says of the edit, and of the verdict on it.
func (a *authorization) editedEvent(caller access.Caller, rec approval.Record) (record.Edited, error) {
	arguments, redactions, err := tool.Redact(a.proposal.Input, a.proposal.Tool.SecretPaths)
	if err != nil {
		return record.Edited{}, err
	}
	payload := record.Edited{
		ProposalID: a.proposal.ID, ApprovalID: rec.ID, By: caller.Principal.String(), WasDigest: rec.CallDigest, CallDigest: a.digest,
		ArgumentsDigest: canonical.Digest(a.proposal.Input), Redactions: redactions,
	}
	if len(redactions) > 0 {
		payload.ArgumentsSalt = rand.Text()
		payload.ArgumentsDigest = canonical.Digest(append([]byte(payload.ArgumentsSalt), a.proposal.Input...))
	}
	if len(arguments) > inlineArguments || takesContent(a.proposal.Tool) {
		payload.ArgumentsBlob = canonical.Digest(arguments)
		a.pending.Blobs = append(a.pending.Blobs, arguments)
	} else {
		payload.Arguments = arguments
	}
	if err := a.draft(event.Edited, payload); err != nil {
		return payload, err
	}
	return payload, a.draftEvaluated()
}

// editedAsk is what people are asked about the edited call.
func (a *authorization) editedAsk(ctx context.Context, rec approval.Record, changes []tool.Difference) (*approval.Ask, error) {
	ask, err := a.ask()
	if err != nil {
		return nil, err
	}
	if ask.Severity == "" { // policy would let it go on without anybody
		ask.Severity = rec.Severity
	}
	ask.Changed = changes
	ask.Resolved, err = a.resolved(ctx)
	return ask, err
}

// adopt makes the call the one that people said yes to: one that they edited. What they
// did not say yes to stops here.
func (a *authorization) adopt(ctx context.Context, w *waiting) error {
	amended := a.answer.Amended()
	if amended == nil || a.answer.CallDigest() == a.digest {
		return nil
	}
	a.mu.Lock()
	edited := w.edits[a.answer.CallDigest()]
	a.mu.Unlock()
	if edited == nil || string(edited.input) != string(amended.Input) {
		return reason.Errorf(reason.BindingMismatch, "the call that was approved is not one that this call was edited into")
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
