package dualcontrol_test

import (
	"errors"
	"testing"

	"palyra/internal/call/dualcontrol"
	"palyra/internal/core/access"
	"palyra/internal/core/reason"
	"palyra/internal/core/tool"
	"palyra/internal/exec/workspace/overlay"
	apidualcontrol "palyra/internal/surface/api/dualcontrol"
)

var errPlanned = errors.New("planned")

// undoer fails each plan, so that a test can detect that a plan was requested.
type undoer struct{ apidualcontrol.Undoer }

func (undoer) Plan(string, string) (tool.CommitRequest, overlay.Summary, error) {
	return tool.CommitRequest{}, overlay.Summary{}, errPlanned
}

// TestUndoAfterThaw: a change set is undone without a call only while the gateway is frozen, also
// if the request came before the thaw and is planned again after it.
func TestUndoAfterThaw(t *testing.T) {
	t.Parallel()
	for name, frozen := range map[string]bool{"control: still frozen": true, "thawed meanwhile": false} {
		looks := 0
		w := apidualcontrol.Workspaces{Undoer: undoer{}, Gate: &dualcontrol.Gate{}, Frozen: func() bool {
			looks++
			return looks == 1 || frozen
		}}
		by := ada
		by.Roles = []access.Role{access.RoleOwner}
		_, err := w.Undo(t.Context(), by, "demo", "01SET", "")
		if frozen && !errors.Is(err, errPlanned) || !frozen && reason.Of(err) != reason.BindingMismatch {
			t.Errorf("%s: %v", name, err)
		}
	}
}
