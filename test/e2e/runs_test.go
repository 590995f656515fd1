//go:build linux

package e2e

import (
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"connectrpc.com/connect"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/durationpb"

	palyrav1 "palyra/gen/palyra/v1"
	"palyra/internal/run/model"
	"palyra/internal/run/model/modeltest"
	"palyra/test/process"
)

// pair makes two reading calls concurrently, and then one that writes.
const pair = `turns:
  - text: I look at two things.
    calls:
      - {tool: fs.read, input: {path: a.txt}}
      - {tool: echo, input: {text: hi}}
  - expect:
      - {result: 1, matches: hello}
      - {result: 2, matches: hi}
    calls:
      - {tool: fs.write, input: {path: b.txt, content: new}}
  - text: It is written.
`

// onTheStream requires a vote that was cast on the stream of a run.
const onTheStream = `@id("on-the-stream")
@reason("writes are allowed where the run can be seen")
forbid(principal, action == Action::"tool.execute/fs.write", resource)
unless {
  context.approval.votes.contains({ role: "*", surface: "stream", paired: true, present: false })
};
`

// TestRunWithAnApprovalOnTheStream: an agent's run makes two concurrent calls and waits for
// approval. The agent's own vote is refused; its owner votes on another stream.
func TestRunWithAnApprovalOnTheStream(t *testing.T) {
	t.Parallel()
	g := newGateway(t)
	g.script("pair", pair)
	g.policy("10.cedar", onTheStream)
	g.Start()
	agent, owner := g.add("helper", "--owner", "local", "--role", "agent"), g.local()
	s := agent.api().open(starts("write it down"))
	id := s.started()
	asked := s.asked()
	s.vote(asked)
	refused := s.until("a refusal", func(m *palyrav1.RunStreamResponse) bool { return m.GetRefused() != nil }).GetRefused()
	if refused.GetReason() != "PERMISSION_DENIED" || refused.GetApprovalId() != asked.GetApprovalId() {
		t.Errorf("the agent's vote: %v", refused)
	}
	if g.Read("b.txt") != "" {
		t.Fatal("the call ran before anybody allowed it")
	}
	inline := owner.api().open(resumes(id, 0))
	inline.vote(inline.asked())
	if run := s.finished(); run.GetState() != palyrav1.RunState_RUN_STATE_COMPLETED || run.GetUsage().GetCalls() != 3 || g.Read("b.txt") != "new" {
		t.Errorf("finished as %v; the file holds %q", run, g.Read("b.txt"))
	}
	if a := owner.approval(asked.GetApprovalId()); len(a.Votes) != 1 || a.Votes[0].User != "user:local" || a.Votes[0].Surface != "stream" || a.State != "consumed" {
		t.Errorf("the approval is %+v", a)
	}
	inline.finished()
	if got, want := sequences(lasting(inline.events)), sequences(lasting(s.events)); !slices.Equal(got, want) {
		t.Errorf("the two streams have the events %v and %v", got, want)
	}
	// The order within each call is fixed.
	calls := map[string][]string{}
	for i, e := range lasting(s.events) {
		if e.GetCallId() != "" {
			calls[e.GetCallId()] = append(calls[e.GetCallId()], kinds(lasting(s.events)[i:i+1])...)
		}
	}
	for call, want := range map[string][]string{
		"call_1_1": {"Proposed", "Decision", "Result", "Attestation"},
		"call_1_2": {"Proposed", "Decision", "Result", "Attestation"},
		"call_2_1": {"Proposed", "ApprovalRequested", "ApprovalResolved", "Decision", "Result", "Attestation"},
	} {
		if !slices.Equal(calls[call], want) {
			t.Errorf("%s: %v, want %v", call, calls[call], want)
		}
	}
	owner.ok("journal", "verify")
}

// TestRunOutlivesItsStream disconnects a stream, and reads the rest on a new one.
func TestRunOutlivesItsStream(t *testing.T) {
	t.Parallel()
	g := newGateway(t)
	g.script("slow", "turns:\n  - text: one two three\n    delay: 20ms\n    calls:\n      - {tool: sleep, input: {duration_ms: 300}}\n  - text: four\n")
	g.Start()
	a := g.local().api()
	first := a.open(starts("go on without me"))
	id := first.started()
	first.until("a call", func(m *palyrav1.RunStreamResponse) bool { return m.GetEvent().GetProposed() != nil })
	first.leave()
	seen := first.events[len(first.events)-1].GetSequence()
	second := a.open(resumes(id, seen))
	if run := second.finished(); run.GetState() != palyrav1.RunState_RUN_STATE_COMPLETED {
		t.Errorf("finished as %v", run)
	}
	whole := lasting(a.tape(id, 0))
	both := slices.Concat(lasting(first.events), lasting(second.events))
	if !slices.EqualFunc(whole, both, func(a, b *palyrav1.RunEvent) bool { return proto.Equal(a, b) }) {
		t.Errorf("the two streams have %v, the tape has %v", kinds(both), kinds(whole))
	}
}

