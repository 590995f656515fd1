package changesets

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"time"

	"github.com/oklog/ulid/v2"

	"palyra/internal/call"
	"palyra/internal/core/access"
	"palyra/internal/core/canonical"
	"palyra/internal/core/change"
	"palyra/internal/core/event"
	"palyra/internal/core/reason"
	"palyra/internal/core/tool"
	"palyra/internal/exec/program/commitgate"
	"palyra/internal/exec/workspace"
	"palyra/internal/exec/workspace/overlay"
)

// UndoTool is the tool that undoes a change set. Its calls pass the commit gate like the
// changes of programs, so that an undo needs the same approvals as a change. No list contains
// it, and only WorkspaceService/UndoChangeSet can call it, with the certificate of a device.
// Otherwise a model that calls tools for a user could use that user's permissions. Restored
// files are classified by the current patterns and without the workspace around them. While the
// gateway is frozen, an owner or admin can still undo changes, because a bad change may be the
// reason for the freeze. Such an undo is a change of the gateway, with a second person if one
// exists.
const UndoTool = "workspace.undo"

// undoRisk is the risk of the tool's calls; the changes have their own facts.
const undoRisk = 40

// Tool is UndoTool. It implements tool.Runnable.
type Tool struct {
	Of *ChangeSets
	// Version is the version of the gateway.
	Version string
}

type undoInput struct {
	Workspace   string `json:"workspace"`
	ChangeSetID string `json:"change_set_id"`
	Note        string `json:"note,omitempty"`
}

// Descriptor implements tool.Runnable.
func (Tool) Descriptor() tool.Descriptor {
	return tool.Descriptor{
		Name: UndoTool, Title: "Undo a change set",
		Description: "Undo the changes of a program in a workspace, all of them or none. `palyra workspace undo` calls it, with the certificate of a user's device.",
		InputSchema: json.RawMessage(`{
  "$schema": "https://json-schema.org/draft/2020-12/schema",
  "type": "object",
  "additionalProperties": false,
  "required": ["workspace", "change_set_id"],
  "properties": {
    "workspace": {"type": "string", "minLength": 1, "maxLength": 128, "description": "Name of the workspace."},
    "change_set_id": {"type": "string", "minLength": 1, "maxLength": 128, "description": "The change set."},
    "note": {"type": "string", "maxLength": 1000, "description": "Why."}
  }
}`),
		Capabilities: []tool.Capability{tool.FilesystemWrite}, Executor: tool.Builtin, Destructive: true,
	}
}

// Plan implements tool.Runnable.
func (t Tool) Plan(ctx context.Context, p tool.Proposal) (tool.Plan, error) {
	u, err := t.Of.reversal(ctx, p)
	if err != nil {
		return tool.Plan{}, err
	}
	defer u.root.Close()
	return u.plan(), nil
}

// Prepare implements tool.Runnable.
func (t Tool) Prepare(ctx context.Context, p tool.Proposal) (tool.Prepared, error) {
	u, err := t.Of.reversal(ctx, p)
	if err != nil {
		return tool.Prepared{}, err
	}
	return tool.Prepared{
		Plan: u.plan(), Close: func() { u.root.Close() },
		Run: func(ctx context.Context, c tool.Call) tool.Report { return u.run(ctx, c, t.Version) },
	}, nil
}

// reversal is a change set to be undone.
type reversal struct {
	of   *ChangeSets
	in   undoInput
	root *workspace.Root
	set  overlay.Set
	// taken is the change set to be undone.
	taken overlay.Detail
}

// ownKey marks the calls of Undo.
type ownKey struct{}

// ReachesExecutors passes the mark to the tool (tool.Isolate).
func (ownKey) ReachesExecutors() {}

