package calls_test

import (
	"strings"
	"testing"

	"palyra/internal/cli/clitest"
	"palyra/internal/cli/printer"
)

func TestCalls(t *testing.T) {
	t.Parallel()
	w := clitest.NewWorld(t)
	w.Populate()
	for _, test := range []struct {
		name string
		args []string
		code int
		want []string
		not  string
	}{
		{"open ones alone", []string{"list", "--open"}, 0, []string{clitest.RunningCall, clitest.WaitingCall}, clitest.EndedCall},
		{"of a run", []string{"list", "--run", "other"}, 0, []string{"no calls"}, "01PR"},
		{"show by the beginning of the id", []string{"show", strings.ToLower(clitest.EndedCall[:12])}, 0, []string{"git push --force (workspace=demo)", "exit code", "palyra approvals why " + clitest.EndedCall}, "palyra calls cancel"},
		{"show one that waits", []string{"show", clitest.WaitingCall}, 0, []string{"palyra approve " + clitest.ApprovalID, "palyra calls cancel " + clitest.WaitingCall}, "why"},
		{"cancel", []string{"cancel", clitest.RunningCall, "--reason", "wrong branch"}, 0, []string{"cancelled", "user:ada cancelled the call: wrong branch"}, ""},
		{"cancel again", []string{"cancel", clitest.RunningCall, "--reason", "other"}, 0, []string{"user:ada cancelled the call: wrong branch"}, "other"},
		{"one that ended", []string{"cancel", clitest.EndedCall}, 0, []string{"failed"}, "cancelled"},
		{"no such call", []string{"cancel", "01UNKN0WN00000000000000000"}, 1, []string{"not found"}, ""},
		{"no id", []string{"show", "../x"}, 2, []string{"not the id"}, ""},
	} {
		t.Run(test.name, func(t *testing.T) {
			r := w.Run(append([]string{"calls"}, test.args...)...)
			w.Want(r, test.code)
			for _, want := range test.want {
				if !strings.Contains(r.Out+r.Err, want) {
					t.Errorf("lacks %q:\n%s%s", want, r.Out, r.Err)
				}
			}
			if test.not != "" && strings.Contains(r.Out, test.not) {
				t.Errorf("says %q:\n%s", test.not, r.Out)
			}
		})
	}
	if got := w.Gateway.CancelledCalls; len(got) != 4 || got[0].GetReason() != "wrong branch" || got[0].GetProposalId() != clitest.RunningCall {
		t.Errorf("cancelled: %v", got)
	}
}

// On a narrow terminal the column of the command keeps its width.
func TestCallsFit(t *testing.T) {
	t.Parallel()
	w := clitest.NewWorld(t)
	w.Populate()
	for _, width := range []int{80, 60} {
		r := w.With(printer.Streams{OutTerminal: true, Width: width}, "--no-color", "calls", "list")
		w.Want(r, 0)
		if !strings.Contains(r.Out, "git push --force") || !strings.Contains(r.Out, "waiting") {
			t.Errorf("on %d columns:\n%s", width, r.Out)
		}
	}
}
