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

// Change is an edit of the call of a pending approval by a person who may answer it.
type Change struct {
	ApprovalID string
	// Version and ShownDigest identify the approval as displayed to the editor.
	Version     int64
	ShownDigest string
	// Input has all arguments of the call. Values that were displayed as redacted keep their
	// current value.
	Input  []byte
	Reason string
}

// Edit changes the arguments of a call that waits for an approval. The call is checked, planned
// and judged again, for its requester and for the editor, who becomes a requester too. An edit
// that policy would deny to either of them does not replace the call. An edit approves nothing.
// The evidence of both versions is durable when Edit returns.
func (p *Pipeline) Edit(ctx context.Context, caller access.Caller, c Change) (approval.Record, error) {
	rec, err := p.Approver.MayEdit(ctx, caller, c.ApprovalID, c.Version, c.ShownDigest)
	if err != nil {
		return approval.Record{}, err
	}
	w := p.waitingOn(c.ApprovalID)
	switch {
	case w == nil:
		return approval.Record{}, reason.Errorf(reason.InvalidInput, "editing the call of approval %s: no call waits on this approval any more", c.ApprovalID)
	case w.of.sub.NoEdit != "":
		return approval.Record{}, reason.Errorf(reason.InvalidInput, "editing the call: %s", w.of.sub.NoEdit).
			WithRemedy("Deny the approval, and state in the reason which call to make instead.")
	}
	a, edited, err := w.change(ctx, caller, rec, c.Input)
	if err != nil {
		return approval.Record{}, err
	}
	ask, err := a.editedAsk(ctx, rec, edited.changes)
	if err != nil {
		return approval.Record{}, err
	}
	// The blobs that the events name by digest are stored first.
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

// change plans and judges the call with other arguments and drafts the event of the edit.
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
	var request policy.Request // a new value: decoding reuses existing byte slices
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

// editedInput merges the editor's arguments with the stored ones and returns them in the form
// that the tool takes.
func (a *authorization) editedInput(was, input []byte) (json.RawMessage, error) {
	text, err := canonical.JSON(input)
	if err != nil {
		return nil, reason.Errorf(reason.InvalidInput, "parsing the edited arguments: %w", err)
	}
	kept, refused, err := tool.Keep(was, text, a.proposal.Tool.SecretPaths, secret.Marked)
	if err != nil {
		return nil, reason.Errorf(reason.InvalidInput, "%w", err)
	}
	if len(refused) > 0 {
		return nil, reason.Errorf(reason.InvalidInput, "an edit must not add, change or replace secrets: %s", refused[0]).
			WithRemedy("Keep redacted values and placeholders as displayed, or remove the member.").WithField("pointer", refused[0])
	}
	_, checked, err := a.Dispatcher.Check(a.proposal.Tool.Name, kept)
	return checked, err
}

// judgeEdit evaluates the edited call: once for all requesters and, after a denial, for the
// editor alone, to name the editor in the error.
func (a *authorization) judgeEdit(ctx context.Context, caller access.Caller) error {
	verdict, err := a.Evaluator.Evaluate(ctx, a.request, nil)
	if err != nil {
		return reason.Errorf(reason.PolicyError, "policy could not be evaluated: %w", err)
	}
	a.verdict = verdict
	if verdict.Effect() != policy.Deny {
		return nil
	}
	requester := "its requester"
	own := a.request
	own.Caller, own.Editors = caller, nil
	if alone, err := a.Evaluator.Evaluate(ctx, own, nil); err == nil && alone.Effect() == policy.Deny {
		requester = caller.Principal.String()
	}
	return reason.Errorf(verdict.Reason(), "policy does not allow %s to make the edited call", requester).WithRemedy("%s", verdict.Remedy())
}

// editedEvent drafts the event of the edit and of its verdict.
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

// editedAsk builds the approval request of the edited call.
func (a *authorization) editedAsk(ctx context.Context, rec approval.Record, changes []tool.Difference) (*approval.Ask, error) {
	ask, err := a.ask()
	if err != nil {
		return nil, err
	}
	if ask.Severity == "" { // policy requires no approval for the edited call
		ask.Severity = rec.Severity
	}
	ask.Changed = changes
	ask.Resolved, err = a.resolved(ctx)
	return ask, err
}
