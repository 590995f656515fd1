package cli_test

import (
	"strings"
	"testing"

	palyrav1 "palyra/gen/palyra/v1"
	"palyra/internal/cli/clitest"
	"palyra/internal/cli/printer"
)

// TestCompletion: live ids are completed with descriptions. Without a gateway there are no
// suggestions.
func TestCompletion(t *testing.T) {
	t.Parallel()
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

// TestCompletionOfHostileNames: a session's name, which an agent chooses, is not suggested if a
// shell would interpret it.
func TestCompletionOfHostileNames(t *testing.T) {
	t.Parallel()
	w := clitest.NewWorld(t)
	plain := "01DEVICE.terminal-1a_b:c@d/e+f"
	for _, id := range []string{plain, "01DEVICE.$(touch x)", "01DEVICE.`touch x`", "01DEVICE.a;b", "01DEVICE.a b", "01DEVICE.a'b", "01DEVICE.a\\b", "01DEVICE.a\nb", "--yes", "~root"} {
		w.Gateway.MoreSessions = append(w.Gateway.MoreSessions, &palyrav1.Session{SessionId: id, Principal: "agent:coder"})
	}
	r := w.Run("__complete", "sessions", "end", "")
	w.Want(r, 0)
	words, _, _ := strings.Cut(r.Out, "\n:")
	if lines := strings.Split(words, "\n"); len(lines) != 2 || lines[1] != plain+"\tagent:coder" {
		t.Errorf("suggested is %q", words)
	}
}

// TestHelpIsComplete: the help of every command is printed to stdout alone.
func TestHelpIsComplete(t *testing.T) {
	t.Parallel()
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