func (c *ChangeSets) reversal(ctx context.Context, p tool.Proposal) (*reversal, error) {
	// The permission workspace.undo is checked before Undo. A model or another client that calls
	// tools for a user bypasses that check.
	if ctx.Value(ownKey{}) == nil {
		return nil, reason.Errorf(reason.PermissionDenied, "change sets are undone only by `palyra workspace undo` or WorkspaceService/UndoChangeSet, not by tool calls")
	}
	var in undoInput
	if err := json.Unmarshal(p.Input, &in); err != nil {
		return nil, reason.Errorf(reason.InvalidInput, "reading input: %w", err)
	}
	if err := byPerson(p.Caller); err != nil {
		return nil, err
	}
	return c.reverse(in)
}

// byPerson refuses callers other than users with their own device.
func byPerson(c access.Caller) error {
	if c.Token == nil && c.Principal.Kind == access.KindUser {
		return nil
	}
	return reason.Errorf(reason.PermissionDenied, "undoing a change set requires a user's device; tokens are not accepted").
		WithRemedy("Run `palyra workspace undo` with the credentials of a device.")
}

func (c *ChangeSets) reverse(in undoInput) (*reversal, error) {
	root, err := c.use.Workspaces.Open(in.Workspace)
	if err != nil {
		return nil, err
	}
	r := &reversal{of: c, in: in, root: root}
	if root.ReadOnly() {
		err = reason.Errorf(reason.WorkspaceScope, "workspace %q is read-only", in.Workspace).
			WithRemedy("Ask the operator to declare it without read_only.")
	}
	if err == nil {
		r.taken, err = c.use.History.Get(in.Workspace, in.ChangeSetID)
	}
	if err == nil {
		r.set, err = c.use.History.Reversal(in.Workspace, in.ChangeSetID, c.protected(in.Workspace))
	}
	if err != nil {
		root.Close()
		return nil, err
	}
	return r, nil
}

// protected returns the operator's protected patterns of a workspace.
func (c *ChangeSets) protected(name string) []string {
	for _, w := range c.use.Declared {
		if w.Name == name {
			return w.Protected
		}
	}
	return nil
}

func (r *reversal) summary() string {
	t := r.taken
	return fmt.Sprintf("Undo change set %s of workspace %s, made by a call of %s: %d added, %d modified, %d deleted, %d of them protected.",
		t.ID, t.Workspace, t.Principal, t.Added, t.Modified, t.Deleted, len(t.Protected))
}

func (r *reversal) plan() tool.Plan {
	what := "change_set:" + r.in.Workspace + ":" + r.in.ChangeSetID
	return tool.Plan{
		Binding: tool.Binding{Cwd: r.in.Workspace + ":.", Operands: []tool.Operand{{Path: what, SHA256: r.set.Root()}}},
		Facts:   tool.Facts{Workspace: r.in.Workspace, Path: ".", Risk: undoRisk, SandboxTier: "builtin", SandboxLevel: "none"},
		Preview: tool.Preview{Summary: r.summary()},
		Subject: UndoTool + ":" + what, SubjectCovers: "undoing change set " + r.in.ChangeSetID + " of workspace " + r.in.Workspace,
		ExactOnly: "a change set can be undone only once",
	}
}

// request returns the request for the commit gate.
func (r *reversal) request() tool.CommitRequest {
	q := commitgate.Request(r.set)
	q.Preview = tool.Preview{
		Summary: r.summary(), Diff: r.taken.Diff,
		Notes: []string{"The diff shows the changes to be undone: added lines are removed, and removed lines are restored."},
	}
	if r.taken.Undoes == "" {
		return q
	}
	// The change set is itself an undo, so its undo restores the changes of the original.
	returns, err := r.of.use.History.Get(r.in.Workspace, r.taken.Undoes)
	q.Preview.Diff, q.Preview.Notes = returns.Diff, []string{"The diff shows change set " + r.taken.Undoes + ", which is restored."}
	if err != nil {
		q.Preview.Notes = []string{"The diff is not available: change set " + r.taken.Undoes + ", which is restored, is not stored any more."}
	}
	return q
}

