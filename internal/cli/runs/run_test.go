package runs_test

import (
	"context"
	"encoding/json"
	"io"
	"os"
	"strings"
	"testing"
	"time"

	"google.golang.org/protobuf/types/known/durationpb"

	palyrav1 "palyra/gen/palyra/v1"
	"palyra/internal/cli/calls/ask"
	"palyra/internal/cli/clitest"
	"palyra/internal/cli/printer"
	"palyra/internal/cli/runs"
	"palyra/internal/core/must"
	"palyra/internal/core/reason"
)

// terminal returns the streams of a user at a terminal with an open keyboard.
func terminal(t *testing.T, watch *clitest.Watcher) (printer.Streams, io.Writer) {
	t.Helper()
	typed, keyboard := io.Pipe()
	t.Cleanup(func() { _ = keyboard.Close() })
	s := clitest.Typing("")
	s.In, s.Width = typed, 80
	if watch != nil {
		s.Err = watch
	}
	return s, keyboard
}

// TestRunPiped: stdout has only the answer. stderr has plain lines that are numbered by call.
func TestRunPiped(t *testing.T) {
	t.Parallel()
	w := clitest.NewWorld(t)
	w.Gateway.Runs.Script = clitest.Pair
	r := w.Run("run", "-m", "local", "-w", "demo", "look", "at it")
	w.Want(r, 0)
	if r.Out != "It greets; two commits.\n" {
		t.Errorf("stdout %q", r.Out)
	}
	want := `run 01RVN000000000000000000001: model local, workspace demo
I look at the file and the history.
[1] fs.read path=greet.py
[2] process.run argv=["git","log"]
[2] allowed
[1] allowed
[2] | one
[1] succeeded, 1.5s
[2] | two
[1] POSTURE
[2] succeeded, exit code 0, 1.5s
[2] POSTURE
completed: 2 calls, 2 turns, 812 tokens, 2.3s (run 01RVN000000000000000000001)
`
	want = strings.ReplaceAll(want, "POSTURE", ask.Posture(clitest.Attested().GetAttestation().GetPosture()))
	if r.Err != want {
		t.Errorf("stderr:\n%s\nwant:\n%s", r.Err, want)
	}
	if got := w.Gateway.Runs.Started[0]; got.GetMessage() != "look at it" || got.GetModel() != "local" || got.GetWorkspace() != "demo" || got.GetIdempotencyKey() == "" {
		t.Errorf("started %v", got)
	}
}

// TestRunFormats: ndjson has one document per event, and the other formats have one at the end.
func TestRunFormats(t *testing.T) {
	t.Parallel()
	play := func(format string) clitest.Result {
		w := clitest.NewWorld(t)
		w.Gateway.Runs.Script = clitest.Pair
		r := w.Run("run", "look", "-o", format)
		w.Want(r, 0)
		return r
	}
	events := strings.Split(strings.TrimSpace(play("ndjson").Out), "\n")
	last := int64(0)
	for _, line := range events {
		var e struct {
			APIVersion, Kind string
			Sequence         int64
		}
		if err := json.Unmarshal([]byte(line), &e); err != nil || e.APIVersion != printer.ApiVersion || e.Kind != "RunEvent" || e.Sequence <= last {
			t.Errorf("%s: %+v %v", line, e, err)
		}
		last = e.Sequence
	}
	if len(events) != 18 || play("ndjson").Err != "" {
		t.Errorf("%d events", len(events))
	}
	var result struct {
		Kind, Text string
		Run        struct{ State string }
	}
	if err := json.Unmarshal([]byte(play("json").Out), &result); err != nil || result.Kind != "RunResult" || result.Text != "It greets; two commits." || result.Run.State != "completed" {
		t.Errorf("%+v %v", result, err)
	}
	if out := play("yaml").Out; !strings.Contains(out, "kind: RunResult\n") || !strings.Contains(out, "text: \"It greets; two commits.\"\n") {
		t.Error(out)
	}
	if out := play("name").Out; out != clitest.RunID+"\n" {
		t.Error(out)
	}
}

