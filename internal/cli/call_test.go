package cli

import (
	"context"
	"encoding/json"
	"io"
	"strings"
	"testing"
	"time"

	palyrav1 "palyra/gen/palyra/v1"
)

// TestCallPrintsTheResultAlone: stdout is the result, byte for byte.
func TestCallPrintsTheResultAlone(t *testing.T) {
	w := newWorld(t)
	body := `{"text":"a\nb","n":1}`
	w.plays(allowed(), output("stdout", "provisional"), part(body[:5]), finishedParts(body, body[5:]), attested())
	for _, args := range [][]string{{}, {"-o", "json"}} {
		r := w.run(append([]string{"call", "echo"}, args...)...)
		w.want(r, 0)
		if r.out != body+"\n" || r.err != "" {
			t.Errorf("%v: stdout %q, stderr %q", args, r.out, r.err)
		}
	}
}

func part(body string) *palyrav1.CallToolResponse {
	return &palyrav1.CallToolResponse{Event: &palyrav1.CallToolResponse_Result{Result: &palyrav1.ToolResult{ResultJson: []byte(body), More: true}}}
}

func finishedParts(whole, last string) *palyrav1.CallToolResponse {
	r := finished("succeeded", "", whole)
	r.GetResult().ResultJson = []byte(last)
	return r
}

func TestCallFormats(t *testing.T) {
	w := newWorld(t)
	w.plays(allowed(), finished("succeeded", "", processJSON(2, "line one\nline two", "warn\n")), attested())
	table := w.run("call", "process.run", "-o", "table")
	w.want(table, 0)
	if table.out != "line one\nline two\n" {
		t.Errorf("stdout %q", table.out)
	}
	if want := "warn\nsucceeded, exit code 2, 1.5s, attestation 01ATTESTATION0000000000000 (journal 42)\n"; table.err != want {
		t.Errorf("stderr %q, want %q", table.err, want)
	}
	if r := w.run("call", "process.run", "-o", "name"); r.out != "01PROPOSAL0000000000000000\n" {
		t.Errorf("name: %q", r.out)
	}
	r := w.run("call", "process.run", "-o", "ndjson")
	w.want(r, 0)
	lines := strings.Split(strings.TrimSpace(r.out), "\n")
	if len(lines) != 4 {
		t.Fatalf("want 4 events, got %d: %s", len(lines), r.out)
	}
	for i, line := range lines {
		var e struct {
			APIVersion, Kind string
			Sequence         int
		}
		if err := json.Unmarshal([]byte(line), &e); err != nil || e.APIVersion != apiVersion || e.Kind != "CallEvent" || e.Sequence != i+1 {
			t.Errorf("%s: %+v %v", line, e, err)
		}
	}
	if r := w.run("call", "process.run", "-o", "yaml"); !strings.Contains(r.out, "outcome: succeeded\nresult: {\"stdout\":{") {
		t.Errorf("yaml: %s", r.out)
	}
}

// TestLiveOutput: a terminal shows what a tool writes while it runs, made
// visible, with characters that were cut between chunks whole, and only once.
func TestLiveOutput(t *testing.T) {
	w := newWorld(t)
	text := "grüße \x1b[2J🙂\n"
	cut := strings.Index(text, "ü") + 1
	w.plays(allowed(), output("stdout", text[:cut]), output("stdout", text[cut:]),
		finished("succeeded", "", processJSON(0, text, "")))
	r := w.with(Streams{OutTerminal: true}, "call", "process.run")
	w.want(r, 0)
	if want := "grüße \\u{1b}[2J🙂\n"; r.out != want {
		t.Errorf("got %q, want %q", r.out, want)
	}
}

// TestReadableInAPipe: with -o table a pipe gets what the program wrote to its
// stdout, and nothing else; its stderr and how it ended go to stderr.
func TestReadableInAPipe(t *testing.T) {
	for name, live := range map[string][]*palyrav1.CallToolResponse{
		"at once": nil, "live": {output("stderr", "warning: x\n"), output("stdout", "one\ntwo\n")},
	} {
		w := newWorld(t)
		events := append([]*palyrav1.CallToolResponse{allowed()}, live...)
		w.plays(append(events, finished("succeeded", "", processJSON(3, "one\ntwo\n", "warning: x\n")), attested())...)
		r := w.run("call", "process.run", "-o", "table")
		w.want(r, 0)
		if r.out != "one\ntwo\n" {
			t.Errorf("%s: stdout %q", name, r.out)
		}
		if want := "warning: x\nsucceeded, exit code 3, 1.5s"; !strings.HasPrefix(r.err, want) || strings.Count(r.err, "\n") != 2 {
			t.Errorf("%s: stderr %q", name, r.err)
		}
	}
}

