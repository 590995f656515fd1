package calls_test

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"strings"
	"testing"
	"time"

	"connectrpc.com/connect"

	palyrav1 "palyra/gen/palyra/v1"
	"palyra/internal/cli/calls/ask"
	"palyra/internal/cli/clitest"
	"palyra/internal/cli/printer"
	"palyra/internal/core/reason"
)

// TestCallPrintsTheResultAlone: stdout is the result, byte for byte.
func TestCallPrintsTheResultAlone(t *testing.T) {
	t.Parallel()
	w := clitest.NewWorld(t)
	body := `{"text":"a\nb","n":1}`
	w.Plays(clitest.Allowed(), clitest.Output("stdout", "provisional"), part(body[:5]), finishedParts(body, body[5:]), clitest.Attested())
	for _, args := range [][]string{{}, {"-o", "json"}} {
		r := w.Run(append([]string{"call", "echo"}, args...)...)
		w.Want(r, 0)
		if r.Out != body+"\n" || r.Err != "" {
			t.Errorf("%v: stdout %q, stderr %q", args, r.Out, r.Err)
		}
	}
}

func part(body string) *palyrav1.CallToolResponse {
	return &palyrav1.CallToolResponse{Event: &palyrav1.CallToolResponse_Result{Result: &palyrav1.ToolResult{ResultJson: []byte(body), More: true}}}
}

func finishedParts(whole, last string) *palyrav1.CallToolResponse {
	r := clitest.Finished("succeeded", "", whole)
	r.GetResult().ResultJson = []byte(last)
	return r
}

func TestCallFormats(t *testing.T) {
	t.Parallel()
	w := clitest.NewWorld(t)
	w.Plays(clitest.Allowed(), clitest.Finished("succeeded", "", clitest.ProcessJSON(2, "line one\nline two", "warn\n")), clitest.Attested())
	table := w.Run("call", "process.run", "-o", "table")
	w.Want(table, 0)
	if table.Out != "line one\nline two\n" {
		t.Errorf("stdout %q", table.Out)
	}
	want := "warn\nended, exit code 2, 1.5s, attestation 01ATTESTATION0000000000000 (journal 42)\n" +
		"ran in sandbox_tier_c_linux_bubblewrap (bubblewrap 0.8.0), enforcement strict, egress strict to example.com:443, result sha256:"
	if !strings.HasPrefix(table.Err, want) || strings.Count(table.Err, "\n") != 3 {
		t.Errorf("stderr %q, want %q", table.Err, want)
	}
	if r := w.Run("call", "process.run", "-o", "name"); r.Out != "01PROPOSAL0000000000000000\n" {
		t.Errorf("name: %q", r.Out)
	}
	r := w.Run("call", "process.run", "-o", "ndjson")
	w.Want(r, 0)
	lines := strings.Split(strings.TrimSpace(r.Out), "\n")
	if len(lines) != 4 {
		t.Fatalf("want 4 events, got %d: %s", len(lines), r.Out)
	}
	for i, line := range lines {
		var e struct {
			APIVersion, Kind string
			Sequence         int
		}
		if err := json.Unmarshal([]byte(line), &e); err != nil || e.APIVersion != printer.ApiVersion || e.Kind != "CallEvent" || e.Sequence != i+1 {
			t.Errorf("%s: %+v %v", line, e, err)
		}
	}
	if r := w.Run("call", "process.run", "-o", "yaml"); !strings.Contains(r.Out, "outcome: succeeded\nresult: {\"stdout\":{") {
		t.Errorf("yaml: %s", r.Out)
	}
}

// TestLiveOutput: a terminal displays a tool's output while it runs, with visible control
// characters, without splitting characters at chunk borders, and only once.
func TestLiveOutput(t *testing.T) {
	t.Parallel()
	w := clitest.NewWorld(t)
	text := "grüße \x1b[2J🙂\n"
	cut := strings.Index(text, "ü") + 1
	w.Plays(clitest.Allowed(), clitest.Output("stdout", text[:cut]), clitest.Output("stdout", text[cut:]),
		clitest.Finished("succeeded", "", clitest.ProcessJSON(0, text, "")))
	r := w.With(printer.Streams{OutTerminal: true}, "call", "process.run")
	w.Want(r, 0)
	if want := "grüße \\u{1b}[2J🙂\n"; r.Out != want {
		t.Errorf("got %q, want %q", r.Out, want)
	}
}

