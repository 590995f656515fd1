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
	"palyra/internal/core/event"
	"palyra/internal/core/reason"
	"palyra/internal/core/tool"
	"palyra/internal/exec/program/committing"
	"palyra/internal/exec/workspace"
	"palyra/internal/exec/workspace/overlay"
)

// UndoTool is the tool that takes a change set back. Its calls pass the commit gate like
// the changes of programs, so that nobody takes back alone what takes others to change.
const UndoTool = "workspace.undo"

// undoRisk is that of a call of it: the changes have facts of their own.
const undoRisk = 40

// Tool is UndoTool. It implements tool.Runnable.
type Tool struct {
	Of *ChangeSets
	// Version is that of the gateway.
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
		Name: UndoTool, Title: "Take back a change set",
		Description: "Take back what a program changed in a workspace, all of it or nothing. `palyra workspace undo` calls it, with the certificate of a person's device.",
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

// reversal is a change set that is to be taken back.
type reversal struct {
	of   *ChangeSets
	in   undoInput
	root *workspace.Root
	set  overlay.Set
	// taken is the change set that goes.
	taken overlay.Detail
}

// ownKey marks the calls that Undo makes.
type ownKey struct{}

// ReachesExecutors lets the tool see the mark (tool.Isolate).
func (ownKey) ReachesExecutors() {}

func (c *ChangeSets) reversal(ctx context.Context, p tool.Proposal) (*reversal, error) {
	// The permission workspace.undo is asked before Undo, which a model or another client that
	// calls tools for a person does not pass.
	if ctx.Value(ownKey{}) == nil {
		return nil, reason.Errorf(reason.PermissionDenied, "changes are taken back by `palyra workspace undo` or WorkspaceService/UndoChangeSet, and by no call of a tool")
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

// byPerson refuses whoever is no person with a device of their own.
func byPerson(c access.Caller) error {
	if c.Token == nil && c.Principal.Kind == access.KindUser {
		return nil
	}
	return reason.Errorf(reason.PermissionDenied, "changes are taken back by a person with a device of their own, and by no token").
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

// protected are the operator's patterns of a workspace.
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
	return fmt.Sprintf("Take back change set %s of workspace %s, which a call of %s made: %d added, %d modified, %d deleted, %d of them protected.",
		t.ID, t.Workspace, t.Principal, t.Added, t.Modified, t.Deleted, len(t.Protected))
}

func (r *reversal) plan() tool.Plan {
	what := "change_set:" + r.in.Workspace + ":" + r.in.ChangeSetID
	return tool.Plan{
		Binding: tool.Binding{Cwd: r.in.Workspace + ":.", Operands: []tool.Operand{{Path: what, SHA256: r.set.Root()}}},
		Facts:   tool.Facts{Workspace: r.in.Workspace, Path: ".", Risk: undoRisk, SandboxTier: "builtin", SandboxLevel: "none"},
		Preview: tool.Preview{Summary: r.summary()},
		Subject: UndoTool + ":" + what, SubjectCovers: "taking back change set " + r.in.ChangeSetID + " of workspace " + r.in.Workspace,
		ExactOnly: "one change set is taken back once",
	}
}

// request is the question of the commit gate.
func (r *reversal) request() tool.CommitRequest {
	q := committing.Request(r.set)
	q.Preview = tool.Preview{
		Summary: r.summary(), Diff: r.taken.Diff,
		Notes: []string{"The diff is of the changes that are taken back: what it adds goes, and what it removes comes back."},
	}
	if r.taken.Undoes == "" {
		return q
	}
	// It took another change set back itself, whose changes return.
	returns, err := r.of.use.History.Get(r.in.Workspace, r.taken.Undoes)
	q.Preview.Diff, q.Preview.Notes = returns.Diff, []string{"The diff is of change set " + r.taken.Undoes + ", which returns."}
	if err != nil {
		q.Preview.Notes = []string{"There is no diff: change set " + r.taken.Undoes + ", which returns, is not kept any more."}
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
	ruling, err := committing.Ask(ctx, c, r.set, q)
	report.Changes.ApprovalID, report.Changes.GrantID = ruling.ApprovalID, ruling.GrantID
	var done overlay.Summary
	if err == nil {
		done, err = r.apply(ctx, c.Proposal.ID, c.Proposal.Caller)
	}
	if done.ID != "" { // also when the journal did not take it
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

// apply takes the change set back and journals it. Whoever goes away meanwhile, it is
// carried out to its end. call is that of the undoing, "" for none.
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

// Undo has a change set taken back by a call, which policy decides and people are asked
// about. A change set that was taken back before stays so, and the change set that did it
// is returned.
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

// Plan is what taking a change set back would commit, for a person who is asked. Done is
// the change set that did it before.
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

// UndoFrozen takes a change set back without a call, while the gateway makes none.
// Whoever asks for it has to have asked those who may allow it. What policy forbids to
// commit, whatever people say, it leaves.
func (c *ChangeSets) UndoFrozen(ctx context.Context, by access.Caller, name, id, note string) (overlay.Summary, error) {
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

// undoneBefore finds the change set that took another one back; its zero value says that
// none did.
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
	return overlay.Summary{}, reason.Errorf(reason.NotFound, "change set %q was undone, and what undid it is not kept any more", id)
}

// undone is the payload of event.Undone.
type undone struct {
	ProposalID  string            `json:"proposal_id"`
	ChangeSetID string            `json:"change_set_id"`
	UndoneBy    string            `json:"undone_by"`
	Workspace   string            `json:"workspace"`
	Root        string            `json:"root"`
	Files       []tool.FileChange `json:"files"`
	// FilesOmitted counts those beyond the first thousand; the root covers them.
	FilesOmitted int    `json:"files_omitted,omitempty"`
	By           string `json:"by"`
	Note         string `json:"note,omitempty"`
	// CallID is of the call that did it, "" while the gateway was frozen.
	CallID string `json:"call_id,omitempty"`
}

// undoneFiles is how many files the journal lists of one undoing.
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
		return fmt.Errorf("the change set was undone, but that was not recorded: %w", err)
	}
	return nil
}