func (r *reversal) run(ctx context.Context, c tool.Call, version string) tool.Report {
	report := tool.Report{
		Executor: tool.ExecutorInfo{Name: tool.Builtin, Version: version, Tier: "builtin"}, Enforcement: tool.Enforcement{Level: "none"},
		StartedAt: time.Now().UTC(),
	}
	q := r.request()
	f := q.Facts
	report.Changes = &tool.Changes{
		State: tool.Discarded, Workspace: f.Workspace, Root: f.Root, Added: f.Added, Modified: f.Modified, Deleted: f.Deleted, Bytes: f.Bytes, Protected: f.Protected,
	}
	ruling, err := commitgate.Ask(ctx, c, r.set, q)
	report.Changes.ApprovalID, report.Changes.GrantID = ruling.ApprovalID, ruling.GrantID
	var done overlay.Summary
	if err == nil {
		done, err = r.apply(ctx, c.Proposal.ID, c.Proposal.Caller)
	}
	if done.ID != "" { // also if journaling failed
		report.Changes.State, report.Files = tool.Committed, q.Files[:min(len(q.Files), undoneFiles)]
	}
	if err != nil {
		report.Changes.Reason = string(reason.Known(err, reason.Internal).Code)
		return report.Fail(ctx, err)
	}
	report.Outcome = tool.Succeeded
	if report.Result, err = canonical.Marshal(map[string]any{"change_set_id": done.ID, "undoes": done.Undoes}); err != nil {
		return report.Fail(ctx, err)
	}
	return report.Finish()
}

// apply undoes the change set and journals it. It completes even if its caller is cancelled. call
// is the id of the undoing call, "" for none.
func (r *reversal) apply(ctx context.Context, call string, by access.Caller) (overlay.Summary, error) {
	ctx = context.WithoutCancel(ctx)
	applied, err := r.of.use.History.Undo(ctx, r.root.Path(), r.in.Workspace, r.in.ChangeSetID, overlay.Options{
		ID: ulid.Make().String(), CallID: call, Principal: by.Principal.String(), At: time.Now(), Protected: r.of.protected(r.in.Workspace),
	})
	if err != nil {
		return overlay.Summary{}, err
	}
	if applied.Left != nil {
		r.of.use.Log.WarnContext(ctx, "tidying up after an undo", slog.String("workspace", r.in.Workspace), slog.String("error", applied.Left.Error()))
	}
	return applied.Summary, r.of.journal(ctx, by, r.in.Note, r.taken, applied.Summary)
}

// Calls is the pipeline.
type Calls interface {
	Call(ctx context.Context, s call.Submission, observe func(call.Event)) (call.Outcome, error)
}

// Undo undoes a change set by a call, which policy decides and which may need approval. If the
// change set was already undone, the change set of that undo is returned.
func (c *ChangeSets) Undo(ctx context.Context, by access.Caller, name, id, note string) (overlay.Summary, error) {
	if done, err := c.undoneBefore(name, id); err != nil || done.ID != "" {
		return done, err
	}
	input, err := canonical.Marshal(undoInput{name, id, note})
	if err != nil {
		return overlay.Summary{}, err
	}
	out, err := c.calls.Call(context.WithValue(ctx, ownKey{}, true), call.Submission{Caller: by, Tool: UndoTool, Input: input, Reason: note, Precedence: access.PrecedenceOf(ctx)}, func(call.Event) {})
	switch r, d := out.Report, out.Decision; {
	case err != nil:
		return overlay.Summary{}, err
	case !d.Allowed:
		return overlay.Summary{}, reason.Errorf(d.Reason, "%s", d.Message).WithRemedy("%s", d.Remedy)
	case r.Outcome != tool.Succeeded:
		return overlay.Summary{}, reason.Errorf(reason.Code(r.Reason), "%s", r.Message).WithRemedy("%s", r.Remedy)
	}
	return c.undoneBefore(name, id)
}