// TestRunLive: a terminal displays the model's text while it arrives, once, in lines that fit.
// If stdout is not a terminal, the answer is also printed there.
func TestRunLive(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		stdout   bool
		out, err string
	}{
		{true, "I look at the file\nand the history.\nIt greets; two\ncommits.\n", ""},
		{false, "It greets; two commits.\n", "I look at the file\nand the history.\n[1] fs.read"},
	} {
		w := clitest.NewWorld(t)
		w.Gateway.Runs.Script = clitest.Pair
		r := w.With(printer.Streams{OutTerminal: c.stdout, ErrTerminal: true, Width: 20}, "--no-color", "run", "look")
		w.Want(r, 0)
		if r.Out != c.out || !strings.Contains(r.Err, c.err) {
			t.Errorf("stdout %q\nstderr %q", r.Out, r.Err)
		}
	}
}

func TestRunTask(t *testing.T) {
	t.Parallel()
	w := clitest.NewWorld(t)
	for _, c := range []struct {
		args []string
		s    printer.Streams
		code int
		want string
	}{
		{[]string{"one", "two"}, printer.Streams{}, 0, "one two"},
		{[]string{"-"}, printer.Streams{In: strings.NewReader("from stdin\n")}, 0, "from stdin\n"},
		{nil, printer.Streams{In: strings.NewReader("piped")}, 0, "piped"},
		{nil, printer.Streams{}, 2, "the task is empty"},
		{nil, clitest.Typing(""), 2, "there is no task"},
		{[]string{"-"}, printer.Streams{In: strings.NewReader(strings.Repeat("x", runs.MaxText+1))}, 2, "larger than"},
		{[]string{"a\xff"}, printer.Streams{}, 2, "UTF-8"},
		{[]string{"x", "--max-calls", "-1"}, printer.Streams{}, 2, "want 0 or more"},
		{[]string{"x", "--detach", "-i"}, printer.Streams{}, 0, "x"},
		{[]string{"x", "-i"}, printer.Streams{}, 2, "needs a terminal"},
		{[]string{"x", "--session", "a/b"}, printer.Streams{}, 2, "--session"},
		{[]string{"x", "-m", "none"}, printer.Streams{}, 2, "UNKNOWN_MODEL"},
	} {
		w.Gateway.Runs.Run = nil
		w.Gateway.Runs.Started = nil
		r := w.With(c.s, append([]string{"run"}, c.args...)...)
		w.Want(r, c.code)
		if c.code != 0 {
			if len(w.Gateway.Runs.Started) != 0 || !strings.Contains(r.Err, c.want) {
				t.Errorf("%.40v: %d started, stderr %s", c.args, len(w.Gateway.Runs.Started), r.Err)
			}
			continue
		}
		if got := w.Gateway.Runs.Started[0].GetMessage(); got != c.want {
			t.Errorf("task %q, want %q", got, c.want)
		}
	}
}

func TestRunBudget(t *testing.T) {
	t.Parallel()
	w := clitest.NewWorld(t)
	w.Want(w.Run("run", "x", "--max-calls", "3", "--max-tokens", "9000", "--max-time", "90s", "--session", "mine"), 0)
	got := w.Gateway.Runs.Started[0]
	if b := got.GetBudget(); b.GetCalls() != 3 || b.GetTokens() != 9000 || b.GetWallClock().AsDuration() != 90*time.Second || got.GetSession() != "mine" {
		t.Errorf("%v", got)
	}
}

// TestRunExitCodes: a failed run exits with the code of its reason. Denied calls do not change
// the exit code.
func TestRunExitCodes(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name   string
		script func(*clitest.Run)
		code   int
		says   string
	}{
		{"tokens", func(r *clitest.Run) {
			r.Finish(palyrav1.RunState_RUN_STATE_FAILED, reason.ModelBudget, "the run used 2000001 of 2000000 tokens")
		}, 3, "error: the run used 2000001 of 2000000 tokens [TOKEN_BUDGET_EXCEEDED]\nnext: "},
		{"provider", func(r *clitest.Run) {
			r.Turn("half an answer")
			r.Finish(palyrav1.RunState_RUN_STATE_FAILED, reason.ModelUnavailable, "")
		}, 1, "half an answer\nfailed: 2 calls"},
		{"interrupted", func(r *clitest.Run) {
			r.Finish(palyrav1.RunState_RUN_STATE_INTERRUPTED, reason.RunInterrupted, "")
		}, 1, "[RUN_INTERRUPTED]"},
		{"cancelled", func(r *clitest.Run) {
			r.Finish(palyrav1.RunState_RUN_STATE_CANCELLED, reason.Cancelled, "enough")
		}, 1, "enough\ncancelled: 2 calls"},
		{"denied call", func(r *clitest.Run) {
			r.Turn("", [3]string{"A", "http.fetch", `{}`})
			r.Propose("A", "http.fetch")
			r.Call("A", clitest.DeniedFor(reason.PolicyDenied, "no web"))
			r.Turn("then not")
		}, 0, "[1] denied: no web [POLICY_DENIED]\n[1]   forbid exec.none (20-exec.cedar:7): no programs\n[1]   next: Ask somebody.\n"},
	} {
		t.Run(c.name, func(t *testing.T) {
			w := clitest.NewWorld(t)
			w.Gateway.Runs.Script = c.script
			r := w.Run("run", "x")
			w.Want(r, c.code)
			if !strings.Contains(r.Err, c.says) {
				t.Errorf("stderr does not say %q:\n%s", c.says, r.Err)
			}
			if c.code != 0 && r.Out != "" {
				t.Errorf("stdout %q", r.Out)
			}
		})
	}
}