// TestReadableInAPipe: with -o table, stdout gets only the program's stdout. The program's
// stderr and its exit are printed to stderr.
func TestReadableInAPipe(t *testing.T) {
	t.Parallel()
	for name, live := range map[string][]*palyrav1.CallToolResponse{
		"at once": nil, "live": {clitest.Output("stderr", "warning: x\n"), clitest.Output("stdout", "one\ntwo\n")},
	} {
		w := clitest.NewWorld(t)
		events := append([]*palyrav1.CallToolResponse{clitest.Allowed()}, live...)
		w.Plays(append(events, clitest.Finished("succeeded", "", clitest.ProcessJSON(3, "one\ntwo\n", "warning: x\n")), clitest.Attested())...)
		r := w.Run("call", "process.run", "-o", "table")
		w.Want(r, 0)
		if r.Out != "one\ntwo\n" {
			t.Errorf("%s: stdout %q", name, r.Out)
		}
		if want := "warning: x\nended, exit code 3, 1.5s"; !strings.HasPrefix(r.Err, want) || strings.Count(r.Err, "\n") != 3 {
			t.Errorf("%s: stderr %q", name, r.Err)
		}
	}
}

// TestCallWaitsWithoutTerminal: without a terminal, the command for the vote is printed to
// stderr instead of a prompt. A vote of another process continues the call.
func TestCallWaitsWithoutTerminal(t *testing.T) {
	t.Parallel()
	w := clitest.NewWorld(t)
	w.Gateway.Asks(clitest.SomeApproval(), clitest.Finished("succeeded", "", `{"done":true}`))
	watch := clitest.NewWatcher(clitest.ApprovalID)
	done := make(chan clitest.Result)
	go func() { done <- w.With(printer.Streams{Err: watch}, "call", "process.run") }()
	<-watch.Seen
	w.Want(w.Run(clitest.DecideArgs("--allow", "once")...), 0)
	r := <-done
	w.Want(r, 0)
	if r.Out != "{\"done\":true}\n" {
		t.Errorf("stdout %q", r.Out)
	}
	if want := clitest.SomeApproval().GetPrompt().GetSummary() + "\n"; !strings.Contains(r.Err, want) {
		t.Errorf("stderr does not say what waits:\n%s", r.Err)
	}
	if want := "palyra approvals decide " + clitest.ApprovalID + " --allow once --digest " + clitest.SomeApproval().GetCallDigest(); !strings.Contains(r.Err, want) {
		t.Errorf("stderr does not name the command:\n%s", r.Err)
	}
	if strings.Contains(r.Err, "answer>") {
		t.Errorf("somebody was asked without a terminal:\n%s", r.Err)
	}
}

// TestAnswerInPlace: an approver sees the whole call and votes at the prompt.
func TestAnswerInPlace(t *testing.T) {
	t.Parallel()
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
			w := clitest.NewWorld(t)
			w.Gateway.Asks(clitest.SomeApproval(), clitest.Finished("succeeded", "", `{}`))
			r := w.With(clitest.Typing(c.typed), "call", "process.run")
			w.Want(r, c.code)
			if len(w.Gateway.Votes) != 1 {
				t.Fatalf("%d votes\n%s", len(w.Gateway.Votes), r.Err)
			}
			v := w.Gateway.Votes[0]
			if v.GetShownDigest() != clitest.SomeApproval().GetCallDigest() || v.GetSurface() != "cli" {
				t.Errorf("digest and surface: %v", v)
			}
			c.check(t, v)
		})
	}
}

// The grant that permits a call is printed with the calls that it covers. It is not printed
// again for a call that was just approved at the prompt.
func TestCallPrintsItsGrant(t *testing.T) {
	t.Parallel()
	w := clitest.NewWorld(t)
	allowed := clitest.Allowed()
	allowed.GetDecision().GrantId, allowed.GetDecision().GrantCovers = "01GRANT0000000000000000000", clitest.AnyGit
	w.Plays(allowed, clitest.Finished("succeeded", "", `{}`))
	r := w.Run("call", "process.run")
	w.Want(r, 0)
	if want := "allowed by grant 01GRANT0000000000000000000: " + clitest.AnyGit + "\n"; r.Err != want {
		t.Errorf("stderr %q, want %q", r.Err, want)
	}
	w = clitest.NewWorld(t)
	w.Plays(clitest.Allowed(), clitest.Finished("succeeded", "", `{}`))
	if r := w.Run("call", "process.run"); r.Err != "" {
		t.Errorf("without a grant stderr is %q", r.Err)
	}
}

