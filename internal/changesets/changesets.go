// Package changesets lists what commits did to the declared workspaces, takes them
// back, and ends those that a crash cut off.
package changesets

import (
	"context"
	"fmt"
	"log/slog"
	"time"

	"github.com/oklog/ulid/v2"

	"palyra/internal/access"
	"palyra/internal/config"
	"palyra/internal/event"
	"palyra/internal/reason"
	"palyra/internal/tool"
	"palyra/internal/workspace"
	"palyra/internal/workspace/overlay"
)

// Journal is where an undo is written.
type Journal interface {
	Record(ctx context.Context, code event.Code, actor, subject string, payload any) error
}

// Config is what change sets are about.
type Config struct {
	Declared   []config.Workspace
	Workspaces *workspace.Set
	History    overlay.History
	Journal    Journal
	Log        *slog.Logger
}

// ChangeSets are those of the declared workspaces.
type ChangeSets struct{ use Config }

// New returns the change sets that a history has kept.
func New(c Config) *ChangeSets { return &ChangeSets{c} }

// Declared lists the workspaces of the configuration.
func (c *ChangeSets) Declared() []config.Workspace { return c.use.Declared }

// ChangeSets lists the change sets of a workspace that are kept.
func (c *ChangeSets) ChangeSets(name string) ([]overlay.Summary, error) {
	if err := c.declared(name); err != nil {
		return nil, err
	}
	return c.use.History.List(name)
}

// ChangeSet returns one change set with its changes.
func (c *ChangeSets) ChangeSet(name, id string) (overlay.Detail, error) {
	if err := c.declared(name); err != nil {
		return overlay.Detail{}, err
	}
	return c.use.History.Get(name, id)
}

// declared refuses a workspace that was not declared, or is not there.
func (c *ChangeSets) declared(name string) error {
	root, err := c.use.Workspaces.Open(name)
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
func (c *ChangeSets) Undo(ctx context.Context, by access.Caller, name, id, note string) (overlay.Summary, error) {
	root, err := c.use.Workspaces.Open(name)
	if err != nil {
		return overlay.Summary{}, err
	}
	defer root.Close()
	if root.ReadOnly() {
		return overlay.Summary{}, reason.Errorf(reason.WorkspaceScope, "workspace %q is read-only", name).
			WithRemedy("Ask the operator to declare it without read_only.")
	}
	ctx = context.WithoutCancel(ctx)
	history := c.use.History
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
		c.use.Log.WarnContext(ctx, "tidying up after an undo", slog.String("workspace", name), slog.String("error", applied.Left.Error()))
	}
	return applied.Summary, c.journal(ctx, by, note, d, applied.Summary)
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

func (c *ChangeSets) journal(ctx context.Context, by access.Caller, note string, d overlay.Detail, s overlay.Summary) error {
	payload := undone{
		ProposalID: d.CallID, ChangeSetID: d.ID, UndoneBy: s.ID, Workspace: d.Workspace, Root: d.Root, By: by.Principal.String(), Note: note,
		Files: []tool.FileChange{}, FilesOmitted: max(0, len(d.Changes)-undoneFiles),
	}
	for _, change := range d.Changes[:min(len(d.Changes), undoneFiles)] {
		payload.Files = append(payload.Files, tool.FileChange{Workspace: d.Workspace, Path: overlay.Display(change.Path), Was: change.Is.SHA256, Is: change.Was.SHA256})
	}
	if err := c.use.Journal.Record(ctx, event.Undone, by.Principal.String(), d.CallID, payload); err != nil {
		return fmt.Errorf("the change set was undone, but that was not recorded: %w", err)
	}
	return nil
}

// Recover brings workspaces to where a commit that a crash interrupted
// has happened, or has not. It comes before the first commit.
func (c *ChangeSets) Recover(ctx context.Context) error {
	roots := make(map[string]string, len(c.use.Declared))
	for _, declared := range c.use.Declared {
		root, err := c.use.Workspaces.Open(declared.Name)
		if err != nil {
			return err
		}
		roots[declared.Name] = root.Path()
		root.Close()
	}
	done, err := c.use.History.Recover(roots)
	for _, r := range done {
		c.use.Log.WarnContext(ctx, "a commit was interrupted by the last stop", slog.String("workspace", r.Workspace),
			slog.String("changes", r.ID), slog.Bool("committed", r.Committed))
	}
	if err != nil {
		// Somebody changed the same files since: a person has to look at them,
		// and the gateway is needed meanwhile.
		c.use.Log.ErrorContext(ctx, "a commit that the last stop interrupted could not be taken back whole", slog.String("error", err.Error()))
	}
	return nil
}
