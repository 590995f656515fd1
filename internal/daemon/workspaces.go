package daemon

import (
	"context"
	"fmt"
	"log/slog"
	"time"

	"github.com/oklog/ulid/v2"

	palyrav1 "palyra/gen/palyra/v1"
	"palyra/internal/access"
	"palyra/internal/event"
	"palyra/internal/reason"
	"palyra/internal/rpc"
	"palyra/internal/tool"
	"palyra/internal/workspace/overlay"
)

// workspaces is what the API does with workspaces and their change sets.
type workspaces struct{ g *gateway }

var _ rpc.Workspaces = (*workspaces)(nil)

// Declared lists the workspaces of the configuration.
func (w *workspaces) Declared() []*palyrav1.WorkspaceStatus { return w.g.workspaceStatus() }

// ChangeSets lists the change sets of a workspace that are kept.
func (w *workspaces) ChangeSets(name string) ([]overlay.Summary, error) {
	if err := w.declared(name); err != nil {
		return nil, err
	}
	return w.g.box.history.List(name)
}

// ChangeSet returns one change set with its changes.
func (w *workspaces) ChangeSet(name, id string) (overlay.Detail, error) {
	if err := w.declared(name); err != nil {
		return overlay.Detail{}, err
	}
	return w.g.box.history.Get(name, id)
}

// declared refuses a workspace that was not declared, or is not there.
func (w *workspaces) declared(name string) error {
	root, err := w.g.workspaces.Open(name)
	if err != nil {
		return err
	}
	return root.Close()
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
}

// undoneFiles is how many files the journal lists of one undoing.
const undoneFiles = 1000

// Undo takes a change set back and journals it. Whoever goes away meanwhile,
// it is carried out to its end.
func (w *workspaces) Undo(ctx context.Context, by access.Caller, name, id, note string) (overlay.Summary, error) {
	root, err := w.g.workspaces.Open(name)
	if err != nil {
		return overlay.Summary{}, err
	}
	defer root.Close()
	if root.ReadOnly() {
		return overlay.Summary{}, reason.Errorf(reason.WorkspaceScope, "workspace %q is read-only", name).
			WithRemedy("Ask the operator to declare it without read_only.")
	}
	ctx = context.WithoutCancel(ctx)
	history := w.g.box.history
	d, err := history.Get(name, id)
	if err != nil {
		return overlay.Summary{}, err
	}
	applied, err := history.Undo(ctx, root.Path(), name, id, overlay.Options{
		ID: ulid.Make().String(), CallID: d.CallID, Principal: by.Principal.String(), At: time.Now(),
	})
	if reason.Of(err) == reason.AlreadyExists {
		return undoneBefore(history, name, id)
	}
	if err != nil {
		return overlay.Summary{}, err
	}
	if applied.Left != nil {
		w.g.log.WarnContext(ctx, "tidying up after an undo", slog.String("workspace", name), slog.String("error", applied.Left.Error()))
	}
	return applied.Summary, w.journal(ctx, by, note, d, applied.Summary)
}

// undoneBefore finds the change set that took another one back.
func undoneBefore(history overlay.History, name, id string) (overlay.Summary, error) {
	sets, err := history.List(name)
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

func (w *workspaces) journal(ctx context.Context, by access.Caller, note string, d overlay.Detail, s overlay.Summary) error {
	payload := undone{
		ProposalID: d.CallID, ChangeSetID: d.ID, UndoneBy: s.ID, Workspace: d.Workspace, Root: d.Root, By: by.Principal.String(), Note: note,
		Files: []tool.FileChange{}, FilesOmitted: max(0, len(d.Changes)-undoneFiles),
	}
	for _, c := range d.Changes[:min(len(d.Changes), undoneFiles)] {
		payload.Files = append(payload.Files, tool.FileChange{Workspace: d.Workspace, Path: overlay.Display(c.Path), Was: c.Is.SHA256, Is: c.Was.SHA256})
	}
	draft, err := draftOf(event.Undone, by.Principal.String(), d.CallID, payload)
	if err == nil {
		_, err = w.g.journal.Append(ctx, draft)
	}
	if err != nil {
		return fmt.Errorf("the change set was undone, but that was not recorded: %w", err)
	}
	return nil
}
