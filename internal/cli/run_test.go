package cli

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
	"palyra/internal/reason"
)

// terminal is the streams of a person with a terminal and an open keyboard.
func terminal(t *testing.T, watch *watcher) (Streams, io.Writer) {
	t.Helper()
	typed, keyboard := io.Pipe()
	t.Cleanup(func() { _ = keyboard.Close() })
	s := typing("")
	s.In, s.Width = typed, 80
	if watch != nil {
		s.Err = watch
	}
	return s, keyboard
}

// TestRunPiped: stdout is the answer alone; stderr tells the calls apart, in
// plain lines.
func TestRunPiped(t *testing.T) {
	w := newWorld(t)
	w.gateway.runs.script = pair
	r := w.run("run", "-m", "local", "-w", "demo", "look", "at it")
	w.want(r, 0)
	if r.out != "It greets; two commits.\n" {
		t.Errorf("stdout %q", r.out)
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
[2] succeeded, exit code 0, 1.5s
completed: 2 calls, 2 turns, 812 tokens, 2.3s (run 01RVN000000000000000000001)
`
	if r.err != want {
		t.Errorf("stderr:\n%s\nwant:\n%s", r.err, want)
	}
	if got := w.gateway.runs.started[0]; got.GetMessage() != "look at it" || got.GetModel() != "local" || got.GetWorkspace() != "demo" || got.GetIdempotencyKey() == "" {
		t.Errorf("started %v", got)
	}
}

// TestRunFormats: one document per event, or one at the end.
func TestRunFormats(t *testing.T) {
	play := func(format string) result {
		w := newWorld(t)
		w.gateway.runs.script = pair
		r := w.run("run", "look", "-o", format)
		w.want(r, 0)
		return r
	}
	events := strings.Split(strings.TrimSpace(play("ndjson").out), "\n")
	last := int64(0)
	for _, line := range events {
		var e struct {
			APIVersion, Kind string
			Sequence         int64
		}
		if err := json.Unmarshal([]byte(line), &e); err != nil || e.APIVersion != apiVersion || e.Kind != "RunEvent" || e.Sequence <= last {
			t.Errorf("%s: %+v %v", line, e, err)
		}
		last = e.Sequence
	}
	if len(events) != 18 || play("ndjson").err != "" {
		t.Errorf("%d events", len(events))
	}
	var result struct {
		Kind, Text string
		Run        struct{ State string }
	}
	if err := json.Unmarshal([]byte(play("json").out), &result); err != nil || result.Kind != "RunResult" || result.Text != "It greets; two commits." || result.Run.State != "completed" {
		t.Errorf("%+v %v", result, err)
	}
	if out := play("yaml").out; !strings.Contains(out, "kind: RunResult\n") || !strings.Contains(out, "text: \"It greets; two commits.\"\n") {
		t.Error(out)
	}
	if out := play("name").out; out != fakeRunID+"\n" {
		t.Error(out)
	}
}

// TestRunLive: in a terminal the text comes as the model writes it, once, in
// lines that fit; with stdout elsewhere the answer goes there as well.
func TestRunLive(t *testing.T) {
	for _, c := range []struct {
		stdout   bool
		out, err string
	}{
		{true, "I look at the file\nand the history.\nIt greets; two\ncommits.\n", ""},
		{false, "It greets; two commits.\n", "I look at the file\nand the history.\n[1] fs.read"},
	} {
		w := newWorld(t)
		w.gateway.runs.script = pair
		r := w.with(Streams{OutTerminal: c.stdout, ErrTerminal: true, Width: 20}, "--no-color", "run", "look")
		w.want(r, 0)
		if r.out != c.out || !strings.Contains(r.err, c.err) {
			t.Errorf("stdout %q\nstderr %q", r.out, r.err)
		}
	}
}

func TestRunTask(t *testing.T) {
	w := newWorld(t)
	for _, c := range []struct {
		args []string
		s    Streams
		code int
		want string
	}{
		{[]string{"one", "two"}, Streams{}, 0, "one two"},
		{[]string{"-"}, Streams{In: strings.NewReader("from stdin\n")}, 0, "from stdin\n"},
		{nil, Streams{In: strings.NewReader("piped")}, 0, "piped"},
		{nil, Streams{}, 2, "the task is empty"},
		{nil, typing(""), 2, "there is no task"},
		{[]string{"-"}, Streams{In: strings.NewReader(strings.Repeat("x", maxTask+1))}, 2, "larger than"},
		{[]string{"a\xff"}, Streams{}, 2, "UTF-8"},
		{[]string{"x", "--max-calls", "-1"}, Streams{}, 2, "want 0 or more"},
		{[]string{"x", "--detach", "-i"}, typing(""), 2, "exclude each other"},
		{[]string{"x", "-i"}, Streams{}, 2, "needs a terminal"},
		{[]string{"x", "--session", "a/b"}, Streams{}, 2, "--session"},
		{[]string{"x", "-m", "none"}, Streams{}, 2, "UNKNOWN_MODEL"},
	} {
		w.gateway.runs.run = nil
		w.gateway.runs.started = nil
		r := w.with(c.s, append([]string{"run"}, c.args...)...)
		w.want(r, c.code)
		if c.code != 0 {
			if len(w.gateway.runs.started) != 0 || !strings.Contains(r.err, c.want) {
				t.Errorf("%.40v: %d started, stderr %s", c.args, len(w.gateway.runs.started), r.err)
			}
			continue
		}
		if got := w.gateway.runs.started[0].GetMessage(); got != c.want {
			t.Errorf("task %q, want %q", got, c.want)
		}
	}
}

func TestRunBudget(t *testing.T) {
	w := newWorld(t)
	w.want(w.run("run", "x", "--max-calls", "3", "--max-tokens", "9000", "--max-time", "90s", "--session", "mine"), 0)
	got := w.gateway.runs.started[0]
	if b := got.GetBudget(); b.GetCalls() != 3 || b.GetTokens() != 9000 || b.GetWallClock().AsDuration() != 90*time.Second || got.GetSession() != "mine" {
		t.Errorf("%v", got)
	}
}

// TestRunExitCodes: a run that failed exits as its reason says; denied calls
// change nothing.
func TestRunExitCodes(t *testing.T) {
	for _, c := range []struct {
		name   string
		script func(*fakeRun)
		code   int
		says   string
	}{
		{"tokens", func(r *fakeRun) {
			r.finish(palyrav1.RunState_RUN_STATE_FAILED, reason.ModelBudget, "the run used 2000001 of 2000000 tokens")
		}, 3, "error: the run used 2000001 of 2000000 tokens [TOKEN_BUDGET_EXCEEDED]\nnext: "},
		{"provider", func(r *fakeRun) {
			r.turn("half an answer")
			r.finish(palyrav1.RunState_RUN_STATE_FAILED, reason.ModelUnavailable, "")
		}, 1, "half an answer\nfailed: 2 calls"},
		{"interrupted", func(r *fakeRun) {
			r.finish(palyrav1.RunState_RUN_STATE_INTERRUPTED, reason.RunInterrupted, "")
		}, 1, "[RUN_INTERRUPTED]"},
		{"cancelled", func(r *fakeRun) {
			r.finish(palyrav1.RunState_RUN_STATE_CANCELLED, reason.Cancelled, "enough")
		}, 1, "enough\ncancelled: 2 calls"},
		{"denied call", func(r *fakeRun) {
			r.turn("", [3]string{"A", "http.fetch", `{}`})
			r.propose("A", "http.fetch")
			r.call("A", deniedFor(reason.PolicyDenied, "no web"))
			r.turn("then not")
		}, 0, "[1] denied: no web [POLICY_DENIED]\n[1]   forbid exec.none (20-exec.cedar:7): no programs\n[1]   next: Ask somebody.\n"},
	} {
		t.Run(c.name, func(t *testing.T) {
			w := newWorld(t)
			w.gateway.runs.script = c.script
			r := w.run("run", "x")
			w.want(r, c.code)
			if !strings.Contains(r.err, c.says) {
				t.Errorf("stderr does not say %q:\n%s", c.says, r.err)
			}
			if c.code != 0 && r.out != "" {
				t.Errorf("stdout %q", r.out)
			}
		})
	}
}

// asking is a run of which one call asks while another goes on.
func asking(r *fakeRun) {
	r.turn("", [3]string{"A", "fs.patch", `{"patch":"x"}`}, [3]string{"B", "process.run", `{}`})
	r.propose("A", "fs.patch")
	r.propose("B", "process.run")
	r.call("B", allowed())
	r.call("B", output("stdout", "working\n"))
	yes := r.ask("A", someApproval())
	r.call("B", finished("succeeded", "", processJSON(0, "working\n", "")))
	if !yes {
		r.turn("I was not allowed.")
		return
	}
	r.call("A", finished("succeeded", "", `{}`))
	r.turn("Done.")
}

// TestRunAnswerInPlace: the question shows the call in full, the vote goes over
// the stream with the digest, and the run goes on.
func TestRunAnswerInPlace(t *testing.T) {
	for typed, c := range map[string]struct {
		answer string
		allow  bool
	}{"o\n": {"Done.", true}, "d not today\n": {"I was not allowed.", false}} {
		w := newWorld(t)
		w.gateway.runs.script = asking
		r := w.with(typing(typed), "run", "x")
		w.want(r, 0)
		if len(w.gateway.votes) != 1 || w.gateway.votes[0].GetAllow() != c.allow || w.gateway.votes[0].GetShownDigest() != someApproval().GetCallDigest() {
			t.Fatalf("%v\n%s", w.gateway.votes, r.err)
		}
		if !strings.Contains(r.out, c.answer) || !strings.Contains(r.err, "sandbox_tier_c_linux_bubblewrap") {
			t.Errorf("stdout %q\nstderr %s", r.out, r.err)
		}
	}
}

// TestRunVoteRefused: a vote that the gateway does not take is explained, and
// an unreadable one may be given again.
func TestRunVoteRefused(t *testing.T) {
	w := newWorld(t)
	w.gateway.votesRefused = true
	w.gateway.runs.script = asking
	watch := newWatcher("--deny --reason TEXT")
	s := typing("o\n")
	s.Err = watch
	go func() {
		<-watch.seen
		w.gateway.change(func() { w.gateway.approvals[approvalID].State = palyrav1.ApprovalState_APPROVAL_STATE_EXPIRED })
	}()
	r := w.with(s, "--no-color", "run", "x")
	w.want(r, 0)
	if !strings.Contains(r.err, "nobody answers for their own call [PERMISSION_DENIED]") || !strings.Contains(r.err, "[1] denied: nobody answered in time [APPROVAL_EXPIRED]") {
		t.Error(r.err)
	}
}

// TestRunTwoQuestions: questions of calls side by side come one after the
// other, and the lines of other calls wait for the answers.
func TestRunTwoQuestions(t *testing.T) {
	second := someApproval()
	second.ApprovalId, second.Prompt.Summary = "01APPROVA20000000000000000", "The agent wants to write a file."
	w := newWorld(t)
	w.gateway.runs.script = func(r *fakeRun) {
		r.turn("", [3]string{"A", "process.run", `{}`}, [3]string{"B", "fs.write", `{}`}, [3]string{"C", "echo", `{}`})
		for _, id := range []string{"A", "B", "C"} {
			r.propose(id, id)
		}
		w.gateway.change(func() {
			w.gateway.approvals[approvalID] = someApproval()
			w.gateway.approvals[second.ApprovalId] = second
		})
		for i, v := range []*palyrav1.Approval{someApproval(), second} {
			r.call(string(rune('A'+i)), &palyrav1.CallToolResponse{Event: &palyrav1.CallToolResponse_ApprovalRequested{ApprovalRequested: &palyrav1.ApprovalRequested{Approval: v}}})
		}
		r.call("C", allowed())
		r.call("C", finished("succeeded", "", `{}`))
		for i, id := range []string{approvalID, second.ApprovalId} {
			state := func() palyrav1.ApprovalState { return w.gateway.approvals[id].GetState() }
			_ = w.gateway.wait(r.ctx, func() bool { return state() != palyrav1.ApprovalState_APPROVAL_STATE_PENDING })
			r.call(string(rune('A'+i)), &palyrav1.CallToolResponse{Event: &palyrav1.CallToolResponse_ApprovalResolved{ApprovalResolved: &palyrav1.ApprovalResolved{ApprovalId: id, State: state()}}})
		}
	}
	r := w.with(typing("o\no\n"), "--no-color", "run", "x")
	w.want(r, 0)
	if len(w.gateway.votes) != 2 || strings.Count(r.err, "answer>") != 2 {
		t.Fatalf("%d votes\n%s", len(w.gateway.votes), r.err)
	}
	first, other := strings.Index(r.err, "answer>"), strings.Index(r.err, "[3] succeeded")
	if other < first {
		t.Errorf("the other call's line moved the question:\n%s", r.err)
	}
}

// TestRunAsksNobodyWithoutTerminal: stderr says how to answer, and the answer
// from elsewhere lets the run go on.
func TestRunAsksNobodyWithoutTerminal(t *testing.T) {
	w := newWorld(t)
	w.gateway.runs.script = asking
	watch := newWatcher("--deny --reason TEXT")
	done := make(chan result)
	go func() { done <- w.with(Streams{Err: watch}, "run", "x") }()
	<-watch.seen
	w.want(w.run(decideArgs("--allow", "once")...), 0)
	r := <-done
	w.want(r, 0)
	if strings.Contains(r.err, "answer>") || !strings.Contains(r.err, "palyra approvals decide "+approvalID+" --allow once") || r.out != "Done.\n" {
		t.Errorf("stdout %q\nstderr %s", r.out, r.err)
	}
}

// TestRunAnsweredElsewhere: the question goes away, and so does its line.
func TestRunAnsweredElsewhere(t *testing.T) {
	w := newWorld(t)
	w.gateway.runs.script = asking
	watch := newWatcher("answer>")
	s, _ := terminal(t, watch)
	done := make(chan result)
	go func() { done <- w.with(s, "--no-color", "run", "x") }()
	<-watch.seen
	w.want(w.run(decideArgs("--allow", "once")...), 0)
	r := <-done
	w.want(r, 0)
	if !strings.Contains(r.err, "answer> \n[1] approval "+approvalID+": allowed\n") {
		t.Error(r.err)
	}
}

// TestRunInterrupt: Ctrl-C cancels the run and waits for its end; a second one
// leaves at once.
func TestRunInterrupt(t *testing.T) {
	for _, second := range []bool{false, true} {
		w := newWorld(t)
		w.gateway.runs.script = func(r *fakeRun) {
			r.delta("I think ")
			if second {
				<-r.ctx.Done()
				return
			}
			r.untilCancelled()
		}
		ctx, cancel := context.WithCancel(t.Context())
		again := make(chan struct{})
		w.again = again
		begun, cancelling := newWatcher("workspace demo"), newWatcher("cancelling the run")
		go func() { <-begun.seen; cancel() }()
		if second {
			go func() { <-cancelling.seen; close(again) }()
		}
		r := w.within(ctx, Streams{Err: io.MultiWriter(begun, cancelling)}, "run", "x")
		w.want(r, 1)
		want := "interrupted at the terminal\ncancelled: "
		if second {
			want = "leaving; the run is being cancelled: see `palyra runs show " + fakeRunID + "`"
		}
		if !strings.Contains(r.err, want) || !strings.Contains(r.err, "Ctrl-C again leaves at once") {
			t.Errorf("second %v: %s", second, r.err)
		}
	}
}

// TestRunInteractive: after each answer the next message is read, and Ctrl-D
// ends the run in order.
func TestRunInteractive(t *testing.T) {
	w := newWorld(t)
	var heard []string
	w.gateway.runs.script = func(r *fakeRun) {
		r.turn("What next?")
		for text := range r.messages {
			heard = append(heard, text)
			r.turn("You said " + text)
		}
	}
	r := w.with(typing("first\n\nsecond \x1b[2J\n"), "--no-color", "run", "-i", "hello")
	w.want(r, 0)
	w.gateway.runs.wait.Wait()
	if len(heard) != 2 || heard[0] != "first" || heard[1] != "second \x1b[2J" {
		t.Errorf("heard %q", heard)
	}
	if strings.Count(r.err, messageQuestion) != 4 || !strings.Contains(r.out, `You said second \u{1b}[2J`) {
		t.Errorf("stdout %q\nstderr %q", r.out, r.err)
	}
}

// TestRunQuestionInsteadOfMessage: somebody else's message can make a call ask
// while this person's next message is waited for. What is typed is the answer.
func TestRunQuestionInsteadOfMessage(t *testing.T) {
	w := newWorld(t)
	var heard []string
	w.gateway.runs.script = func(r *fakeRun) {
		r.turn("What next?")
		asking(r)
		for text := range r.messages {
			heard = append(heard, text)
		}
	}
	typed, keyboard, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer typed.Close()
	watch := newWatcher("answer>")
	s, _ := terminal(t, watch)
	s.In = typed
	go func() {
		defer keyboard.Close()
		<-watch.seen
		_, _ = io.WriteString(keyboard, "o\n")
	}()
	w.want(w.with(s, "--no-color", "run", "-i", "hello"), 0)
	w.gateway.runs.wait.Wait()
	if len(w.gateway.votes) != 1 || len(heard) != 0 {
		t.Errorf("votes %v, messages %q\n%s", w.gateway.votes, heard, watch.text.String())
	}
}

func TestRunDetach(t *testing.T) {
	w := newWorld(t)
	w.gateway.runs.script = func(r *fakeRun) { <-r.ctx.Done() }
	r := w.run("run", "--detach", "x")
	w.want(r, 0)
	if r.out != fakeRunID+"\n" || r.err != "" {
		t.Errorf("%q %q", r.out, r.err)
	}
	if r := w.with(Streams{ErrTerminal: true}, "run", "--detach", "x", "-o", "json"); !strings.Contains(r.out, `"state": "running"`) || !strings.Contains(r.err, "palyra runs watch "+fakeRunID) {
		t.Errorf("%q %q", r.out, r.err)
	}
}

// TestRunRetry: a failed request to the provider is told, and what it takes
// back is not in the answer.
func TestRunRetry(t *testing.T) {
	w := newWorld(t)
	w.gateway.runs.script = func(r *fakeRun) {
		r.delta("half of ")
		r.add(&palyrav1.RunEvent{Event: &palyrav1.RunEvent_ModelRetry{ModelRetry: &palyrav1.ModelRetry{Attempt: 1, Message: "overloaded", After: durationpb.New(2 * time.Second)}}})
		r.delta("the whole")
		r.turn("the whole")
	}
	r := w.with(Streams{OutTerminal: true, ErrTerminal: true, Width: 200}, "--no-color", "run", "x")
	w.want(r, 0)
	if r.out != "half of\nthe whole\n" || !strings.Contains(r.err, "the model's provider failed: overloaded; try 2 begins in 2s; what it said of this turn does not count\n") {
		t.Errorf("stdout %q\nstderr %q", r.out, r.err)
	}
}
