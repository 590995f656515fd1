package calls_test

import (
	"testing"

	"palyra/internal/cli/clitest"
)

// TestGoldenWorkspaces compares the output of every listing and page in every format.
func TestGoldenWorkspaces(t *testing.T) {
	t.Parallel()
	clitest.Golden(t, map[string][]string{
		"workspace_list": {"workspace", "list"}, "workspace_changes": {"workspace", "changes"}, "workspace_show": {"workspace", "show", clitest.ChangeSetID},
		"workspace_undo": {"workspace", "undo", clitest.ChangeSetID},
	})
}
