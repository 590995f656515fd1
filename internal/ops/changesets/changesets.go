// Package changesets lists the change sets of the declared workspaces, undoes them, and completes
// or reverts commits that a crash interrupted.
package changesets

import (
	"context"
	"log/slog"

	"palyra/internal/core/access"
	"palyra/internal/core/change"
	"palyra/internal/core/config"
	"palyra/internal/core/event"
	"palyra/internal/core/tool"
	"palyra/internal/exec/workspace"
	"palyra/internal/exec/workspace/overlay"
)

// Journal stores undo events.
type Journal interface {
	Record(ctx context.Context, code event.Code, actor, subject string, payload any) error
}

// Config holds the dependencies of ChangeSets.
type Config struct {
	Declared   []config.Workspace
	Workspaces *workspace.Set
	History    overlay.History
	Journal    Journal
	// Guard permits changes that require two people; nil permits none of them.
	Guard change.Guard
	// Forbidden returns why policy forbids a caller to commit changes regardless of approvals, or
	// nil.
	Forbidden func(by access.Caller, f tool.CommitFacts) error
	Log       *slog.Logger
}

// ChangeSets are the change sets of the declared workspaces.
type ChangeSets struct {
	use   Config
	calls Calls
}

// New returns the change sets of a history.
func New(c Config) *ChangeSets { return &ChangeSets{use: c} }

// Serve sets the pipeline that undoes change sets. It must be called before the first Undo.
func (c *ChangeSets) Serve(calls Calls) { c.calls = calls }

// Declared lists the workspaces of the configuration.
func (c *ChangeSets) Declared() []config.Workspace { return c.use.Declared }

// ChangeSets lists the stored change sets of a workspace.
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

// declared refuses a workspace that is not declared or does not exist.
func (c *ChangeSets) declared(name string) error {
	root, err := c.use.Workspaces.Open(name)
	if err != nil {
		return err
	}
	return root.Close()
}

// Recover completes or reverts commits that a crash interrupted. It must run before the first
// commit.
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
		// The files of the commit changed after the interruption. A user must inspect them, but the
		// gateway must start.
		c.use.Log.ErrorContext(ctx, "reverting an interrupted commit completely failed", slog.String("error", err.Error()))
	}
	return nil
}
