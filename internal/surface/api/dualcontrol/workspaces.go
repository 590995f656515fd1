package dualcontrol

import (
	"context"
	"fmt"
	"slices"

	"palyra/internal/call/dualcontrol"
	"palyra/internal/core/access"
	"palyra/internal/core/change"
	"palyra/internal/core/reason"
	"palyra/internal/core/tool"
	"palyra/internal/exec/workspace/overlay"
	"palyra/internal/surface/api"
)

// Undoer undoes change sets, by a call or without one (changesets.ChangeSets).
type Undoer interface {
	api.Workspaces
	Plan(workspace, id string) (q tool.CommitRequest, done overlay.Summary, err error)
	UndoFrozen(ctx context.Context, by access.Caller, workspace, id, note string) (overlay.Summary, error)
}

// Workspaces are workspaces with special rules while the gateway is frozen: only owners and
// admins undo changes, with the approval of a second person.
type Workspaces struct {
	Undoer
	Gate   *dualcontrol.Gate
	Frozen func() bool
}

// Undo undoes a change set: by a call, or as a change of the gateway while it is frozen.
func (w Workspaces) Undo(ctx context.Context, by access.Caller, workspace, id, note string) (set overlay.Summary, err error) {
	if !w.Frozen() {
		return w.Undoer.Undo(ctx, by, workspace, id, note)
	}
	if !slices.Contains(by.Roles, access.RoleOwner) && !slices.Contains(by.Roles, access.RoleAdmin) {
		return set, reason.Errorf(reason.GatewayFrozen, "an operator froze the gateway: only an owner or admin can undo changes until it thaws")
	}
	return propose[overlay.Summary](ctx, w.Gate, by, func(context.Context) (*dualcontrol.Plan, error) {
		if !w.Frozen() {
			return nil, reason.Errorf(reason.BindingMismatch, "the gateway is no longer frozen").
				WithRemedy("Undo the changes by a call: `palyra workspace undo`.")
		}
		q, done, err := w.Plan(workspace, id)
		if err != nil {
			return nil, err
		}
		return &dualcontrol.Plan{
			Kind: change.UndoChanges, Needs: access.PermWorkspaceUndo, Nothing: done.ID != "",
			Question: dualcontrol.Question{
				ID: "changes:" + workspace + ":" + id, Title: "Undo changes to workspace " + workspace,
				Summary: fmt.Sprintf("%s The gateway is frozen, and remains frozen.", q.Preview.Summary), Notes: q.Preview.Notes,
				Diff: q.Preview.Diff, Workspace: workspace, Root: q.Facts.Root,
				Details: map[string]any{"workspace": workspace, "change_set_id": id, "note": note},
			},
			Make: func(ctx context.Context) (any, error) {
				if done.ID != "" {
					return done, nil
				}
				return w.UndoFrozen(ctx, by, workspace, id, note)
			},
		}, nil
	})
}