// TestCallWaitsWithoutTerminal: nobody is asked, the command that answers is
// on stderr, and another process's answer lets the call go on.
func TestCallWaitsWithoutTerminal(t *testing.T) {
	w := newWorld(t)
	w.gateway.asks(someApproval(), finished("succeeded", "", `{"done":true}`))
	watch := newWatcher(approvalID)
	done := make(chan result)
	go func() { done <- w.with(Streams{Err: watch}, "call", "process.run") }()
	<-watch.seen
	w.want(w.run(decideArgs("--allow", "once")...), 0)
	r := <-done
	w.want(r, 0)
	if r.out != "{\"done\":true}\n" {
		t.Errorf("stdout %q", r.out)
	}
	if want := "palyra approvals decide " + approvalID + " --allow once --digest " + someApproval().GetCallDigest(); !strings.Contains(r.err, want) {
		t.Errorf("stderr does not name the command:\n%s", r.err)
	}
	if strings.Contains(r.err, "answer>") {
		t.Errorf("somebody was asked without a terminal:\n%s", r.err)
	}
}

// watcher closes seen once a text was written to it.
type watcher struct {
	want string
	text strings.Builder
	seen chan struct{}
	hit  bool
}

func newWatcher(want string) *watcher { return &watcher{want: want, seen: make(chan struct{})} }

func (w *watcher) Write(p []byte) (int, error) {
	w.text.Write(p)
	if !w.hit && strings.Contains(w.text.String(), w.want) {
		w.hit = true
		close(w.seen)
	}
	return len(p), nil
}

// TestAnswerInPlace: a person who may decide sees the whole call and answers.
func TestAnswerInPlace(t *testing.T) {
	for _, c := range []struct {
		name, typed string
		code        int
		check       func(t *testing.T, v *palyrav1.DecideApprovalRequest)
	}{
		{"once", "o\n", 0, func(t *testing.T, v *palyrav1.DecideApprovalRequest) {
			if !v.GetAllow() || v.GetScope() != palyrav1.ApprovalScope_APPROVAL_SCOPE_ONCE {
				t.Errorf("%v", v)
			}
		}},
		{"session", "s subject\n", 0, func(t *testing.T, v *palyrav1.DecideApprovalRequest) {
			if v.GetScope() != palyrav1.ApprovalScope_APPROVAL_SCOPE_SESSION || v.GetMatch() != palyrav1.GrantMatch_GRANT_MATCH_SUBJECT {
				t.Errorf("%v", v)
			}
		}},
		{"timeboxed", "x\nt\nt 5s\nallow timeboxed 2d exact\n", 0, func(t *testing.T, v *palyrav1.DecideApprovalRequest) {
			if v.GetScope() != palyrav1.ApprovalScope_APPROVAL_SCOPE_TIMEBOXED || v.GetTtl().AsDuration() != 48*time.Hour {
				t.Errorf("%v", v)
			}
		}},
		{"deny", "d\nd not today\n", 4, func(t *testing.T, v *palyrav1.DecideApprovalRequest) {
			if v.GetAllow() || v.GetReason() != "not today" {
				t.Errorf("%v", v)
			}
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			w := newWorld(t)
			w.gateway.asks(someApproval(), finished("succeeded", "", `{}`))
			r := w.with(typing(c.typed), "call", "process.run")
			w.want(r, c.code)
			if len(w.gateway.votes) != 1 {
				t.Fatalf("%d votes\n%s", len(w.gateway.votes), r.err)
			}
			v := w.gateway.votes[0]
			if v.GetShownDigest() != someApproval().GetCallDigest() || v.GetSurface() != "cli" {
				t.Errorf("digest and surface: %v", v)
			}
			c.check(t, v)
		})
	}
}