// changesApproval returns an approval request for a program's changes.
func changesApproval() *palyrav1.Approval {
	v := clitest.SomeApproval()
	v.SubjectId = "commit:default:sha256:" + strings.Repeat("9", 64)
	v.Prompt.Title, v.Prompt.Diff = "Commit changes to workspace default", "--- /dev/null\n+++ b/.git/hooks/pre-commit\n+#!/bin/sh\n"
	v.Prompt.Notes = []string{"Protected paths: .git/hooks/pre-commit"}
	return v
}

// TestAnswerForChanges: the approval of a program's changes is requested while the program
// runs. The prompt shows the changes before the program, and the vote ends the wait.
func TestAnswerForChanges(t *testing.T) {
	t.Parallel()
	w := clitest.NewWorld(t)
	v := changesApproval()
	w.Gateway.Play = func(ctx context.Context, req *palyrav1.CallToolRequest, send func(*palyrav1.CallToolResponse) error) error {
		w.Gateway.Change(func() { w.Gateway.Approvals[clitest.ApprovalID] = changesApproval() })
		err := clitest.Play(send, clitest.Allowed(),
			&palyrav1.CallToolResponse{Event: &palyrav1.CallToolResponse_Output{Output: &palyrav1.ToolOutputChunk{Stream: "stdout", Data: []byte("installed\n")}}},
			&palyrav1.CallToolResponse{Event: &palyrav1.CallToolResponse_ApprovalRequested{ApprovalRequested: &palyrav1.ApprovalRequested{Approval: v}}})
		if err != nil {
			return err
		}
		state := func() palyrav1.ApprovalState { return w.Gateway.Approvals[clitest.ApprovalID].GetState() }
		if err := w.Gateway.Wait(ctx, func() bool { return state() != palyrav1.ApprovalState_APPROVAL_STATE_PENDING }); err != nil {
			return err
		}
		return clitest.Play(send,
			&palyrav1.CallToolResponse{Event: &palyrav1.CallToolResponse_ApprovalResolved{ApprovalResolved: &palyrav1.ApprovalResolved{ApprovalId: clitest.ApprovalID, State: palyrav1.ApprovalState_APPROVAL_STATE_ALLOWED}}},
			clitest.Finished("succeeded", "", `{}`))
	}
	r := w.With(clitest.Typing("?\no\n"), "--no-color", "call", "process.run")
	w.Want(r, 0)
	if len(w.Gateway.Votes) != 1 || !w.Gateway.Votes[0].GetAllow() || w.Gateway.Votes[0].GetShownDigest() != v.GetCallDigest() {
		t.Fatalf("votes %v\n%s", w.Gateway.Votes, r.Err)
	}
	diff, program := strings.Index(r.Err, "  +#!/bin/sh"), strings.Index(r.Err, "\nprogram ")
	if diff < 0 || program < diff || !strings.Contains(r.Err, "Protected paths: .git/hooks/pre-commit") || strings.Count(r.Err, "+#!/bin/sh") != 2 { // in brief and in full
		t.Errorf("the prompt is\n%s", r.Err)
	}
	w.Gateway.Change(func() { w.Gateway.Approvals[clitest.ApprovalID] = changesApproval() })
	show := w.Run("approvals", "show", clitest.ApprovalID)
	w.Want(show, 0)
	if !strings.Contains(show.Out, "  +#!/bin/sh") || strings.Index(show.Out, "Protected paths") > strings.Index(show.Out, "argv") {
		t.Errorf("shown as\n%s", show.Out)
	}
}

// TestInterruptAtTheGate: an interrupt while changes wait for approval prints what happens to
// the changes.
func TestInterruptAtTheGate(t *testing.T) {
	t.Parallel()
	w := clitest.NewWorld(t)
	w.Gateway.Play = func(ctx context.Context, _ *palyrav1.CallToolRequest, send func(*palyrav1.CallToolResponse) error) error {
		if err := clitest.Play(send, clitest.Allowed(), &palyrav1.CallToolResponse{Event: &palyrav1.CallToolResponse_ApprovalRequested{ApprovalRequested: &palyrav1.ApprovalRequested{Approval: changesApproval()}}}); err != nil {
			return err
		}
		<-ctx.Done()
		return ctx.Err()
	}
	ctx, cancel := context.WithCancel(context.Background())
	watch := clitest.NewWatcher("--deny --reason TEXT")
	go func() { <-watch.Seen; cancel() }()
	r := w.Within(ctx, printer.Streams{Err: watch}, "call", "process.run")
	w.Want(r, 130)
	if !strings.Contains(r.Err, "the changes of the call are still waiting for approval "+clitest.ApprovalID) {
		t.Errorf("the interrupt is not explained:\n%s", r.Err)
	}
}

