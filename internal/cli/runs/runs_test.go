package runs_test

import (
	"context"
	"encoding/json"
	"strings"
	"testing"

	"palyra/internal/cli/clitest"
	"palyra/internal/cli/printer"
	"palyra/internal/core/must"
	"palyra/internal/core/reason"
)

func TestRunsList(t *testing.T) {
	t.Parallel()
	w := clitest.NewWorld(t)
	w.Gateway.Runs.Listed = clitest.OlderRuns()
	for _, c := range []struct {
		args []string
		want string
	}{
		{nil, "01RVN000000000000000000000\n01RVM000000000000000000000\n"},
		{[]string{"--limit", "1"}, "01RVN000000000000000000000\n"},
		{[]string{"--state", "interrupted"}, "01RVM000000000000000000000\n"},
		{[]string{"--principal", "agent:claude", "--since", "24h"}, "01RVN000000000000000000000\n"},
	} {
		r := w.Run(append([]string{"runs", "list", "-o", "name"}, c.args...)...)
		w.Want(r, 0)
		if r.Out != c.want {
			t.Errorf("%v: %q", c.args, r.Out)
		}
	}
	if r := w.Run("runs", "list", "--state", "faild"); r.Code != 2 || !strings.Contains(r.Err, "Did you mean failed?") {
		t.Errorf("%d %s", r.Code, r.Err)
	}
	if r := w.Run("runs", "list", "--limit", "1"); !strings.Contains(r.Err, "is truncated") || strings.Contains(r.Out, "and more") {
		t.Errorf("%q %q", r.Out, r.Err)
	}
}

// TestRunsShow: the output has the run's record, and the steps of each call in order with the
// ids of their evidence.
func TestRunsShow(t *testing.T) {
	t.Parallel()
	w := clitest.NewWorld(t)
	w.Gateway.Runs.Script = asking
	watch := clitest.NewWatcher("--deny --reason TEXT")
	go func() { <-watch.Seen; w.Run(clitest.DecideArgs("--allow", "once")...) }()
	w.Want(w.With(printer.Streams{Err: watch}, "run", "x"), 0)
	r := w.Run("runs", "show", strings.ToLower(clitest.RunID[:8]))
	w.Want(r, 0)
	rest := r.Out
	for _, want := range []string{
		"state         completed", "task          x\n", "used          2 calls, 2 turns, 700 tokens in, 112 out, 2.3s",
		"[1] fs.patch\n  patch=x\n", "proposed   proposal 01PROPOSAL00000000000A", "asked      approval " + clitest.ApprovalID,
		"answered   approval " + clitest.ApprovalID + ", allowed", "allowed    decision 01DECISION", "succeeded  1.5s", "[2] process.run", "last answer\n  Done.\n",
	} {
		_, after, ok := strings.Cut(rest, want)
		if !ok {
			t.Fatalf("does not show %q in its place:\n%s", want, r.Out)
		}
		rest = after
	}
	asJSON := w.Run("runs", "show", clitest.RunID, "-o", "json").Out
	clitest.SameValue(t, "runs show", asJSON, w.Run("runs", "show", clitest.RunID, "-o", "yaml").Out)
	var doc struct {
		Kind, State, Text string
		Calls             []struct {
			Tool, Input string
			Steps       []struct{ At, What, Kind, ID, Detail string }
		}
	}
	must.Do(t, json.Unmarshal([]byte(asJSON), &doc))
	if doc.Kind != "Run" || doc.State != "completed" || doc.Text != "Done." || len(doc.Calls) != 2 || doc.Calls[0].Input != `{"patch":"x"}` || doc.Calls[0].Steps[1].ID != clitest.ApprovalID {
		t.Errorf("%+v", doc)
	}
	if r := w.Run("runs", "show", "01ZZZZZZZZZZZZZZZZZZZZZZZZ"); r.Code != 1 || !strings.Contains(r.Err, "NOT_FOUND") {
		t.Errorf("%d %s", r.Code, r.Err)
	}
}

// TestRunsShowActiveRun: the command prints the events so far and exits, also if the last
// events are not durable.
func TestRunsShowActiveRun(t *testing.T) {
	t.Parallel()
	w := clitest.NewWorld(t)
	done := make(chan struct{})
	w.Gateway.Runs.Script = func(r *clitest.Run) {
		r.Turn("I begin.", [3]string{"A", "echo", `{}`}, [3]string{"B", "echo", `{}`})
		r.Propose("A", "echo")
		r.Propose("B", "echo")
		r.Call("B", clitest.Allowed())
		r.Call("B", clitest.Output("stdout", "one\n"))
		close(done)
		<-r.Ctx.Done()
	}
	w.Want(w.Run("run", "--detach", "x"), 0)
	<-done
	r := w.Run("runs", "show", clitest.RunID)
	w.Want(r, 0)
	for _, want := range []string{"state         running", "[1] echo\n", "[2] echo\n", "allowed    decision 01DECISION", "last answer\n  I begin.\n"} {
		if !strings.Contains(r.Out, want) {
			t.Errorf("does not show %q:\n%s", want, r.Out)
		}
	}
}

