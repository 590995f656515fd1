package runs_test

import (
	"path/filepath"
	"testing"

	palyrav1 "palyra/gen/palyra/v1"
	"palyra/internal/cli/clitest"
	"palyra/internal/core/must"
)

// TestRunInTheCurrentDirectory: a run uses the named workspace, or else the workspace of the
// current directory, or else the gateway's first.
//
// Not parallel: it changes the current directory of the process.
func TestRunInTheCurrentDirectory(t *testing.T) {
	here := must.Get(filepath.EvalSymlinks(t.TempDir()))(t)
	for _, c := range []struct {
		dir, want string
		asked     int
		args      []string
	}{
		{here, "here", 1, nil}, {here, "demo", 0, []string{"-w", "demo"}}, {t.TempDir(), "", 1, nil},
	} {
		w := clitest.NewWorld(t)
		w.Gateway.Workspaces = append(w.Gateway.Workspaces, &palyrav1.WorkspaceStatus{Name: "here", Path: here})
		t.Chdir(c.dir)
		w.Want(w.Run(append([]string{"run", "--detach", "a task"}, c.args...)...), 0)
		if got := w.Gateway.Runs.Started[0].GetWorkspace(); got != c.want || len(clitest.Requests[*palyrav1.ListWorkspacesRequest](w)) != c.asked {
			t.Errorf("%v: workspace %q after %d questions, want %q", c.args, got, len(clitest.Requests[*palyrav1.ListWorkspacesRequest](w)), c.want)
		}
	}
}