// TestCallersWithoutAPrompt: an agent, a user without a deciding role, and any caller under
// --no-input or CI get no prompt. Control: TestAnswerInPlace.
func TestCallersWithoutAPrompt(t *testing.T) {
	t.Parallel()
	for name, set := range map[string]func(w *clitest.World) []string{
		"agent": func(w *clitest.World) []string {
			w.Gateway.Caller = &palyrav1.Identity{Principal: "agent:claude", Roles: []string{"agent", "owner"}}
			return nil
		},
		"auditor": func(w *clitest.World) []string {
			w.Gateway.Caller = &palyrav1.Identity{Principal: "user:eve", Roles: []string{"auditor"}}
			return nil
		},
		"no input": func(*clitest.World) []string { return []string{"--no-input"} },
		"CI":       func(w *clitest.World) []string { w.Env["CI"] = "true"; return nil },
	} {
		t.Run(name, func(t *testing.T) {
			w := clitest.NewWorld(t)
			w.Gateway.Asks(clitest.SomeApproval(), clitest.Finished("succeeded", "", `{}`))
			args := append([]string{"call", "process.run"}, set(w)...)
			ctx, cancel := context.WithCancel(context.Background())
			watch := clitest.NewWatcher("--deny --reason TEXT")
			go func() { <-watch.Seen; cancel() }()
			s := clitest.Typing("o\n")
			s.Err = watch
			r := w.Within(ctx, s, args...)
			w.Want(r, 130)
			if len(w.Gateway.Votes) != 0 || strings.Contains(r.Err, "answer>") {
				t.Errorf("was asked:\n%s", r.Err)
			}
			if !strings.Contains(r.Err, "still waiting for approval "+clitest.ApprovalID) {
				t.Errorf("the interrupt is not explained:\n%s", r.Err)
			}
		})
	}
}

// TestPromptIsWholeAndVisible: the prompt and `approvals show` print the full arguments of a
// hostile call without control characters.
func TestPromptIsWholeAndVisible(t *testing.T) {
	t.Parallel()
	v := clitest.HostileApproval()
	w := clitest.NewWorld(t)
	w.Env["NO_COLOR"] = "1"
	w.Gateway.Asks(v, clitest.Finished("succeeded", "", `{}`))
	prompt := w.With(clitest.Typing("?\no\n"), "call", "process.run")
	w.Want(prompt, 0)
	w.Gateway.Approvals[clitest.ApprovalID] = v
	terminal := printer.Streams{OutTerminal: true, ErrTerminal: true, Width: 80}
	show := w.With(terminal, "--no-color", "approvals", "show", clitest.ApprovalID)
	w.Want(show, 0)
	asJSON := w.With(terminal, "approvals", "show", clitest.ApprovalID, "-o", "json")
	asYAML := w.With(terminal, "approvals", "show", clitest.ApprovalID, "-o", "yaml")
	list := w.With(terminal, "--no-color", "approvals", "list", "-o", "wide")
	long := strings.Repeat("0123456789abcdef", 200<<10/16) + "THE-END"
	for name, text := range map[string]string{"prompt": prompt.Err, "show": show.Out, "json": asJSON.Out, "yaml": asYAML.Out, "list": list.Out} {
		if i := strings.IndexFunc(text, clitest.Unsafe); i >= 0 {
			t.Errorf("%s has %q", name, text[i:min(len(text), i+8)])
		}
		if name != "list" && !strings.Contains(text, long) {
			t.Errorf("%s does not show the whole arguments", name)
		}
	}
	for _, want := range []string{`\u{1b}[2J`, `\u{202e}gnp.exe\u{200b}`, v.GetCallDigest()} {
		if !strings.Contains(prompt.Err, want) {
			t.Errorf("the prompt does not show %s", want)
		}
	}
	// Control: the approval contains such characters.
	if !strings.ContainsFunc(v.GetPrompt().GetTitle(), clitest.Unsafe) {
		t.Error("the approval is not hostile")
	}
}