// TestKilledUnderARun: after the restart the run is interrupted, and its tape is the earlier
// one plus the end.
func TestKilledUnderARun(t *testing.T) {
	t.Parallel()
	g := newGateway(t)
	g.script("pair", pair)
	g.Start()
	s := g.local().api().open(starts("write it down"))
	id := s.started()
	asked := s.asked()
	g.Kill()
	g.Start()
	a := g.local().api()
	run := a.run(id)
	if run.GetState() != palyrav1.RunState_RUN_STATE_INTERRUPTED || run.GetReason() != "RUN_INTERRUPTED" || run.GetUsage().GetCalls() != 3 || run.GetEndedAt() == nil {
		t.Errorf("after the restart the run is %v", run)
	}
	list, err := a.ListRuns(t.Context(), &palyrav1.ListRunsRequest{States: []palyrav1.RunState{palyrav1.RunState_RUN_STATE_INTERRUPTED}})
	if err != nil || len(list.GetRuns()) != 1 || list.GetRuns()[0].GetRunId() != id {
		t.Errorf("listed as interrupted: %v, %v", list.GetRuns(), err)
	}
	before, after := lasting(s.events), a.tape(id, 0)
	if got := sequences(after); len(got) != len(before)+1 || !slices.Equal(got[:len(before)], sequences(before)) {
		t.Errorf("the tape has the events %v, and had %v", got, sequences(before))
	}
	if end := after[len(after)-1].GetFinished().GetRun(); end.GetState() != palyrav1.RunState_RUN_STATE_INTERRUPTED {
		t.Errorf("the last event is %v", after[len(after)-1])
	}
	if p := g.local().approval(asked.GetApprovalId()); p.State != "pending" || !p.RunGone {
		t.Errorf("the approval is %+v", p)
	}
	if g.Read("b.txt") != "" {
		t.Error("the call ran")
	}
	g.local().ok("journal", "verify")
}

// TestStopUnderARun: at an orderly stop, the stream receives the end of the run.
func TestStopUnderARun(t *testing.T) {
	t.Parallel()
	g := newGateway(t)
	g.script("pair", pair)
	g.Start()
	s := g.local().api().open(starts("write it down"))
	s.asked()
	g.Signal(15)
	if run := s.finished(); run.GetState() != palyrav1.RunState_RUN_STATE_INTERRUPTED {
		t.Errorf("finished as %v", run)
	}
	g.Wait(g.T)
}

// TestCancelReachesTheProvider cancels a run while the provider streams.
func TestCancelReachesTheProvider(t *testing.T) {
	t.Parallel()
	g := newGateway(t)
	server := modeltest.Anthropic(t, modeltest.File("cut-in-call").Stalled())
	g.model("claude", "anthropic", server.URL, modeltest.Key)
	g.Start()
	a := g.local().api()
	s := a.open(starts("hello"))
	id := s.started()
	within(t, "the provider streams", server.Stalling())
	res, err := a.CancelRun(t.Context(), &palyrav1.CancelRunRequest{RunId: id, Reason: "changed my mind"})
	if err != nil || res.GetRun().GetState() != palyrav1.RunState_RUN_STATE_CANCELLED {
		t.Errorf("cancelled as %v, %v", res.GetRun(), err)
	}
	within(t, "the provider's client left", server.Gone())
	if run := s.finished(); run.GetCancelledBy() != "user:local" || !strings.Contains(run.GetDetail(), "changed my mind") {
		t.Errorf("finished as %v", run)
	}
	if _, err := a.CancelRun(t.Context(), &palyrav1.CancelRunRequest{RunId: id}); connect.CodeOf(err) != connect.CodeFailedPrecondition {
		t.Errorf("a second cancel: %v", err)
	}
}

// TestStreamCutInACall: a provider's stream breaks in the middle of a tool call. The call is
// not made, and the request is repeated once.
func TestStreamCutInACall(t *testing.T) {
	t.Parallel()
	read := modeltest.Turn(model.Turn{Stop: model.ToolUse, Calls: []model.Call{{ID: "call_1", Tool: "fs.read", Input: []byte(`{"path":"a.txt"}`)}}})
	done := modeltest.Turn(model.Turn{Text: "It says hello.", Stop: model.EndTurn})
	fixtures := []modeltest.Fixture{modeltest.File("cut-in-call"), read, done}
	g := newGateway(t)
	servers := map[string]*modeltest.Server{"anthropic": modeltest.Anthropic(t, fixtures...), "openai": modeltest.OpenAI(t, fixtures...)}
	for provider, server := range servers {
		g.model(provider, provider, server.URL, modeltest.Key)
	}
	g.Start()
	for provider, server := range servers {
		s := g.local().api().open(starts("what does it say?", func(r *palyrav1.StartRunRequest) { r.Model = provider }))
		if run := s.finished(); run.GetState() != palyrav1.RunState_RUN_STATE_COMPLETED || run.GetUsage().GetCalls() != 1 {
			t.Errorf("%s: finished as %v", provider, run)
		}
		count := map[string]int{}
		for _, kind := range kinds(s.events) {
			count[kind]++
		}
		if count["ModelRetry"] != 1 || count["Proposed"] != 1 || count["ModelTurn"] != 2 {
			t.Errorf("%s: the events are %v", provider, kinds(s.events))
		}
		if requests := server.Requests(); len(requests) != 3 || !strings.Contains(string(requests[2].Body), "hello") {
			t.Errorf("%s: %d requests; the last should have the result", provider, len(requests))
		}
	}
	if g.Read("a.txt") != "hello\n" {
		t.Errorf("the file holds %q: half a call was made", g.Read("a.txt"))
	}
}