// changesApproval asks about what a program changed.
func changesApproval() *palyrav1.Approval {
	v := someApproval()
	v.SubjectId = "commit:default:sha256:" + strings.Repeat("9", 64)
	v.Prompt.Title, v.Prompt.Diff = "Commit changes to workspace default", "--- /dev/null\n+++ b/.git/hooks/pre-commit\n+#!/bin/sh\n"
	v.Prompt.Notes = []string{"Protected paths: .git/hooks/pre-commit"}
	return v
}

// TestAnswerForChanges: what a program changed is asked about while it runs; the
// change is shown before the program, and the answer ends the wait.
func TestAnswerForChanges(t *testing.T) {
	w := newWorld(t)
	v := changesApproval()
	w.gateway.play = func(ctx context.Context, req *palyrav1.CallToolRequest, send func(*palyrav1.CallToolResponse) error) error {
		w.gateway.change(func() { w.gateway.approvals[approvalID] = changesApproval() })
		err := play(send, allowed(),
			&palyrav1.CallToolResponse{Event: &palyrav1.CallToolResponse_Output{Output: &palyrav1.ToolOutputChunk{Stream: "stdout", Data: []byte("installed\n")}}},
			&palyrav1.CallToolResponse{Event: &palyrav1.CallToolResponse_ApprovalRequested{ApprovalRequested: &palyrav1.ApprovalRequested{Approval: v}}})
		if err != nil {
			return err
		}
		state := func() palyrav1.ApprovalState { return w.gateway.approvals[approvalID].GetState() }
		if err := w.gateway.wait(ctx, func() bool { return state() != palyrav1.ApprovalState_APPROVAL_STATE_PENDING }); err != nil {
			return err
		}
		return play(send,
			&palyrav1.CallToolResponse{Event: &palyrav1.CallToolResponse_ApprovalResolved{ApprovalResolved: &palyrav1.ApprovalResolved{ApprovalId: approvalID, State: palyrav1.ApprovalState_APPROVAL_STATE_ALLOWED}}},
			finished("succeeded", "", `{}`))
	}
	r := w.with(typing("o\n"), "--no-color", "call", "process.run")
	w.want(r, 0)
	if len(w.gateway.votes) != 1 || !w.gateway.votes[0].GetAllow() || w.gateway.votes[0].GetShownDigest() != v.GetCallDigest() {
		t.Fatalf("votes %v\n%s", w.gateway.votes, r.err)
	}
	diff, program := strings.Index(r.err, "  +#!/bin/sh"), strings.Index(r.err, "\nprogram ")
	if diff < 0 || program < diff || !strings.Contains(r.err, "Protected paths: .git/hooks/pre-commit") || strings.Count(r.err, "+#!/bin/sh") != 1 {
		t.Errorf("the prompt is\n%s", r.err)
	}
	w.gateway.change(func() { w.gateway.approvals[approvalID] = changesApproval() })
	show := w.run("approvals", "show", approvalID)
	w.want(show, 0)
	if !strings.Contains(show.out, "  +#!/bin/sh") || strings.Index(show.out, "Protected paths") > strings.Index(show.out, "argv") {
		t.Errorf("shown as\n%s", show.out)
	}
}

// TestInterruptAtTheGate: who leaves while changes wait is told what becomes of
// them.
func TestInterruptAtTheGate(t *testing.T) {
	w := newWorld(t)
	w.gateway.play = func(ctx context.Context, _ *palyrav1.CallToolRequest, send func(*palyrav1.CallToolResponse) error) error {
		if err := play(send, allowed(), &palyrav1.CallToolResponse{Event: &palyrav1.CallToolResponse_ApprovalRequested{ApprovalRequested: &palyrav1.ApprovalRequested{Approval: changesApproval()}}}); err != nil {
			return err
		}
		<-ctx.Done()
		return ctx.Err()
	}
	ctx, cancel := context.WithCancel(context.Background())
	watch := newWatcher("--deny --reason TEXT")
	go func() { <-watch.seen; cancel() }()
	r := w.within(ctx, Streams{Err: watch}, "call", "process.run")
	w.want(r, 1)
	if !strings.Contains(r.err, "what the call changed still waits for approval "+approvalID) {
		t.Errorf("the interrupt is not explained:\n%s", r.err)
	}
}