// TestTypedAhead: a line that was typed before the prompt appeared is not an answer. Control:
// without the arming time the same line is one.
func TestTypedAhead(t *testing.T) {
	t.Parallel()
	for _, arm := range []time.Duration{0, time.Hour} {
		w := clitest.NewWorld(t)
		w.Arm = arm
		w.Gateway.Asks(clitest.SomeApproval(), clitest.Finished("succeeded", "", `{}`))
		ctx, cancel := context.WithCancel(context.Background())
		watch := clitest.NewWatcher("left pending")
		go func() { <-watch.Seen; cancel() }()
		s := clitest.Typing("o\n")
		s.Err = watch
		r := w.Within(ctx, s, "call", "process.run")
		cancel()
		if arm == 0 {
			w.Want(r, 0)
			continue
		}
		w.Want(r, 130)
		if len(w.Gateway.Votes) != 0 || !strings.Contains(r.Err, "typed before the question could be read") {
			t.Errorf("%d votes\n%s", len(w.Gateway.Votes), r.Err)
		}
	}
}

// TestAnsweredElsewhere: the prompt ends when another client votes.
func TestAnsweredElsewhere(t *testing.T) {
	t.Parallel()
	w := clitest.NewWorld(t)
	w.Gateway.Asks(clitest.SomeApproval(), clitest.Finished("succeeded", "", `{"done":true}`))
	typed, keyboard := io.Pipe()
	defer keyboard.Close()
	watch := clitest.NewWatcher("answer>")
	s := clitest.Typing("")
	s.In, s.Err = typed, watch
	done := make(chan clitest.Result)
	go func() { done <- w.With(s, "call", "process.run") }()
	<-watch.Seen
	w.Want(w.Run(clitest.DecideArgs("--allow", "once")...), 0)
	r := <-done
	w.Want(r, 0)
	if !strings.Contains(r.Err, "approval "+clitest.ApprovalID+": allowed") {
		t.Error(r.Err)
	}
}

func TestInput(t *testing.T) {
	t.Parallel()
	w := clitest.NewWorld(t)
	w.Gateway.Tools = []*palyrav1.Tool{{Name: "t", InputSchemaJson: []byte(`{"type":"object","properties":{
		"s":{"type":"string"},"n":{"type":"integer"},"b":{"type":"boolean"},"l":{"type":"array","items":{"type":"string"}},
		"m":{"type":"array","items":{"type":"number"}},"o":{"type":"object"},"u":{"type":["null","string"]}}}`)}}
	file := w.Write("input.json", `{"from":"file"}`)
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
		{[]string{"--input", "-"}, strings.Repeat("x", ask.MaxInput+1), "", 2},
	} {
		before := len(w.Gateway.Calls)
		r := w.With(printer.Streams{In: strings.NewReader(c.in)}, append([]string{"call", "t"}, c.args...)...)
		if r.Code != c.code {
			t.Errorf("%.80v: exit code %d, want %d: %s", c.args, r.Code, c.code, r.Err)
			continue
		}
		if c.code != 0 {
			if len(w.Gateway.Calls) != before {
				t.Errorf("%.80v was sent", c.args)
			}
			continue
		}
		if got := string(w.Gateway.Calls[before].GetInputJson()); got != c.want {
			t.Errorf("%v: sent %s, want %s", c.args, got, c.want)
		}
	}
}

// TestLostConnection: after a lost reply the error names the key that returns
// the result without running the call again.
func TestLostConnection(t *testing.T) {
	t.Parallel()
	w := clitest.NewWorld(t)
	w.Gateway.Play = func(context.Context, *palyrav1.CallToolRequest, func(*palyrav1.CallToolResponse) error) error {
		w.Server.CloseClientConnections()
		return nil
	}
	r := w.Run("call", "echo")
	if r.Code == 0 || !strings.Contains(r.Err, "--idempotency-key "+w.Gateway.Calls[0].GetIdempotencyKey()) {
		t.Errorf("exit code %d\n%s", r.Code, r.Err)
	}
	if r := w.Run("call", "echo", "--idempotency-key", "mine"); r.Code == 0 || w.Gateway.Calls[1].GetIdempotencyKey() != "mine" {
		t.Errorf("%v", w.Gateway.Calls[1])
	}
}

