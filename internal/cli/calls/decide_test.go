package calls_test

import (
	"strings"
	"testing"

	"palyra/internal/cli/calls/ask"
	"palyra/internal/cli/clitest"
	"palyra/internal/cli/printer"
	"palyra/internal/core/reason"
)

// TestDecideWithoutTerminalNeedsTheDigest: without a terminal, a vote requires the digest.
// Control: the same command with the digest.
func TestDecideWithoutTerminalNeedsTheDigest(t *testing.T) {
	t.Parallel()
	w := clitest.NewWorld(t)
	w.Pending()
	r := w.Run("approvals", "decide", clitest.ApprovalID, "--allow", "once")
	w.Want(r, 2)
	if len(w.Gateway.Votes) != 0 || !strings.Contains(r.Err, "--digest is required") {
		t.Errorf("%d votes: %s", len(w.Gateway.Votes), r.Err)
	}
	w.Want(w.Run(clitest.DecideArgs("--allow", "once")...), 0)
	if len(w.Gateway.Votes) != 1 {
		t.Errorf("%d votes", len(w.Gateway.Votes))
	}
}

// TestDecideInATerminal: the call is displayed in full before the prompt, and the vote has the
// displayed digest.
func TestDecideInATerminal(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name  string
		typed string
		args  []string
		code  int
		votes int
	}{
		{"confirmed", "allow\n", []string{"--allow", "once"}, 0, 1},
		{"not confirmed", "y\n", []string{"--allow", "once"}, 1, 0},
		{"denied", "deny\n", []string{"--deny", "--reason", "no"}, 0, 1},
		{"yes", "", []string{"--allow", "once", "--yes"}, 0, 1},
		{"chosen", "o\n", nil, 0, 1},
		{"left", "l\n", nil, 0, 0},
		{"digest given", "", []string{"--allow", "once", "--digest", clitest.SomeApproval().GetCallDigest()}, 0, 1},
		{"another digest", "o\n", []string{"--digest", "sha256:" + strings.Repeat("0", 64)}, 7, 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			w := clitest.NewWorld(t)
			w.Pending()
			r := w.With(clitest.Typing(c.typed), append([]string{"approvals", "decide", clitest.ApprovalID}, c.args...)...)
			w.Want(r, c.code)
			if len(w.Gateway.Votes) != c.votes {
				t.Fatalf("%d votes\n%s", len(w.Gateway.Votes), r.Err)
			}
			if c.votes > 0 && w.Gateway.Votes[0].GetShownDigest() != clitest.SomeApproval().GetCallDigest() {
				t.Error("the vote does not carry the digest of the call")
			}
		})
	}
}

func TestDecideFlags(t *testing.T) {
	t.Parallel()
	w := clitest.NewWorld(t)
	for _, c := range []struct {
		args []string
		says string
	}{
		{[]string{"--deny"}, "a denial requires a reason"},
		{[]string{"--deny"}, "next: Add --reason TEXT."},
		{[]string{"--deny", "--reason", "x", "--allow", "once"}, "exclude each other"},
		{[]string{"--deny", "--reason", "x", "--for", "1h"}, "require --allow"},
		{[]string{"--allow", "twice"}, "want one of once, session, timeboxed"},
		{[]string{"--allow", "timeboxed"}, "requires a duration"},
		{[]string{"--allow", "timeboxed", "--for", "30s"}, "from 1m to 7d"},
		{[]string{"--allow", "timeboxed", "--for", "8d"}, "from 1m to 7d"},
		{[]string{"--allow", "timeboxed", "--for", "soon"}, "is not a valid duration"},
		{[]string{"--allow", "session", "--for", "1h"}, "only to a timeboxed approval"},
		{[]string{"--allow", "once", "--match", "tool"}, "this exact call"},
		{[]string{"--allow", "session", "--match", "tol"}, "Did you mean tool?"},
		{nil, "an answer is required"},
	} {
		r := w.Run(clitest.DecideArgs(c.args...)...)
		if r.Code != 2 || !strings.Contains(r.Err, c.says) {
			t.Errorf("%v: exit code %d, want 2 and %q: %s", c.args, r.Code, c.says, r.Err)
		}
	}
	if len(w.Gateway.Votes) != 0 {
		t.Error("a vote was sent")
	}
}

func TestDecideRefused(t *testing.T) {
	t.Parallel()
	w := clitest.NewWorld(t)
	w.Pending()
	w.Gateway.VotesRefused = true
	r := w.With(clitest.Typing("y\no\no\n"), "approvals", "decide", clitest.ApprovalID)
	if r.Code == 0 || len(w.Gateway.Votes) != 1 || !strings.Contains(r.Err, "PERMISSION_DENIED") || !strings.Contains(r.Err, "type o to allow once") {
		t.Errorf("exit code %d, %d votes\n%s", r.Code, len(w.Gateway.Votes), r.Err)
	}
	if !strings.Contains(r.Err, ask.ApprovalSummary(clitest.SomeApproval())+"\nanswer> ") {
		t.Errorf("the summary is not above the answer:\n%s", r.Err)
	}
}

func TestCancelApproval(t *testing.T) {
	t.Parallel()
	w := clitest.NewWorld(t)
	w.Gateway.Asks(clitest.SomeApproval(), clitest.Finished("succeeded", "", `{}`))
	watch := clitest.NewWatcher("deny:")
	done := make(chan clitest.Result)
	go func() { done <- w.With(printer.Streams{Err: watch}, "call", "echo") }()
	<-watch.Seen
	r := w.Run("approvals", "cancel", clitest.ApprovalID, "--reason", "wrong branch")
	w.Want(r, 0)
	if !strings.Contains(r.Out, "cancelled") {
		t.Errorf("says %s", r.Out)
	}
	call := <-done
	w.Want(call, reason.Lookup(reason.ApprovalCancelled).Exit)
	if !strings.Contains(call.Err, "APPROVAL_CANCELLED") {
		t.Errorf("the call says %s", call.Err)
	}
	w.Want(w.Run("approvals", "cancel", clitest.ApprovalID), 7)
	w.Want(w.Run("approvals", "cancel"), 2)
}
