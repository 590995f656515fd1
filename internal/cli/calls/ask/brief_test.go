package ask_test

import (
	"fmt"
	"strings"
	"testing"

	palyrav1 "palyra/gen/palyra/v1"
	"palyra/internal/cli/clitest"
)

// A typical prompt fits a terminal of 24 lines of 80 characters with its answers, regardless of
// the size of the change. A question mark displays the whole call.
func TestQuestionFitsATerminal(t *testing.T) {
	t.Parallel()
	v := clitest.SomeApproval()
	var diff strings.Builder
	for i := range 200 {
		fmt.Fprintf(&diff, "+line %d%s\n", i, strings.Repeat(" long", 40))
	}
	v.Prompt.Diff = diff.String()
	w := clitest.NewWorld(t)
	w.Gateway.Asks(v, clitest.Finished("succeeded", "", `{}`))
	brief := w.With(clitest.Typing("o\n"), "--no-color", "call", "process.run")
	w.Want(brief, 0)
	text, _, found := strings.Cut(brief.Err[strings.Index(brief.Err, "\n"+v.GetPrompt().GetTitle()):], "answer> ")
	if n := strings.Count(text, "\n") + 1; !found || n > 24 {
		t.Errorf("%d lines:\n%s", n, text)
	}
	for line := range strings.Lines(text) {
		if len([]rune(strings.TrimSuffix(line, "\n"))) > 80 {
			t.Errorf("too wide: %s", line)
		}
	}
	for _, want := range []string{"policy sensitive.ask", "+line 0", "more lines: type ?"} {
		if !strings.Contains(text, want) {
			t.Errorf("the question lacks %q:\n%s", want, text)
		}
	}
	if strings.Contains(text, "line 199") {
		t.Error("the question shows the whole change")
	}
	// The prompt of a tool that neither runs a program nor changes a file displays the arguments.
	plain := clitest.SomeApproval()
	plain.Prompt.Diff, plain.Prompt.Argv, plain.Prompt.ArgumentsJson = "", nil, []byte(`{"to":"everybody@example.com"}`)
	w = clitest.NewWorld(t)
	w.Gateway.Asks(plain, clitest.Finished("succeeded", "", `{}`))
	if r := w.With(clitest.Typing("o\n"), "--no-color", "call", "echo"); !strings.Contains(r.Err, `{"to":"everybody@example.com"}`) {
		t.Errorf("the question lacks the arguments:\n%s", r.Err)
	}
	v.State = palyrav1.ApprovalState_APPROVAL_STATE_PENDING
	w = clitest.NewWorld(t)
	w.Gateway.Asks(v, clitest.Finished("succeeded", "", `{}`))
	full := w.With(clitest.Typing("?\no\n"), "--no-color", "call", "process.run")
	w.Want(full, 0)
	for _, want := range []string{"line 199", v.GetCallDigest(), "/usr/bin/git"} {
		if !strings.Contains(full.Err, want) {
			t.Errorf("the full question lacks %q", want)
		}
	}
}

// Spaces in the arguments of a call cannot produce a line of the prompt that resembles a line
// of the gateway.
func TestQuestionHasNoForgedLines(t *testing.T) {
	t.Parallel()
	for _, forged := range []string{"git status in here", "answer> ", "  d REASON   deny", "severity      low"} {
		v := clitest.SomeApproval()
		for before := range 3 {
			start := "curl evil.example '"
			v.Prompt.Summary = start + strings.Repeat(" ", 78+before-len(start)) + forged + strings.Repeat(" ", 100) + "' in here"
			v.Prompt.Title = v.Prompt.Summary
			w := clitest.NewWorld(t)
			w.Gateway.Asks(v, clitest.Finished("succeeded", "", `{}`))
			r := w.With(clitest.Typing("o\n"), "--no-color", "call", "process.run")
			w.Want(r, 0)
			_, below, found := strings.Cut(r.Err, "show everything\n")
			below, _, asked := strings.Cut(below, "\nanswer> ")
			if !found || !asked {
				t.Fatalf("there is no question:\n%s", r.Err)
			}
			lines := strings.Split(below, "\n")
			if strings.ReplaceAll(strings.Join(lines, ""), " ", "") != strings.ReplaceAll(v.Prompt.Summary, " ", "") || len(lines) < 3 {
				t.Errorf("the command is not there in full: %q", lines)
			}
			for i, line := range lines {
				if len(line) > 80 || i > 0 && !strings.HasPrefix(line, "  ") {
					t.Errorf("%q: the line %q could be another's", forged, line)
				}
			}
		}
	}
}

// Before a vote with a wider scope, the prompt prints its coverage in the gateway's words. It
// does not offer a scope that the gateway would refuse.
func TestQuestionSaysWhatAYesCovers(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name          string
		change        func(*palyrav1.Approval) *palyrav1.Approval
		says, conceal []string
	}{
		{
			"any arguments", func(v *palyrav1.Approval) *palyrav1.Approval { return v },
			[]string{"8h00m at most: by this run alone", "by all runs and calls of agent:claude for user:ada", "subject  " + clitest.AnyGit, "tool     any call of process.run", "x3       for 3 more calls"},
			[]string{"only this exact call:"},
		},
		{
			"an interpreter", clitest.OnlyExactly,
			[]string{"cover only this exact call: python3 runs any code that it is given"}, []string{"subject", "any call of"},
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			w := clitest.NewWorld(t)
			w.Gateway.Asks(c.change(clitest.SomeApproval()), clitest.Finished("succeeded", "", `{}`))
			r := w.With(clitest.Typing("o\n"), "--no-color", "call", "process.run")
			w.Want(r, 0)
			for _, want := range c.says {
				if !strings.Contains(r.Err, want) {
					t.Errorf("the question lacks %q:\n%s", want, r.Err)
				}
			}
			for _, not := range c.conceal {
				if strings.Contains(r.Err, not) {
					t.Errorf("the question says %q:\n%s", not, r.Err)
				}
			}
		})
	}
}

// The vote has the typed number of uses. A scope that the gateway would refuse is not sent.
func TestTypedUses(t *testing.T) {
	t.Parallel()
	w := clitest.NewWorld(t)
	w.Gateway.Asks(clitest.SomeApproval(), clitest.Finished("succeeded", "", `{}`))
	r := w.With(clitest.Typing("t 30m x0\nt 30m x3 x4\nt 30m x3 subject\n"), "call", "process.run")
	w.Want(r, 0)
	if n := len(w.Gateway.Votes); n != 1 || w.Gateway.Votes[0].GetUses() != 3 || w.Gateway.Votes[0].GetMatch() != palyrav1.GrantMatch_GRANT_MATCH_SUBJECT {
		t.Errorf("votes %v\n%s", w.Gateway.Votes, r.Err)
	}
	w = clitest.NewWorld(t)
	w.Gateway.Asks(clitest.OnlyExactly(clitest.SomeApproval()), clitest.Finished("succeeded", "", `{}`))
	r = w.With(clitest.Typing("s subject\ns x2\n"), "call", "process.run")
	w.Want(r, 0)
	if n := len(w.Gateway.Votes); n != 1 || w.Gateway.Votes[0].GetUses() != 2 || w.Gateway.Votes[0].GetMatch() > palyrav1.GrantMatch_GRANT_MATCH_EXACT {
		t.Errorf("votes %v\n%s", w.Gateway.Votes, r.Err)
	}
}
