package calls_test

import (
	"regexp"
	"strings"
	"testing"

	"github.com/spf13/pflag"

	palyrav1 "palyra/gen/palyra/v1"
	"palyra/internal/cli/calls"
	"palyra/internal/cli/client"
	"palyra/internal/cli/clitest"
)

// TestApprove: the pending approval is displayed, and the vote is bound to the displayed
// digest.
func TestApprove(t *testing.T) {
	t.Parallel()
	w := clitest.NewWorld(t)
	w.Pending()
	r := w.With(clitest.Typing("?\nallow\n"), "--no-color", "approve")
	w.Want(r, 0)
	shown := clitest.SomeApproval()
	if len(w.Gateway.Votes) != 1 {
		t.Fatalf("%d votes\n%s", len(w.Gateway.Votes), r.Err)
	}
	v := w.Gateway.Votes[0]
	if !v.GetAllow() || v.GetShownDigest() != shown.GetCallDigest() || v.GetScope() != palyrav1.ApprovalScope_APPROVAL_SCOPE_ONCE {
		t.Errorf("the vote is %v", v)
	}
	if i, j := strings.Index(r.Err, "why approval is needed"), strings.Index(r.Err, "sandbox_tier_c"); i < 0 || j < i {
		t.Errorf("it was not shown in brief and then in full:\n%s", r.Err)
	}
}

func TestDeny(t *testing.T) {
	t.Parallel()
	w := clitest.NewWorld(t)
	w.Pending()
	r := w.With(clitest.Typing("not today\ndeny\n"), "deny", clitest.ApprovalID)
	w.Want(r, 0)
	if len(w.Gateway.Votes) != 1 || w.Gateway.Votes[0].GetAllow() || w.Gateway.Votes[0].GetReason() != "not today" {
		t.Errorf("votes %v\n%s", w.Gateway.Votes, r.Err)
	}
}

// TestSeveralPendingApprovals: several pending approvals are listed, and none is chosen
// automatically.
func TestSeveralPendingApprovals(t *testing.T) {
	t.Parallel()
	w := clitest.NewWorld(t)
	w.Pending()
	other := clitest.SomeApproval()
	other.ApprovalId, other.Prompt.Summary = "01APPROVA10000000000000001", "git push --force in demo"
	w.Gateway.Approvals[other.ApprovalId] = other
	r := w.With(clitest.Typing("allow\n"), "approve")
	w.Want(r, 2)
	if len(w.Gateway.Votes) != 0 || !strings.Contains(r.Err, "git push --force in demo") || !strings.Contains(r.Err, "  2  ") {
		t.Errorf("%d votes\n%s", len(w.Gateway.Votes), r.Err)
	}
	second := w.With(clitest.Typing("allow\n"), "approve", "2")
	w.Want(second, 0)
	if len(w.Gateway.Votes) != 1 || !strings.Contains(second.Err, "type allow to confirm") {
		t.Errorf("%d votes\n%s", len(w.Gateway.Votes), second.Err)
	}
	w.Want(w.With(clitest.Typing("allow\n"), "approve", "3"), 2)
}

// TestYesWithoutAQuestion: without a prompt, a vote requires the approval's id, because the
// pending approval may differ from the one displayed before.
func TestYesWithoutAQuestion(t *testing.T) {
	t.Parallel()
	w := clitest.NewWorld(t)
	w.Pending()
	for _, args := range [][]string{{"approve", "--yes"}, {"approve", "1", "--yes"}} {
		r := w.With(clitest.Typing("allow\n"), args...)
		w.Want(r, 2)
		if len(w.Gateway.Votes) != 0 || !strings.Contains(r.Err, "Specify the approval by its ID") {
			t.Fatalf("%v: %d votes\n%s", args, len(w.Gateway.Votes), r.Err)
		}
	}
	w.Want(w.With(clitest.Typing(""), "approve", clitest.ApprovalID, "--yes"), 0) // control
	if len(w.Gateway.Votes) != 1 {
		t.Error("a yes for a named approval was not sent")
	}
}