// TestRunsWatch: the output is the same from any client, and Ctrl-C does not cancel the run.
func TestRunsWatch(t *testing.T) {
	t.Parallel()
	w := clitest.NewWorld(t)
	w.Gateway.Runs.Script = clitest.Pair
	w.Want(w.Run("run", "--detach", "look"), 0)
	r := w.Run("runs", "watch", clitest.RunID)
	w.Want(r, 0)
	if r.Out != "It greets; two commits.\n" || !strings.Contains(r.Err, "started 2026-03-04T05:06:07Z (now) by user:ada: look\nI look at the file") {
		t.Errorf("stdout %q\nstderr %s", r.Out, r.Err)
	}
	// From the middle of a run, calls are numbered in the order of their first event.
	r = w.Run("runs", "watch", clitest.RunID, "--after", "8388664")
	if r.Code != 0 || !strings.HasPrefix(r.Err, "[1] | one\n[2] succeeded, 1.5s\n") {
		t.Errorf("%d %s", r.Code, r.Err)
	}
	w.Want(w.Run("runs", "watch", clitest.RunID, "--after", "-1"), 2)

	other := clitest.NewWorld(t)
	other.Gateway.Runs.Script = func(r *clitest.Run) { <-r.Ctx.Done() }
	other.Want(other.Run("run", "--detach", "x"), 0)
	ctx, cancel := context.WithCancel(t.Context())
	watch := clitest.NewWatcher("started ")
	go func() { <-watch.Seen; cancel() }()
	r = other.Within(ctx, printer.Streams{Err: watch}, "runs", "watch", clitest.RunID)
	other.Want(r, 0)
	if !strings.Contains(r.Err, "the run goes on; see it again with `palyra runs watch "+clitest.RunID+" --after 1048583`") || other.Gateway.Runs.Run.Over() {
		t.Error(r.Err)
	}
}

// TestRunsWatchAnswers: a watching approver is prompted for a pending approval, and not for one
// that is already decided.
func TestRunsWatchAnswers(t *testing.T) {
	t.Parallel()
	w := clitest.NewWorld(t)
	w.Gateway.Runs.Script = asking
	w.Want(w.Run("run", "--detach", "x"), 0)
	r := w.With(clitest.Typing("o\n"), "--no-color", "runs", "watch", clitest.RunID)
	w.Want(r, 0)
	if len(w.Gateway.Votes) != 1 || strings.Count(r.Err, "answer>") != 1 {
		t.Errorf("%d votes\n%s", len(w.Gateway.Votes), r.Err)
	}
	again := w.With(clitest.Typing("o\n"), "--no-color", "runs", "watch", clitest.RunID)
	w.Want(again, 0)
	if strings.Contains(again.Err, "answer>") || len(w.Gateway.Votes) != 1 {
		t.Errorf("asked again:\n%s", again.Err)
	}
}

// TestRunsMessage: a detached run gets messages from the command line and from stdin, and a
// last message.
func TestRunsMessage(t *testing.T) {
	t.Parallel()
	w := clitest.NewWorld(t)
	w.Gateway.Runs.Script = func(r *clitest.Run) {
		for text := range r.Messages {
			r.Turn("you said " + text)
		}
	}
	w.Want(w.Run("run", "--detach", "-i", "x"), 0)
	if started := w.Gateway.Runs.Started; len(started) != 1 || !started[0].GetInteractive() {
		t.Errorf("started %v", started)
	}
	r := w.Run("runs", "message", clitest.RunID, "leave", "the tests")
	w.Want(r, 0)
	if !strings.Contains(r.Out, "state         running\n") {
		t.Error(r.Out)
	}
	w.Want(w.With(printer.Streams{In: strings.NewReader("from a file\n")}, "runs", "message", clitest.RunID), 0)
	w.Want(w.With(printer.Streams{In: strings.NewReader(" \n")}, "runs", "message", clitest.RunID), 2)
	w.Want(w.Run("runs", "message", clitest.RunID, "--last"), 0)
	shown := w.Run("runs", "watch", clitest.RunID)
	w.Want(shown, 0)
	if shown.Out != "you said from a file\n" || !strings.Contains(shown.Err, "you said leave the tests") {
		t.Errorf("%q\n%s", shown.Out, shown.Err)
	}
	w.Want(w.Run("runs", "message", clitest.RunID, "more"), reason.Lookup(reason.RunEnded).Exit)
	w.Want(w.Run("runs", "message", "01ZZZZZZZZZZZZZZZZZZZZZZZZ", "hi"), 1)
}

func TestRunsCancel(t *testing.T) {
	t.Parallel()
	w := clitest.NewWorld(t)
	w.Gateway.Runs.Script = func(r *clitest.Run) { <-r.Ctx.Done() }
	w.Want(w.Run("run", "--detach", "x"), 0)
	r := w.Run("runs", "cancel", clitest.RunID, "--reason", "wrong branch")
	w.Want(r, 0)
	if !strings.Contains(r.Out, "state         cancelled\n") || !strings.Contains(r.Out, "because       wrong branch\n") {
		t.Error(r.Out)
	}
	w.Want(w.Run("runs", "cancel", clitest.RunID), reason.Lookup(reason.RunEnded).Exit)
}

// TestRunCompletion: live runs, models and workspaces are completed.
func TestRunCompletion(t *testing.T) {
	t.Parallel()
	w := clitest.NewWorld(t)
	w.Gateway.Runs.Listed = clitest.OlderRuns()
	for _, c := range []struct {
		args []string
		want string
	}{
		{[]string{"runs", "show", ""}, "01RVN000000000000000000000\tfailed tidy up\n"},
		{[]string{"runs", "cancel", ""}, ":4\n"},
		{[]string{"run", "-m", ""}, "fast\tanthropic fast-1\nlocal\topenai\n"},
		{[]string{"run", "-w", ""}, "demo\t/srv/demo\n"},
	} {
		if r := w.Run(append([]string{"__complete"}, c.args...)...); !strings.HasPrefix(r.Out, c.want) {
			t.Errorf("%v: %q", c.args, r.Out)
		}
	}
}