// TestWhoIsNotAsked: an agent, a user without a deciding role, and anybody
// under --no-input or CI are not asked. The control is TestAnswerInPlace.
func TestWhoIsNotAsked(t *testing.T) {
	for name, set := range map[string]func(w *world) []string{
		"agent": func(w *world) []string {
			w.gateway.caller = &palyrav1.Identity{Principal: "agent:claude", Roles: []string{"agent", "owner"}}
			return nil
		},
		"auditor": func(w *world) []string {
			w.gateway.caller = &palyrav1.Identity{Principal: "user:eve", Roles: []string{"auditor"}}
			return nil
		},
		"no input": func(*world) []string { return []string{"--no-input"} },
		"CI":       func(w *world) []string { w.env["CI"] = "true"; return nil },
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			w.gateway.asks(someApproval(), finished("succeeded", "", `{}`))
			args := append([]string{"call", "process.run"}, set(w)...)
			ctx, cancel := context.WithCancel(context.Background())
			watch := newWatcher("--deny --reason TEXT")
			go func() { <-watch.seen; cancel() }()
			s := typing("o\n")
			s.Err = watch
			r := w.within(ctx, s, args...)
			w.want(r, 1)
			if len(w.gateway.votes) != 0 || strings.Contains(r.err, "answer>") {
				t.Errorf("was asked:\n%s", r.err)
			}
			if !strings.Contains(r.err, "still waits for approval "+approvalID) {
				t.Errorf("the interrupt is not explained:\n%s", r.err)
			}
		})
	}
}

// TestPromptIsWholeAndVisible: the prompt and `approvals show` write the full
// arguments of a hostile call, and nothing that a terminal acts on.
func TestPromptIsWholeAndVisible(t *testing.T) {
	v := hostileApproval()
	w := newWorld(t)
	w.env["NO_COLOR"] = "1"
	w.gateway.asks(v, finished("succeeded", "", `{}`))
	prompt := w.with(typing("o\n"), "call", "process.run")
	w.want(prompt, 0)
	w.gateway.approvals[approvalID] = v
	terminal := Streams{OutTerminal: true, ErrTerminal: true, Width: 80}
	show := w.with(terminal, "--no-color", "approvals", "show", approvalID)
	w.want(show, 0)
	asJSON := w.with(terminal, "approvals", "show", approvalID, "-o", "json")
	asYAML := w.with(terminal, "approvals", "show", approvalID, "-o", "yaml")
	list := w.with(terminal, "--no-color", "approvals", "list", "-o", "wide")
	long := strings.Repeat("0123456789abcdef", 200<<10/16) + "THE-END"
	for name, text := range map[string]string{"prompt": prompt.err, "show": show.out, "json": asJSON.out, "yaml": asYAML.out, "list": list.out} {
		if i := strings.IndexFunc(text, unsafe); i >= 0 {
			t.Errorf("%s has %q", name, text[i:min(len(text), i+8)])
		}
		if name != "list" && !strings.Contains(text, long) {
			t.Errorf("%s does not show the whole arguments", name)
		}
	}
	for _, want := range []string{`\u{1b}[2J`, `\u{202e}gnp.exe\u{200b}`, v.GetCallDigest()} {
		if !strings.Contains(prompt.err, want) {
			t.Errorf("the prompt does not show %s", want)
		}
	}
	// The control: what the gateway sent does hold such characters.
	if !strings.ContainsFunc(v.GetPrompt().GetTitle(), unsafe) {
		t.Error("the approval is not hostile")
	}
}

// TestTypedAhead: a line that was typed before the question appeared does not
// answer it. The control is the same line without the arming time.
func TestTypedAhead(t *testing.T) {
	for _, arm := range []time.Duration{0, time.Hour} {
		w := newWorld(t)
		w.arm = arm
		w.gateway.asks(someApproval(), finished("succeeded", "", `{}`))
		ctx, cancel := context.WithCancel(context.Background())
		watch := newWatcher("left pending")
		go func() { <-watch.seen; cancel() }()
		s := typing("o\n")
		s.Err = watch
		r := w.within(ctx, s, "call", "process.run")
		cancel()
		if arm == 0 {
			w.want(r, 0)
			continue
		}
		w.want(r, 1)
		if len(w.gateway.votes) != 0 || !strings.Contains(r.err, "typed before the question could be read") {
			t.Errorf("%d votes\n%s", len(w.gateway.votes), r.err)
		}
	}
}

