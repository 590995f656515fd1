package call

import (
	"context"
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
	rec, err := p.Editor.MayEdit(ctx, caller, c.ApprovalID, c.Version, c.ShownDigest)
	if err != nil {
		return approval.Record{}, err
	}
	w := p.waiting.on(c.ApprovalID)
	switch {
	case w == nil:
		return approval.Record{}, reason.Errorf(reason.InvalidInput, "editing the call of approval %s: no call waits on this approval any more", c.ApprovalID)
	case w.of.sub.NoEdit != "":
		return approval.Record{}, reason.Errorf(reason.InvalidInput, "editing the call: %s", w.of.sub.NoEdit).
			WithRemedy("Deny the approval, and state in the reason which call to make instead.")
	}
	e, edited, err := w.change(ctx, caller, rec, c.Input)
	if err != nil {
		return approval.Record{}, err
	}
	ask, err := e.editedAsk(ctx, rec, edited.changes)
	if err != nil {
		return approval.Record{}, err
	}
	// The blobs that the events name by digest are stored first.
	if len(e.drafts.Blobs) > 0 {
		if _, err := p.Ledger.Record(context.WithoutCancel(ctx), Entry{Blobs: e.drafts.Blobs}); err != nil {
			return approval.Record{}, unwritten(err)
		}
	}
	p.waiting.edit(w, e.digest, edited)
	return p.Editor.Edit(ctx, caller, c.ApprovalID, approval.Amendment{
		Version: c.Version, ShownDigest: c.ShownDigest, Reason: c.Reason, Ask: ask, Extra: e.drafts.Drafts,
	})
}

// edit adds an edited version of the waiting call.
func (w *waitingCalls) edit(on *waiting, digest string, e *editedCall) {
	w.mu.Lock()
	defer w.mu.Unlock()
	on.edits[digest] = e
}

// change plans and judges the call with other arguments and drafts the event of the edit.
func (w *waiting) change(ctx context.Context, caller access.Caller, rec approval.Record, input []byte) (*evaluated, *editedCall, error) {
	own := *w.of.scope
	own.drafts, own.observe = &drafts{ledger: own.Ledger, of: w.of.drafts.of}, func(Event) {}
	q := *w.of
	q.scope = &own
	was := q.proposal.Input
	if rec.Input != nil {
		was = rec.Input
	}
	var err error
	if q.proposal.Input, err = q.editedInput(was, input); err != nil {
		return nil, nil, err
	}
	var conflict *tool.RestrictedError
	if q.plan, err = w.plan(q.proposal); errors.As(err, &conflict) {
		q.plan, err = conflict.Plan, nil
	}
	if err != nil {
		return nil, nil, err
	}
	if q.digest, err = q.plan.Binding.Digest(); err != nil {
		return nil, nil, err
	}
	if q.request, err = q.editedRequest(caller, rec); err != nil {
		return nil, nil, err
	}
	e, err := q.judgeEdit(ctx, caller)
	if err != nil {
		q.look(caller.Principal)
		return nil, nil, err
	}
	if conflict != nil { // after the verdict, so that a denial does not depend on the content
		q.look(caller.Principal)
		return nil, nil, tool.Disclose(conflict, func(files []tool.FileAccess) bool { return q.mayDiscloseTo(caller, files) })
	}
	edited := &editedCall{input: q.proposal.Input, plan: q.plan, request: q.request}
	if edited.changes, err = tool.ArgumentChanges(w.of.proposal.Input, q.proposal.Input, q.proposal.Tool.SecretPaths); err != nil {
		return nil, nil, err
	}
	edited.event, err = e.editedEvent(caller, rec)
	return &e, edited, err
}

// editedRequest returns the policy request of the record for the edited call. The caller, who
// edits it, becomes the last of its editors.
func (q *question) editedRequest(caller access.Caller, rec approval.Record) (policy.Request, error) {
	var r policy.Request // a new value: decoding reuses existing byte slices
	if err := json.Unmarshal(rec.Request, &r); err != nil {
		return r, fmt.Errorf("reading the request of approval %s: %w", rec.ID, err)
	}
	r.Args, r.Facts = q.proposal.Input, q.plan.Facts
	r.Capabilities = capabilities(&q.proposal.Tool, &q.plan.Facts)
	r.Editors = append(slices.DeleteFunc(r.Editors, func(e access.Caller) bool { return e.Principal == caller.Principal }), caller)
	return r, nil
}

// editedInput merges the editor's arguments with the stored ones and returns them in the form
// that the tool takes.
func (q *question) editedInput(was, input []byte) (json.RawMessage, error) {
	text, err := canonical.JSON(input)
	if err != nil {
		return nil, reason.Errorf(reason.InvalidInput, "parsing the edited arguments: %w", err)
	}
	kept, refused, err := tool.Keep(was, text, q.proposal.Tool.SecretPaths, secret.Marked)
	if err != nil {
		return nil, reason.Errorf(reason.InvalidInput, "%w", err)
	}
	if len(refused) > 0 {
		return nil, reason.Errorf(reason.InvalidInput, "an edit must not add, change or replace secrets: %s", refused[0]).
			WithRemedy("Keep redacted values and placeholders as displayed, or remove the member.").WithField("pointer", refused[0])
	}
	_, checked, err := q.Dispatcher.Check(q.proposal.Tool.Name, kept)
	return checked, err
}

// judgeEdit evaluates the edited call: once for all requesters and, after a denial, for the
// editor alone, to name the editor in the error.
func (q *question) judgeEdit(ctx context.Context, caller access.Caller) (evaluated, error) {
	verdict, err := q.Evaluator.Evaluate(ctx, q.request, nil)
	if err != nil {
		return evaluated{}, reason.Errorf(reason.PolicyError, "policy could not be evaluated: %w", err)
	}
	if verdict.Effect() != policy.Deny {
		return evaluated{q, verdict}, nil
	}
	requester := "its requester"
	own := q.request
	own.Caller, own.Editors = caller, nil
	if alone, err := q.Evaluator.Evaluate(ctx, own, nil); err == nil && alone.Effect() == policy.Deny {
		requester = caller.Principal.String()
	}
	return evaluated{}, reason.Errorf(verdict.Reason(), "policy does not allow %s to make the edited call", requester).WithRemedy("%s", verdict.Remedy())
}

// editedEvent drafts the event of the edit and of its verdict.
func (e *evaluated) editedEvent(caller access.Caller, rec approval.Record) (record.Edited, error) {
	stored, err := e.drafts.storeArguments(&e.proposal)
	if err != nil {
		return record.Edited{}, err
	}
	payload := record.Edited{
		ProposalID: e.proposal.ID, ApprovalID: rec.ID, By: caller.Principal.String(), WasDigest: rec.CallDigest, CallDigest: e.digest,
		StoredArguments: stored,
	}
	if err := e.drafts.draft(event.Edited, payload); err != nil {
		return payload, err
	}
	return payload, e.draftVerdict()
}

// editedAsk builds the approval request of the edited call.
func (e *evaluated) editedAsk(ctx context.Context, rec approval.Record, changes []tool.Difference) (*approval.Ask, error) {
	ask, err := e.ask()
	if err != nil {
		return nil, err
	}
	if ask.Severity == "" { // policy requires no approval for the edited call
		ask.Severity = rec.Severity
	}
	ask.Changed = changes
	ask.Resolved, err = e.resolved(ctx)
	return ask, err
}