// asking is a run in which one call requires approval while another runs.
func asking(r *clitest.Run) {
	r.Turn("", [3]string{"A", "fs.patch", `{"patch":"x"}`}, [3]string{"B", "process.run", `{}`})
	r.Propose("A", "fs.patch")
	r.Propose("B", "process.run")
	r.Call("B", clitest.Allowed())
	r.Call("B", clitest.Output("stdout", "working\n"))
	yes := r.Ask("A", clitest.SomeApproval())
	r.Call("B", clitest.Finished("succeeded", "", clitest.ProcessJSON(0, "working\n", "")))
	if !yes {
		r.Turn("I was not allowed.")
		return
	}
	r.Call("A", clitest.Finished("succeeded", "", `{}`))
	r.Turn("Done.")
}

// TestRunAnswerInPlace: the prompt displays the whole call on request, and the vote is sent
// over the stream with the digest. The run then continues.
func TestRunAnswerInPlace(t *testing.T) {
	t.Parallel()
	for typed, c := range map[string]struct {
		answer string
		allow  bool
	}{"?\no\n": {"Done.", true}, "?\nd not today\n": {"I was not allowed.", false}} {
		w := clitest.NewWorld(t)
		w.Gateway.Runs.Script = asking
		r := w.With(clitest.Typing(typed), "run", "x")
		w.Want(r, 0)
		if len(w.Gateway.Votes) != 1 || w.Gateway.Votes[0].GetAllow() != c.allow || w.Gateway.Votes[0].GetShownDigest() != clitest.SomeApproval().GetCallDigest() {
			t.Fatalf("%v\n%s", w.Gateway.Votes, r.Err)
		}
		if !strings.Contains(r.Out, c.answer) || !strings.Contains(r.Err, "sandbox_tier_c_linux_bubblewrap") {
			t.Errorf("stdout %q\nstderr %s", r.Out, r.Err)
		}
	}
}

// TestRunVoteRefused: a refused vote is reported with its reason, and the approval stays
// pending until it expires.
func TestRunVoteRefused(t *testing.T) {
	t.Parallel()
	w := clitest.NewWorld(t)
	w.Gateway.VotesRefused = true
	w.Gateway.Runs.Script = asking
	watch := clitest.NewWatcher("--deny --reason TEXT")
	s := clitest.Typing("o\n")
	s.Err = watch
	go func() {
		<-watch.Seen
		w.Gateway.Change(func() { w.Gateway.Approvals[clitest.ApprovalID].State = palyrav1.ApprovalState_APPROVAL_STATE_EXPIRED })
	}()
	r := w.With(s, "--no-color", "run", "x")
	w.Want(r, 0)
	if !strings.Contains(r.Err, "nobody answers for their own call [PERMISSION_DENIED]") || !strings.Contains(r.Err, "[1] denied: not answered in time [APPROVAL_EXPIRED]") {
		t.Error(r.Err)
	}
}