// Plan returns the commit that an undo would make, for its approval. done is the change set of an
// earlier undo.
func (c *ChangeSets) Plan(name, id string) (q tool.CommitRequest, done overlay.Summary, err error) {
	if done, err = c.undoneBefore(name, id); err != nil || done.ID != "" {
		return q, done, err
	}
	r, err := c.reverse(undoInput{Workspace: name, ChangeSetID: id})
	if err != nil {
		return q, done, err
	}
	defer r.root.Close()
	return r.request(), done, nil
}

// UndoFrozen undoes a change set without a call, while the gateway is frozen. Its caller must have
// obtained the approval. Changes that policy forbids regardless of approvals are refused.
func (c *ChangeSets) UndoFrozen(ctx context.Context, by access.Caller, name, id, note string) (overlay.Summary, error) {
	if err := c.use.Guard.Check(ctx, change.UndoChanges); err != nil {
		return overlay.Summary{}, err
	}
	if err := byPerson(by); err != nil {
		return overlay.Summary{}, err
	}
	r, err := c.reverse(undoInput{name, id, note})
	if err != nil {
		return overlay.Summary{}, err
	}
	defer r.root.Close()
	if err := c.use.Forbidden(by, r.request().Facts); err != nil {
		return overlay.Summary{}, err
	}
	return r.apply(ctx, "", by)
}

// undoneBefore finds the change set that undid another one; the zero value means none.
func (c *ChangeSets) undoneBefore(name, id string) (overlay.Summary, error) {
	if err := c.declared(name); err != nil {
		return overlay.Summary{}, err
	}
	d, err := c.use.History.Get(name, id)
	if err != nil || d.State != overlay.RecordUndone {
		return overlay.Summary{}, err
	}
	sets, err := c.use.History.List(name)
	if err != nil {
		return overlay.Summary{}, err
	}
	for _, s := range sets {
		if s.Undoes == id {
			return s, nil
		}
	}
	return overlay.Summary{}, reason.Errorf(reason.NotFound, "change set %q was already undone, and the record of the undo is not stored any more", id)
}

// undone is the payload of event.Undone.
type undone struct {
	ProposalID  string            `json:"proposal_id"`
	ChangeSetID string            `json:"change_set_id"`
	UndoneBy    string            `json:"undone_by"`
	Workspace   string            `json:"workspace"`
	Root        string            `json:"root"`
	Files       []tool.FileChange `json:"files"`
	// FilesOmitted counts the files beyond the first thousand; the root covers them.
	FilesOmitted int    `json:"files_omitted,omitempty"`
	By           string `json:"by"`
	Note         string `json:"note,omitempty"`
	// CallID is the undoing call, "" while the gateway was frozen.
	CallID string `json:"call_id,omitempty"`
}

// undoneFiles is how many files of an undo the journal lists.
const undoneFiles = 1000

func (c *ChangeSets) journal(ctx context.Context, by access.Caller, note string, d overlay.Detail, s overlay.Summary) error {
	payload := undone{
		ProposalID: d.CallID, ChangeSetID: d.ID, UndoneBy: s.ID, Workspace: d.Workspace, Root: d.Root, By: by.Principal.String(), Note: note,
		CallID: s.CallID, Files: []tool.FileChange{}, FilesOmitted: max(0, len(d.Changes)-undoneFiles),
	}
	for _, change := range d.Changes[:min(len(d.Changes), undoneFiles)] {
		payload.Files = append(payload.Files, tool.FileChange{Workspace: d.Workspace, Path: overlay.Display(change.Path), Was: change.Is.SHA256, Is: change.Was.SHA256})
	}
	if err := c.use.Journal.Record(ctx, event.Undone, by.Principal.String(), d.CallID, payload); err != nil {
		return fmt.Errorf("the change set was undone, but journaling it failed: %w", err)
	}
	return nil
}
