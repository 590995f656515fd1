package cli_test

import (
	"strings"
	"testing"

	"palyra/internal/cli/clitest"
	"palyra/internal/cli/printer"
)

// TestCompletion completes live ids with descriptions, and says nothing when
// the gateway is away.
func TestCompletion(t *testing.T) {
	w := clitest.NewWorld(t)
	w.Populate()
	r := w.Run("__complete", "approvals", "decide", "")
	w.Want(r, 0)
	if !strings.HasPrefix(r.Out, clitest.ApprovalID+"\tpending The agent wants to run a program in a sandbox.\n") || strings.Contains(r.Out, "01APPROVA00000000000000000") {
		t.Error(r.Out)
	}
	if r := w.Run("__complete", "call", ""); !strings.HasPrefix(r.Out, "process.run\tRun a program\n") {
		t.Error(r.Out)
	}
	w.Env["PALYRA_ADDRESS"] = clitest.ClosedAddress
	if r := w.Run("__complete", "approvals", "show", ""); r.Code != 0 || !strings.HasPrefix(r.Out, ":4") {
		t.Errorf("%d %q", r.Code, r.Out)
	}
}

// TestHelpIsComplete: every command has a short text, and help goes to stdout.
func TestHelpIsComplete(t *testing.T) {
	w := clitest.NewWorld(t)
	for _, args := range [][]string{{"--help"}, {"help"}, {}, {"approvals"}, {"help", "approvals", "decide"}, {"approvals", "decide", "--help"}, {"help", "exit-codes"}, {"help", "output"}, {"man"}} {
		for _, s := range []printer.Streams{{}, {OutTerminal: true, ErrTerminal: true, Width: 100}} {
			r := w.With(s, args...)
			w.Want(r, 0)
			if r.Out == "" || r.Err != "" {
				t.Errorf("%v: stdout %q, stderr %q", args, r.Out, r.Err)
			}
		}
	}
	if r := w.Run("help", "exit-codes"); !strings.Contains(r.Out, "124  the tool ran into its deadline") || !strings.Contains(r.Out, "POLICY_DENIED") {
		t.Error(r.Out)
	}
}