// TestRunTwoQuestions: approvals of parallel calls are prompted for one after the other, and
// the lines of other calls are printed after the answers.
func TestRunTwoQuestions(t *testing.T) {
	t.Parallel()
	second := clitest.SomeApproval()
	second.ApprovalId, second.Prompt.Summary = "01APPROVA20000000000000000", "The agent wants to write a file."
	w := clitest.NewWorld(t)
	w.Gateway.Runs.Script = func(r *clitest.Run) {
		r.Turn("", [3]string{"A", "process.run", `{}`}, [3]string{"B", "fs.write", `{}`}, [3]string{"C", "echo", `{}`})
		for _, id := range []string{"A", "B", "C"} {
			r.Propose(id, id)
		}
		w.Gateway.Change(func() {
			w.Gateway.Approvals[clitest.ApprovalID] = clitest.SomeApproval()
			w.Gateway.Approvals[second.ApprovalId] = second
		})
		for i, v := range []*palyrav1.Approval{clitest.SomeApproval(), second} {
			r.Call(string(rune('A'+i)), &palyrav1.CallToolResponse{Event: &palyrav1.CallToolResponse_ApprovalRequested{ApprovalRequested: &palyrav1.ApprovalRequested{Approval: v}}})
		}
		r.Call("C", clitest.Allowed())
		r.Call("C", clitest.Finished("succeeded", "", `{}`))
		for i, id := range []string{clitest.ApprovalID, second.ApprovalId} {
			state := func() palyrav1.ApprovalState { return w.Gateway.Approvals[id].GetState() }
			_ = w.Gateway.Wait(r.Ctx, func() bool { return state() != palyrav1.ApprovalState_APPROVAL_STATE_PENDING })
			r.Call(string(rune('A'+i)), &palyrav1.CallToolResponse{Event: &palyrav1.CallToolResponse_ApprovalResolved{ApprovalResolved: &palyrav1.ApprovalResolved{ApprovalId: id, State: state()}}})
		}
	}
	r := w.With(clitest.Typing("o\no\n"), "--no-color", "run", "x")
	w.Want(r, 0)
	if len(w.Gateway.Votes) != 2 || strings.Count(r.Err, "answer>") != 2 {
		t.Fatalf("%d votes\n%s", len(w.Gateway.Votes), r.Err)
	}
	first, other := strings.Index(r.Err, "answer>"), strings.Index(r.Err, "[3] succeeded")
	if other < first {
		t.Errorf("the other call's line moved the question:\n%s", r.Err)
	}
}

// TestRunAsksNobodyWithoutTerminal: stderr has the command that votes, and a vote of another
// process continues the run.
func TestRunAsksNobodyWithoutTerminal(t *testing.T) {
	t.Parallel()
	w := clitest.NewWorld(t)
	w.Gateway.Runs.Script = asking
	watch := clitest.NewWatcher("--deny --reason TEXT")
	done := make(chan clitest.Result)
	go func() { done <- w.With(printer.Streams{Err: watch}, "run", "x") }()
	<-watch.Seen
	w.Want(w.Run(clitest.DecideArgs("--allow", "once")...), 0)
	r := <-done
	w.Want(r, 0)
	if strings.Contains(r.Err, "answer>") || !strings.Contains(r.Err, "palyra approvals decide "+clitest.ApprovalID+" --allow once") || r.Out != "Done.\n" {
		t.Errorf("stdout %q\nstderr %s", r.Out, r.Err)
	}
}

// TestRunAnsweredElsewhere: a vote of another process ends the prompt and clears its line.
func TestRunAnsweredElsewhere(t *testing.T) {
	t.Parallel()
	w := clitest.NewWorld(t)
	w.Gateway.Runs.Script = asking
	watch := clitest.NewWatcher("answer>")
	s, _ := terminal(t, watch)
	done := make(chan clitest.Result)
	go func() { done <- w.With(s, "--no-color", "run", "x") }()
	<-watch.Seen
	w.Want(w.Run(clitest.DecideArgs("--allow", "once")...), 0)
	r := <-done
	w.Want(r, 0)
	if !strings.Contains(r.Err, "answer> \n[1] approval "+clitest.ApprovalID+": allowed\n") {
		t.Error(r.Err)
	}
}

// TestRunInterrupt: Ctrl-C cancels the run and waits for its end; a second one exits
// immediately.
func TestRunInterrupt(t *testing.T) {
	t.Parallel()
	for _, second := range []bool{false, true} {
		w := clitest.NewWorld(t)
		w.Gateway.Runs.Script = func(r *clitest.Run) {
			r.Delta("I think ")
			if second {
				<-r.Ctx.Done()
				return
			}
			r.UntilCancelled()
		}
		ctx, cancel := context.WithCancel(t.Context())
		again := make(chan struct{})
		w.Again = again
		begun, cancelling := clitest.NewWatcher("workspace demo"), clitest.NewWatcher("cancelling the run")
		go func() { <-begun.Seen; cancel() }()
		if second {
			go func() { <-cancelling.Seen; close(again) }()
		}
		r := w.Within(ctx, printer.Streams{Err: io.MultiWriter(begun, cancelling)}, "run", "x")
		w.Want(r, 130)
		want := "interrupted at the terminal\ncancelled: "
		if second {
			want = "leaving; the run is being cancelled: see `palyra runs show " + clitest.RunID + "`"
		}
		if !strings.Contains(r.Err, want) || !strings.Contains(r.Err, "Ctrl-C again leaves at once") {
			t.Errorf("second %v: %s", second, r.Err)
		}
	}
}

