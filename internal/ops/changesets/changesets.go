// Package changesets lists what commits did to the declared workspaces, takes them
// back, and ends those that a crash cut off.
package changesets

import (
	"context"
	"log/slog"

	"palyra/internal/core/access"
	"palyra/internal/core/config"
	"palyra/internal/core/event"
	"palyra/internal/core/tool"
	"palyra/internal/exec/workspace"
	"palyra/internal/exec/workspace/overlay"
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
	// Forbidden says why policy forbids a caller to commit changes, whatever people
	// answer; nil where they may be asked.
	Forbidden func(by access.Caller, f tool.CommitFacts) error
	Log       *slog.Logger
}

// ChangeSets are those of the declared workspaces.
type ChangeSets struct {
	use   Config
	calls Calls
}

// New returns the change sets that a history has kept.
func New(c Config) *ChangeSets { return &ChangeSets{use: c} }

// Serve has change sets taken back by calls of the pipeline. It is called before any is.
func (c *ChangeSets) Serve(calls Calls) { c.calls = calls }

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