// TestRunBudgets exhausts each budget.
func TestRunBudgets(t *testing.T) {
	t.Parallel()
	g := newGateway(t)
	g.script("endless", "repeat: true\nturns:\n  - calls:\n      - {tool: sleep, input: {duration_ms: 10}}\n    usage: {input: 300, output: 100}\n")
	g.Start()
	a := g.local().api()
	for want, budget := range map[string]*palyrav1.RunBudget{
		"BUDGET_EXCEEDED":       {Calls: 3},
		"TOKEN_BUDGET_EXCEEDED": {Tokens: 1000},
		"TIME_BUDGET_EXCEEDED":  {WallClock: durationpb.New(300 * time.Millisecond)},
	} {
		run := a.open(starts("go", func(r *palyrav1.StartRunRequest) { r.Budget = budget })).finished()
		if run.GetState() != palyrav1.RunState_RUN_STATE_FAILED || run.GetReason() != want || run.GetDetail() == "" || run.GetRemedy() == "" {
			t.Errorf("%s: finished as %v", want, run)
		}
	}
	_, err := a.StartRun(t.Context(), &palyrav1.StartRunRequest{Message: "go", Budget: &palyrav1.RunBudget{Calls: 1_000_000}})
	if connect.CodeOf(err) != connect.CodeInvalidArgument {
		t.Errorf("more than the gateway's bound: %v", err)
	}
}

// TestRunsArePrivate: the runs of an agent are visible neither to the agent of another user nor to
// that user; an operator can see them.
func TestRunsArePrivate(t *testing.T) {
	t.Parallel()
	g := newGateway(t)
	g.script("short", "turns:\n  - text: done\n")
	g.Start()
	dan := g.add("dan", "--role", "developer")
	ids := map[string]string{}
	his := g.add("his", "--owner", "dan", "--role", "agent")
	his.run("tools").Want(t, 6, "agent:his waits for the consent of user:dan")
	dan.ok("members", "consent", "his")
	clients := map[string]api{
		"dan": dan.api(), "dan's": his.api(),
		"local's": g.add("hers", "--owner", "local", "--role", "agent").api(), "local": g.local().api(),
	}
	for name, c := range clients {
		s := c.open(starts("hello"))
		ids[name] = s.started()
		s.finished()
	}
	for name, sees := range map[string][]string{
		"dan": {"dan", "dan's"}, "dan's": {"dan's"}, "local's": {"local's"}, "local": {"dan", "dan's", "local", "local's"},
	} {
		list, err := clients[name].ListRuns(t.Context(), &palyrav1.ListRunsRequest{})
		if err != nil || len(list.GetRuns()) != len(sees) {
			t.Errorf("%s lists %v, %v", name, list.GetRuns(), err)
		}
		for whose, id := range ids {
			want := connect.Code(0)
			if !slices.Contains(sees, whose) {
				want = connect.CodeNotFound
			}
			if _, err := clients[name].GetRun(t.Context(), &palyrav1.GetRunRequest{RunId: id}); err == nil && want != 0 || err != nil && connect.CodeOf(err) != want {
				t.Errorf("%s gets the run of %s: %v", name, whose, err)
			}
		}
	}
}

// TestGrpcurlRunStream uses both directions of the stream with grpcurl.
func TestGrpcurlRunStream(t *testing.T) {
	t.Parallel()
	g := newGateway(t)
	g.script("talk", "turns:\n  - text: first answer\n  - expect:\n      - {message: and then}\n    text: second answer\n")
	g.Start()
	bundle := g.bundle()
	cmd := exec.CommandContext(t.Context(), grpcurlPath(t), "-cacert", filepath.Join(bundle, "ca.pem"),
		"-cert", filepath.Join(bundle, "cert.pem"), "-key", filepath.Join(bundle, "key.pem"),
		"-d", "@", g.address(), "palyra.v1.GatewayService/RunStream")
	cmd.Stdin = strings.NewReader(`{"start":{"message":"hello","interactive":true}} {"userMessage":{"text":"and then?"}}`)
	r := process.Finish(t, cmd)
	r.Want(t, 0)
	for _, text := range []string{"first answer", "second answer", "RUN_STATE_COMPLETED"} {
		if !strings.Contains(r.Out, text) {
			t.Errorf("grpcurl does not show %q:\n%s", text, r.Out)
		}
	}
}