// TestRunInteractive: after each answer the next message is read, and Ctrl-D ends the run
// normally.
func TestRunInteractive(t *testing.T) {
	t.Parallel()
	w := clitest.NewWorld(t)
	var heard []string
	w.Gateway.Runs.Script = func(r *clitest.Run) {
		r.Turn("What next?")
		for text := range r.Messages {
			heard = append(heard, text)
			r.Turn("You said " + text)
		}
	}
	r := w.With(clitest.Typing("first\n\nsecond \x1b[2J\n"), "--no-color", "run", "-i", "hello")
	w.Want(r, 0)
	w.Gateway.Runs.Wait.Wait()
	if len(heard) != 2 || heard[0] != "first" || heard[1] != "second \x1b[2J" {
		t.Errorf("heard %q", heard)
	}
	if strings.Count(r.Err, runs.MessageQuestion) != 4 || !strings.Contains(r.Out, `You said second \u{1b}[2J`) {
		t.Errorf("stdout %q\nstderr %q", r.Out, r.Err)
	}
}

// TestRunQuestionInsteadOfMessage: while the next message is awaited, another client's message
// can cause an approval request. The typed line then answers the request.
func TestRunQuestionInsteadOfMessage(t *testing.T) {
	t.Parallel()
	w := clitest.NewWorld(t)
	var heard []string
	w.Gateway.Runs.Script = func(r *clitest.Run) {
		r.Turn("What next?")
		asking(r)
		for text := range r.Messages {
			heard = append(heard, text)
		}
	}
	typed, keyboard, err := os.Pipe()
	must.Do(t, err)
	defer typed.Close()
	watch := clitest.NewWatcher("answer>")
	s, _ := terminal(t, watch)
	s.In = typed
	go func() {
		defer keyboard.Close()
		<-watch.Seen
		_, _ = io.WriteString(keyboard, "o\n")
	}()
	w.Want(w.With(s, "--no-color", "run", "-i", "hello"), 0)
	w.Gateway.Runs.Wait.Wait()
	if len(w.Gateway.Votes) != 1 || len(heard) != 0 {
		t.Errorf("votes %v, messages %q\n%s", w.Gateway.Votes, heard, watch.Text.String())
	}
}

func TestRunDetach(t *testing.T) {
	t.Parallel()
	w := clitest.NewWorld(t)
	w.Gateway.Runs.Script = func(r *clitest.Run) { <-r.Ctx.Done() }
	r := w.Run("run", "--detach", "x")
	w.Want(r, 0)
	if r.Out != clitest.RunID+"\n" || r.Err != "" {
		t.Errorf("%q %q", r.Out, r.Err)
	}
	if r := w.With(printer.Streams{ErrTerminal: true}, "run", "--detach", "x", "-o", "json"); !strings.Contains(r.Out, `"state": "running"`) || !strings.Contains(r.Err, "palyra runs watch "+clitest.RunID) {
		t.Errorf("%q %q", r.Out, r.Err)
	}
}

// TestRunRetry: a failed request to the provider is reported, and the text of the failed
// attempt is not part of the answer.
func TestRunRetry(t *testing.T) {
	t.Parallel()
	w := clitest.NewWorld(t)
	w.Gateway.Runs.Script = func(r *clitest.Run) {
		r.Delta("half of ")
		r.Add(&palyrav1.RunEvent{Event: &palyrav1.RunEvent_ModelRetry{ModelRetry: &palyrav1.ModelRetry{Attempt: 1, Message: "overloaded", After: durationpb.New(2 * time.Second)}}})
		r.Delta("the whole")
		r.Turn("the whole")
	}
	r := w.With(printer.Streams{OutTerminal: true, ErrTerminal: true, Width: 200}, "--no-color", "run", "x")
	w.Want(r, 0)
	if r.Out != "half of\nthe whole\n" || !strings.Contains(r.Err, "the model's provider failed: overloaded; try 2 begins in 2s; its output of this turn does not count\n") {
		t.Errorf("stdout %q\nstderr %q", r.Out, r.Err)
	}
}
