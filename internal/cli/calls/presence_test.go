package calls_test

import (
	"context"
	"strings"
	"testing"

	"palyra/internal/cli/clitest"
	"palyra/internal/cli/printer"
)

const phrase = "correct horse"

// there returns the streams of a user at a terminal who types answers, and the passphrase of
// the presence key.
func there(typed string) printer.Streams {
	s := clitest.Typing(typed)
	s.ReadHidden = func(context.Context) (string, error) { return phrase, nil }
	return s
}

// enrolled returns a world whose bundle has a presence key, and whose policy requires presence.
func enrolled(t *testing.T) *clitest.World {
	t.Helper()
	w := clitest.NewWorld(t)
	w.Want(w.With(there(""), "key", "presence", "--passphrase"), 0)
	w.Pending()
	w.Gateway.Approvals[clitest.ApprovalID].PresenceWanted = true
	return w
}

// TestPresent: if policy requires presence, a vote without a proof leaves the approval pending,
// and the command prints how to add one. With --present, the vote of every command has a proof.
func TestPresent(t *testing.T) {
	t.Parallel()
	digest := clitest.SomeApproval().GetCallDigest()
	w := clitest.NewWorld(t)
	w.Pending()
	w.Gateway.Approvals[clitest.ApprovalID].PresenceWanted = true
	r := w.Run(clitest.DecideArgs("--allow", "once")...)
	if !strings.Contains(r.Out, "pending") || !strings.Contains(r.Err, "palyra approve "+clitest.ApprovalID+" --present") || !strings.Contains(r.Err, "palyra key presence --passphrase") {
		t.Errorf("without a presence key: %s%s", r.Out, r.Err)
	}
	for name, args := range map[string][]string{
		"approve": {"approve", clitest.ApprovalID, "--digest", digest},
		"decide":  {"approvals", "decide", clitest.ApprovalID, "--allow", "once", "--digest", digest},
		"deny":    {"deny", clitest.ApprovalID, "--digest", digest, "--reason", "no"},
	} {
		w := enrolled(t)
		if name != "deny" {
			r := w.Run(args...)
			if !strings.Contains(r.Out, "pending") || !strings.Contains(r.Err, "--present") || strings.Contains(r.Err, "palyra key presence") {
				t.Errorf("%s without it: %s%s", name, r.Out, r.Err)
			}
		}
		r := w.With(there(""), append(args, "--present", "--yes")...)
		w.Want(r, 0)
		if last := w.Gateway.Votes[len(w.Gateway.Votes)-1]; last.GetPresence() == nil || strings.Contains(r.Out, "pending") {
			t.Errorf("%s: %v, %s", name, last, r.Out)
		}
	}
}

// TestPresentInTheQuestion: the prompt of a call requests the passphrase only if policy
// requires presence.
func TestPresentInTheQuestion(t *testing.T) {
	t.Parallel()
	for _, wanted := range []bool{true, false} {
		w := enrolled(t)
		about := clitest.SomeApproval()
		about.PresenceWanted = wanted
		w.Gateway.Asks(about, clitest.Finished("succeeded", "", `{}`))
		w.Want(w.With(there("o\n"), "call", "process.run"), 0)
		if votes := w.Gateway.Votes; len(votes) != 1 || (votes[0].GetPresence() != nil) != wanted {
			t.Errorf("presence wanted %v: voted %v", wanted, votes)
		}
	}
}