// TestAnsweredElsewhere: the question goes away when somebody else answers.
func TestAnsweredElsewhere(t *testing.T) {
	w := newWorld(t)
	w.gateway.asks(someApproval(), finished("succeeded", "", `{"done":true}`))
	typed, keyboard := io.Pipe()
	defer keyboard.Close()
	watch := newWatcher("answer>")
	s := typing("")
	s.In, s.Err = typed, watch
	done := make(chan result)
	go func() { done <- w.with(s, "call", "process.run") }()
	<-watch.seen
	w.want(w.run(decideArgs("--allow", "once")...), 0)
	r := <-done
	w.want(r, 0)
	if !strings.Contains(r.err, "approval "+approvalID+": allowed") {
		t.Error(r.err)
	}
}

func TestInput(t *testing.T) {
	w := newWorld(t)
	w.gateway.tools = []*palyrav1.Tool{{Name: "t", InputSchemaJson: []byte(`{"type":"object","properties":{
		"s":{"type":"string"},"n":{"type":"integer"},"b":{"type":"boolean"},"l":{"type":"array","items":{"type":"string"}},
		"m":{"type":"array","items":{"type":"number"}},"o":{"type":"object"},"u":{"type":["null","string"]}}}`)}}
	file := w.write("input.json", `{"from":"file"}`)
	for _, c := range []struct {
		args []string
		in   string
		want string
		code int
	}{
		{nil, "", "", 0},
		{[]string{"s=5", "n=5", "b=true"}, "", `{"s":"5","n":5,"b":true}`, 0},
		{[]string{"l=git", "l=status"}, "", `{"l":["git","status"]}`, 0},
		{[]string{"l=one"}, "", `{"l":["one"]}`, 0},
		{[]string{`l=["a","b"]`, "m=1", "m=2.5", `o={"x":1}`, "u=7", "z=&<>"}, "", `{"l":["a","b"],"m":[1,2.5],"o":{"x":1},"u":"7","z":"&<>"}`, 0},
		{[]string{`s:=null`}, "", `{"s":null}`, 0},
		{[]string{"--input", `{"a":1}`}, "", `{"a":1}`, 0},
		{[]string{"--input", "@" + file}, "", `{"from":"file"}`, 0},
		{[]string{"--input", "-"}, `{"from":"stdin"}`, `{"from":"stdin"}`, 0},
		{[]string{"n=x"}, "", "", 2},
		{[]string{"s=1", "s=2"}, "", "", 2},
		{[]string{"s=1", "s:=2"}, "", "", 2},
		{[]string{"s:=2", "s=1"}, "", "", 2},
		{[]string{"s:={"}, "", "", 2},
		{[]string{"alone"}, "", "", 2},
		{[]string{"--input", "@" + file, "s=1"}, "", "", 2},
		{[]string{"--input", "@/nowhere"}, "", "", 2},
		{[]string{"--input", "-"}, strings.Repeat("x", maxInput+1), "", 2},
	} {
		before := len(w.gateway.calls)
		r := w.with(Streams{In: strings.NewReader(c.in)}, append([]string{"call", "t"}, c.args...)...)
		if r.code != c.code {
			t.Errorf("%.80v: exit code %d, want %d: %s", c.args, r.code, c.code, r.err)
			continue
		}
		if c.code != 0 {
			if len(w.gateway.calls) != before {
				t.Errorf("%.80v was sent", c.args)
			}
			continue
		}
		if got := string(w.gateway.calls[before].GetInputJson()); got != c.want {
			t.Errorf("%v: sent %s, want %s", c.args, got, c.want)
		}
	}
}

// TestLostConnection: after a lost reply the error names the key that returns
// the result without running the call again.
func TestLostConnection(t *testing.T) {
	w := newWorld(t)
	w.gateway.play = func(context.Context, *palyrav1.CallToolRequest, func(*palyrav1.CallToolResponse) error) error {
		w.server.CloseClientConnections()
		return nil
	}
	r := w.run("call", "echo")
	if r.code == 0 || !strings.Contains(r.err, "--idempotency-key "+w.gateway.calls[0].GetIdempotencyKey()) {
		t.Errorf("exit code %d\n%s", r.code, r.err)
	}
	if r := w.run("call", "echo", "--idempotency-key", "mine"); r.code == 0 || w.gateway.calls[1].GetIdempotencyKey() != "mine" {
		t.Errorf("%v", w.gateway.calls[1])
	}
}
