package calls_test

import (
	"strings"
	"testing"

	palyrav1 "palyra/gen/palyra/v1"
	"palyra/internal/cli/clitest"
)

func TestWorkspaceUndo(t *testing.T) {
	t.Parallel()
	w := clitest.NewWorld(t)
	w.Populate()
	w.Cases("workspace", clitest.Cases{
		{"by the beginning of the id", []string{"undo", clitest.ChangeSetID[:8], "--reason", "wrong"}, 0, "undoes"},
		{"in the workspace named", []string{"undo", clitest.ChangeSetID, "-w", "demo"}, 0, "undoes"},
		{"in another workspace", []string{"undo", clitest.ChangeSetID, "-w", "docs"}, 1, "is not stored"},
		{"unknown", []string{"undo", "01UNKN0WN00000000000000000"}, 1, "is not stored"},
		{"no id at all", []string{"undo", "../x"}, 2, "not the id"},
		{"show hides nothing", []string{"show", clitest.ChangeSetID}, 0, "protected: runner"},
		{"changes of one", []string{"changes", "docs"}, 0, "no change sets are stored"},
	})
	// The second undo of a change set prints that it was already undone.
	again := w.Run("workspace", "undo", clitest.ChangeSetID)
	if !strings.Contains(again.Err, "was already undone") {
		t.Errorf("undone again: %s", again.Err)
	}
	if got := len(clitest.Requests[*palyrav1.UndoChangeSetRequest](w)); got != 3 || clitest.Requests[*palyrav1.UndoChangeSetRequest](w)[0].GetReason() != "wrong" {
		t.Errorf("%d were undone: %v", got, clitest.Requests[*palyrav1.UndoChangeSetRequest](w))
	}
}
