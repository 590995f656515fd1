package runs_test

import (
	"strings"
	"testing"
	"unicode/utf8"

	palyrav1 "palyra/gen/palyra/v1"
	"palyra/internal/cli/clitest"
	"palyra/internal/cli/printer"
	"palyra/internal/core/reason"
)

// TestRunViewHostile: no event prints control characters from the text of a model, a tool or a
// provider.
func TestRunViewHostile(t *testing.T) {
	t.Parallel()
	script := func(r *clitest.Run) {
		r.Delta(clitest.Hostile)
		r.Delta(clitest.Hostile + "\n")
		r.Add(&palyrav1.RunEvent{Event: &palyrav1.RunEvent_ModelRetry{ModelRetry: &palyrav1.ModelRetry{Attempt: 1, Message: clitest.Hostile}}})
		r.Turn(clitest.Hostile, [3]string{"A", clitest.Hostile, `{"x":"` + "\u202e" + `","y":[1]}`}, [3]string{"B", "t", clitest.Hostile})
		r.Propose("A", clitest.Hostile)
		r.Propose("B", "t")
		r.Call("A", clitest.Allowed())
		r.Call("A", clitest.Output("stdout", clitest.Hostile+"\n"+clitest.Hostile))
		r.Call("A", clitest.Output("stderr", "\xff\xfe\n"))
		failed := clitest.Finished(clitest.Hostile, "", "")
		failed.GetResult().Message, failed.GetResult().Remedy = clitest.Hostile, clitest.Hostile
		r.Call("A", failed)
		denied := clitest.DeniedFor(reason.PolicyDenied, clitest.Hostile)
		denied.GetDecision().Remedy, denied.GetDecision().Determining[0].Reason = clitest.Hostile, clitest.Hostile
		r.Call("B", denied)
		r.Turn(clitest.Hostile)
		r.Finish(palyrav1.RunState_RUN_STATE_FAILED, reason.ModelUnavailable, clitest.Hostile)
	}
	for name, s := range map[string]printer.Streams{
		"live": {OutTerminal: true, ErrTerminal: true, Width: 80}, "captured": {ErrTerminal: true, Width: 80}, "piped": {},
	} {
		w := clitest.NewWorld(t)
		w.Gateway.Runs.Script = script
		texts := map[string]string{}
		r := w.With(s, "--no-color", "run", "x")
		texts["run"] = r.Out + r.Err
		r = w.With(s, "--no-color", "runs", "watch", clitest.RunID)
		texts["watch"] = r.Out + r.Err
		r = w.With(s, "--no-color", "runs", "show", clitest.RunID)
		texts["show"] = r.Out + r.Err
		r = w.With(s, "--no-color", "runs", "watch", clitest.RunID, "-o", "ndjson")
		texts["ndjson"] = r.Out + r.Err
		for command, text := range texts {
			if i := strings.IndexFunc(text, clitest.Unsafe); i >= 0 || !utf8.ValidString(text) {
				t.Errorf("%s %s has %q", name, command, text[max(i, 0):min(len(text), max(i, 0)+8)])
			}
			if command != "ndjson" && !strings.Contains(text, `\u{202e}gnp.exe`) {
				t.Errorf("%s %s does not show the text:\n%s", name, command, text)
			}
		}
	}
	if !strings.ContainsFunc(clitest.Hostile, clitest.Unsafe) {
		t.Error("the text is not hostile") // control
	}
}

// TestRunViewLabels: each line of a call has its number, in any order.
func TestRunViewLabels(t *testing.T) {
	t.Parallel()
	w := clitest.NewWorld(t)
	w.Gateway.Runs.Script = func(r *clitest.Run) {
		r.Turn("", [3]string{"A", "one", `{}`}, [3]string{"B", "two", `{}`}, [3]string{"C", "three", `{}`})
		for _, id := range []string{"C", "A", "B"} {
			r.Propose(id, map[string]string{"A": "one", "B": "two", "C": "three"}[id])
			r.Call(id, clitest.Allowed())
		}
		for _, id := range []string{"B", "C", "A", "C", "B", "A"} {
			r.Call(id, clitest.Output("stdout", "from "+id+"\n"))
		}
		r.Call("A", clitest.Finished("failed", reason.FileNotFound, ""))
		r.Turn("", [3]string{"A", "four", `{}`}) // a provider whose ids restart in each turn
		e := clitest.Proposed(&palyrav1.CallToolRequest{Tool: "four"})
		r.Add(&palyrav1.RunEvent{CallId: "A", ProposalId: "another", Event: &palyrav1.RunEvent_Proposed{Proposed: e.GetProposed()}})
	}
	r := w.Run("run", "x")
	w.Want(r, 0)
	for _, want := range []string{"[3] three\n", "[1] one\n", "[2] | from B\n", "[3] | from C\n", "[1] | from A\n", "[1] failed, 1.5s: The workspace has no such file", "[4] four\n"} {
		if !strings.Contains(r.Err, want) {
			t.Errorf("does not say %q:\n%s", want, r.Err)
		}
	}
}