// TestAnswerWithoutATerminal: without a terminal, a vote requires the displayed digest.
func TestAnswerWithoutATerminal(t *testing.T) {
	t.Parallel()
	w := clitest.NewWorld(t)
	w.Pending()
	for _, args := range [][]string{{"approve"}, {"approve", "1"}, {"approve", clitest.ApprovalID}, {"deny", clitest.ApprovalID}, {"deny", "--reason", "x"}} {
		w.Want(w.Run(args...), 2)
	}
	if len(w.Gateway.Votes) != 0 {
		t.Error("a vote was sent")
	}
	w.Want(w.Run("approve", clitest.ApprovalID, "--digest", clitest.SomeApproval().GetCallDigest()), 0)
	if len(w.Gateway.Votes) != 1 {
		t.Error("no vote was sent")
	}
}

// TestAnswersNameTheirOwnFlags: an error of `palyra approve` or `palyra deny` names only flags that
// the command has.
func TestAnswersNameTheirOwnFlags(t *testing.T) {
	t.Parallel()
	digest := clitest.SomeApproval().GetCallDigest()
	for name, flags := range map[string]*pflag.FlagSet{"approve": calls.ApproveCommand(new(client.App)).Flags(), "deny": calls.DenyCommand(new(client.App)).Flags()} {
		for _, more := range [][]string{
			nil, {clitest.ApprovalID}, {clitest.ApprovalID, "--digest", digest}, {clitest.ApprovalID, "--digest", "x"}, {"--reason", "x"}, {"9"},
			{clitest.ApprovalID, "--no-browser", "--reason", "x"}, {clitest.ApprovalID, "--reason", "x"}, {clitest.ApprovalID, "--digest", digest, "--reason", strings.Repeat("x", 2000)},
		} {
			w := clitest.NewWorld(t)
			w.Pending()
			r := w.Run(append([]string{name}, more...)...)
			for _, flag := range regexp.MustCompile(`--([a-z-]+)`).FindAllStringSubmatch(r.Err, -1) {
				if flags.Lookup(flag[1]) == nil {
					t.Errorf("%s %q names --%s: %s", name, more, flag[1], r.Err)
				}
			}
		}
	}
}

// TestApproveForATime: the command prints what the approval covers before it is sent, with and
// without a terminal, and sends the duration and the uses.
func TestApproveForATime(t *testing.T) {
	t.Parallel()
	covers := "this approval covers this call, and after it " + clitest.AnyGit
	flags := []string{"--for", "30m", "--uses", "3", "--match", "subject"}
	for name, run := range map[string]func(w *clitest.World) clitest.Result{
		"terminal": func(w *clitest.World) clitest.Result {
			return w.With(clitest.Typing("allow\n"), append([]string{"--no-color", "approve"}, flags...)...)
		},
		"digest": func(w *clitest.World) clitest.Result {
			return w.Run(append([]string{"approve", clitest.ApprovalID, "--digest", clitest.SomeApproval().GetCallDigest()}, flags...)...)
		},
	} {
		w := clitest.NewWorld(t)
		w.Pending()
		r := run(w)
		w.Want(r, 0)
		said := strings.Join(strings.Fields(r.Err), " ")
		if !strings.Contains(said, covers) || !strings.Contains(said, "for up to 30m00s, 3 times") {
			t.Errorf("%s: it does not say what it covers:\n%s", name, r.Err)
		}
		if len(w.Gateway.Votes) != 1 || w.Gateway.Votes[0].GetUses() != 3 || w.Gateway.Votes[0].GetScope() != palyrav1.ApprovalScope_APPROVAL_SCOPE_TIMEBOXED {
			t.Errorf("%s: votes %v", name, w.Gateway.Votes)
		}
	}
	// An approval that the gateway would refuse is not sent.
	w := clitest.NewWorld(t)
	w.Pending()
	clitest.OnlyExactly(w.Gateway.Approvals[clitest.ApprovalID])
	r := w.Run(append([]string{"approve", clitest.ApprovalID, "--digest", clitest.SomeApproval().GetCallDigest()}, flags...)...)
	w.Want(r, 2)
	if len(w.Gateway.Votes) != 0 || !strings.Contains(r.Err, "python3 runs any code that it is given") {
		t.Errorf("votes %v\n%s", w.Gateway.Votes, r.Err)
	}
	for _, args := range [][]string{{"--uses", "-1"}, {"--uses", "2"}} {
		w.Want(w.Run(append([]string{"approve", clitest.ApprovalID, "--digest", clitest.SomeApproval().GetCallDigest()}, args...)...), 2)
	}
}