// TestOwnCall: a user who cannot approve gets the names of the approvers, and the call keeps
// waiting. Control: TestAnswerInPlace, with one user.
func TestOwnCall(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		set   func(*clitest.Gateway)
		votes int
		asked bool
	}{
		"several users": {func(f *clitest.Gateway) { f.Several = true }, 0, false},
		"refused":       {func(f *clitest.Gateway) { f.VotesRefused = true }, 1, true},
	} {
		t.Run(name, func(t *testing.T) {
			w := clitest.NewWorld(t)
			c.set(w.Gateway)
			w.Gateway.Asks(clitest.SomeApproval(), clitest.Finished("succeeded", "", `{}`))
			ctx, cancel := context.WithCancel(context.Background())
			watch := clitest.NewWatcher("--deny --reason TEXT")
			go func() { <-watch.Seen; cancel() }()
			s := clitest.Typing("o\no\n")
			s.Err = watch
			r := w.Within(ctx, s, "call", "process.run")
			w.Want(r, 130)
			if len(w.Gateway.Votes) != c.votes || strings.Contains(r.Err, "answer>") != c.asked || !strings.Contains(r.Err, "still waiting for approval") {
				t.Errorf("%d votes\n%s", len(w.Gateway.Votes), r.Err)
			}
		})
	}
}

// TestCallWithoutAGateway: the error names the connection, also if the arguments cannot be
// parsed without the tool's schema.
func TestCallWithoutAGateway(t *testing.T) {
	t.Parallel()
	w := clitest.NewWorld(t)
	w.Gateway.Change(func() { w.Gateway.Fail = connect.NewError(connect.CodeUnavailable, errors.New("down")) })
	r := w.Run("call", "process.run", "argv=git", "argv=status")
	w.Want(r, reason.Lookup(reason.NotConnected).Exit)
	if strings.Contains(r.Err, "DUPLICATE_KEY") {
		t.Errorf("says %s", r.Err)
	}
	// Control: with a gateway, the error is about the arguments.
	w.Gateway.Change(func() {
		w.Gateway.Fail, w.Gateway.Tools = nil, []*palyrav1.Tool{{Name: "process.run", InputSchemaJson: []byte(`{"properties":{"argv":{"type":"string"}}}`)}}
	})
	if r := w.Run("call", "process.run", "argv=git", "argv=status"); !strings.Contains(r.Err, "DUPLICATE_KEY") {
		t.Errorf("says %s", r.Err)
	}
}

// TestCallOfAHiddenTool: the arguments of a hidden tool are parsed by its schema. The arguments
// of an unknown tool are parsed without one, so that the gateway returns the error.
func TestCallOfAHiddenTool(t *testing.T) {
	t.Parallel()
	w := clitest.NewWorld(t)
	w.Populate()
	w.Gateway.Hidden[0].Tool.InputSchemaJson = []byte(`{"properties":{"l":{"type":"array"},"n":{"type":"integer"}}}`)
	w.Plays(clitest.DeniedFor(reason.PolicyDenied, "no pages"))
	for tool, want := range map[string]string{"http.fetch": `{"l":["a"],"n":5}`, "nobody.knows": `{"l":"a","n":"5"}`} {
		w.Want(w.Run("call", tool, "l=a", "n=5"), reason.Lookup(reason.PolicyDenied).Exit)
		if got := w.Gateway.Calls[len(w.Gateway.Calls)-1]; got.GetTool() != tool || string(got.GetInputJson()) != want {
			t.Errorf("%s is proposed as %v, want %s", tool, got, want)
		}
	}
	w.Want(w.Run("call", "nobody.knows", "l=a", "l=b"), reason.Lookup(reason.PolicyDenied).Exit)
	// The list prints the number of hidden tools, and nothing to a caller that gets none.
	const line = "1 hidden: palyra tools list --hidden\n"
	if r := w.Run("tools"); r.Err != line {
		t.Errorf("the list says %q", r.Err)
	}
	if r := w.Run("tools", "-o", "json"); r.Err != "" {
		t.Errorf("the list for programs says %q", r.Err)
	}
	w.Gateway.Hidden = nil
	if r := w.Run("tools"); r.Err != "" {
		t.Errorf("the list says %q", r.Err)
	}
	w.Want(w.Run("tools", "show", "http.fetch"), reason.Lookup(reason.UnknownTool).Exit)
}
