package api_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"testing"

	"connectrpc.com/connect"

	palyrav1 "palyra/gen/palyra/v1"
	"palyra/internal/core/limit"
	"palyra/internal/core/must"
	"palyra/internal/core/reason"
	"palyra/internal/core/rpc"
	"palyra/internal/core/tool"
	"palyra/internal/gateway/gatewaytest"
	"palyra/internal/run/model"
	"palyra/internal/surface/api"
)

// runClient is a client's stream of a run.
type runClient struct {
	t      *testing.T
	stream *rpc.BidiStream[*palyrav1.RunStreamRequest, *palyrav1.RunStreamResponse]
}

func (c *client) runStream(first *palyrav1.RunStreamRequest, opts ...connect.ClientOption) *runClient {
	c.w.t.Helper()
	ctx, leave := context.WithCancel(c.w.t.Context())
	stream := must.Get(c.gateway(opts...).RunStream(ctx))(c.w.t)
	c.w.t.Cleanup(leave)
	r := &runClient{t: c.w.t, stream: stream}
	r.send(first)
	return r
}

func startRun(message string, change ...func(*palyrav1.StartRunRequest)) *palyrav1.RunStreamRequest {
	req := &palyrav1.StartRunRequest{Message: message}
	for _, fn := range change {
		fn(req)
	}
	return &palyrav1.RunStreamRequest{Message: &palyrav1.RunStreamRequest_Start{Start: req}}
}

func interactive(r *palyrav1.StartRunRequest) { r.Interactive = true }

func resume(id string, after int64) *palyrav1.RunStreamRequest {
	return &palyrav1.RunStreamRequest{Message: &palyrav1.RunStreamRequest_Resume{Resume: &palyrav1.ResumeRun{RunId: id, After: after}}}
}

func userSays(text string) *palyrav1.RunStreamRequest {
	return &palyrav1.RunStreamRequest{Message: &palyrav1.RunStreamRequest_UserMessage{UserMessage: &palyrav1.UserMessage{Text: text}}}
}

func votes(asked *palyrav1.Approval, change ...func(*palyrav1.DecideApprovalRequest)) *palyrav1.RunStreamRequest {
	req := &palyrav1.DecideApprovalRequest{ApprovalId: asked.GetApprovalId(), Allow: true, ShownDigest: asked.GetCallDigest()}
	for _, fn := range change {
		fn(req)
	}
	return &palyrav1.RunStreamRequest{Message: &palyrav1.RunStreamRequest_Approval{Approval: req}}
}

func cancels(why string) *palyrav1.RunStreamRequest {
	return &palyrav1.RunStreamRequest{Message: &palyrav1.RunStreamRequest_Cancel{Cancel: &palyrav1.CancelRun{Reason: why}}}
}

// send sends a message. If the server has ended the stream, the next receive returns the error.
func (r *runClient) send(m *palyrav1.RunStreamRequest) {
	r.t.Helper()
	if err := r.stream.Send(m); err != nil && !errors.Is(err, io.EOF) {
		r.t.Fatal(err)
	}
}

// until receives messages up to the first wanted one, and returns all of them.
func (r *runClient) until(wanted func(*palyrav1.RunStreamResponse) bool) []*palyrav1.RunStreamResponse {
	r.t.Helper()
	var list []*palyrav1.RunStreamResponse
	for {
		m, err := r.stream.Receive()
		if err != nil {
			r.t.Fatalf("the stream ended with %v after %v", err, list)
		}
		if list = append(list, m); wanted(m) {
			return list
		}
	}
}

// started returns the run of the first event.
func (r *runClient) started() *palyrav1.Run {
	r.t.Helper()
	return last(r.until(func(m *palyrav1.RunStreamResponse) bool { return m.GetEvent().GetStarted() != nil })).GetEvent().GetStarted().GetRun()
}

// asked returns the approval that a call of the run waits for.
func (r *runClient) asked() *palyrav1.Approval {
	r.t.Helper()
	isAsked := func(m *palyrav1.RunStreamResponse) bool { return m.GetEvent().GetApprovalRequested() != nil }
	return last(r.until(isAsked)).GetEvent().GetApprovalRequested().GetApproval()
}

// refused returns the next refusal.
func (r *runClient) refused() *palyrav1.MessageRefused {
	r.t.Helper()
	return last(r.until(func(m *palyrav1.RunStreamResponse) bool { return m.GetRefused() != nil })).GetRefused()
}

func (r *runClient) turn() *palyrav1.ModelTurn {
	r.t.Helper()
	return last(r.until(func(m *palyrav1.RunStreamResponse) bool { return m.GetEvent().GetModelTurn() != nil })).GetEvent().GetModelTurn()
}

func last[T any](list []T) T { return list[len(list)-1] }

// rest reads the stream to its end.
func (r *runClient) rest() ([]*palyrav1.RunEvent, error) {
	var list []*palyrav1.RunEvent
	for {
		m, err := r.stream.Receive()
		if errors.Is(err, io.EOF) {
			return list, nil
		}
		if err != nil {
			return list, err
		}
		if e := m.GetEvent(); e != nil {
			list = append(list, e)
		}
	}
}

// finished reads to the end and returns the ended run.
func (r *runClient) finished() *palyrav1.Run {
	r.t.Helper()
	list, err := r.rest()
	if err != nil || len(list) == 0 || last(list).GetFinished() == nil {
		r.t.Fatalf("the stream ended with %v after %v", err, kinds(list))
	}
	return last(list).GetFinished().GetRun()
}

// kinds returns the kinds of a run's events.
func kinds(list []*palyrav1.RunEvent) []string {
	var out []string
	for _, e := range list {
		name := fmt.Sprintf("%T", e.GetEvent())
		out = append(out, name[strings.LastIndexByte(name, '_')+1:])
	}
	return out
}

func TestRunOverEveryProtocol(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.model.plays(wants(read("a"), read("b")), says("all is well"))
	for protocol, opts := range protocols {
		r := w.coder.runStream(startRun("look"), opts...)
		list, err := r.rest()
		if err != nil {
			t.Fatalf("%s: %v", protocol, err)
		}
		if got := kinds(list); got[0] != "Started" || last(got) != "Finished" || last(list).GetFinished().GetRun().GetState() != palyrav1.RunState_RUN_STATE_COMPLETED {
			t.Errorf("%s: %v, %v", protocol, got, last(list))
		}
		calls := map[string][]string{}
		for i, e := range list {
			if i > 0 && e.GetSequence() <= list[i-1].GetSequence() {
				t.Errorf("%s: event %d has sequence %d after %d", protocol, i, e.GetSequence(), list[i-1].GetSequence())
			}
			if e.GetCallId() != "" {
				calls[e.GetCallId()] = append(calls[e.GetCallId()], kinds(list[i:i+1])...)
			}
		}
		for _, id := range []string{"a", "b"} {
			if !slices.Equal(calls[id], []string{"Proposed", "Decision", "Result", "Attestation"}) {
				t.Errorf("%s: call %s: %v", protocol, id, calls[id])
			}
		}
		used := last(list).GetFinished().GetRun().GetUsage()
		if used.GetCalls() != 2 || used.GetTurns() != 2 || used.GetInputTokens() != 6 || used.GetOutputTokens() != 4 {
			t.Errorf("%s: used %v", protocol, used)
		}
	}
}

// The first message must name a run or start one; other first messages are refused.
func TestFirstMessageOfAStream(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	for name, first := range map[string]*palyrav1.RunStreamRequest{
		"a user message": userSays("hi"), "a cancel": cancels("no"), "a vote": votes(&palyrav1.Approval{ApprovalId: strings.Repeat("0", 26)}),
		"nothing": {}, "no task": startRun(""),
	} {
		_, err := w.coder.runStream(first).rest()
		wantError(t, name, err, reason.InvalidInput)
	}
	stream, err := w.coder.gateway().RunStream(t.Context())
	must.Do(t, err)
	_ = stream.CloseRequest()
	_, err = (&runClient{t, stream}).rest()
	wantError(t, "no message at all", err, reason.InvalidInput)
	_, err = w.coder.runStream(startRun("x", func(r *palyrav1.StartRunRequest) { r.Model = "none" })).rest()
	wantError(t, "an unknown model", err, reason.UnknownModel)
	if runs := w.runs(w.alice, &palyrav1.ListRunsRequest{}); len(runs) > 0 {
		t.Errorf("runs were started: %v", runs)
	}
}

// The model gets a message at its next turn. Closing the client's side of the stream ends an
// interactive run.
func TestConversation(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.model.set(func(_ context.Context, r model.Request, _ func(model.Event)) (model.Turn, error) {
		return says("you said " + last(r.Messages).Text), nil
	})
	r := w.coder.runStream(startRun("one", interactive))
	if got := r.turn().GetText(); got != "you said one" {
		t.Errorf("got %q", got)
	}
	r.send(userSays("two"))
	if got := r.turn().GetText(); got != "you said two" {
		t.Errorf("got %q", got)
	}
	// Invalid or late messages have no effect.
	for name, m := range map[string]*palyrav1.RunStreamRequest{"empty": userSays(""), "another start": startRun("x"), "nothing": {}} {
		r.send(m)
		if got := r.refused(); got.GetReason() != string(reason.InvalidInput) || got.GetMessage() == "" || got.GetRemedy() == "" {
			t.Errorf("%s: %v", name, got)
		}
	}
	r.send(userSays("three"))
	if got := r.turn().GetText(); got != "you said three" {
		t.Errorf("got %q", got)
	}
	must.Do(t, r.stream.CloseRequest())
	if run := r.finished(); run.GetState() != palyrav1.RunState_RUN_STATE_COMPLETED || run.GetUsage().GetTurns() != 3 {
		t.Errorf("finished as %v", run)
	}
}

// An interactive run waits a limited time for a disconnected client, which can resume the
// stream.
func TestInteractiveRunWaitsForItsClient(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.model.set(func(_ context.Context, r model.Request, _ func(model.Event)) (model.Turn, error) {
		return says("you said " + last(r.Messages).Text), nil
	})
	first := w.coder.runStream(startRun("one", interactive))
	id := first.started().GetRunId()
	first.turn()
	_ = first.stream.CloseResponse()
	again := w.coder.runStream(resume(id, 0))
	again.turn()
	again.send(userSays("two"))
	if got := again.turn().GetText(); got != "you said two" {
		t.Errorf("got %q", got)
	}
	must.Do(t, again.stream.CloseRequest())
	if run := again.finished(); run.GetState() != palyrav1.RunState_RUN_STATE_COMPLETED {
		t.Errorf("finished as %v", run)
	}
}

// An approver can vote on the stream; the vote has the stream's surface.
func TestVotesOnTheStream(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.model.plays(wants(program("a")), says("done"))
	agent := w.coder.runStream(startRun("build"))
	id := agent.started().GetRunId()
	asked := agent.asked()
	bob, alice := w.bob.runStream(resume(id, 0)), w.alice.runStream(resume(id, 0))
	bob.asked()

	for _, test := range []struct {
		name   string
		by     *runClient
		change func(*palyrav1.DecideApprovalRequest)
		code   reason.Code
	}{
		{"by the agent itself", agent, func(*palyrav1.DecideApprovalRequest) {}, reason.PermissionDenied},
		{"by its owner", alice, func(*palyrav1.DecideApprovalRequest) {}, reason.PermissionDenied},
		{"without a digest", bob, func(r *palyrav1.DecideApprovalRequest) { r.ShownDigest = "" }, reason.InvalidInput},
		{"for another call", bob, func(r *palyrav1.DecideApprovalRequest) { r.ShownDigest = "sha256:" + strings.Repeat("0", 64) }, reason.DigestMismatch},
		{"no, without why", bob, func(r *palyrav1.DecideApprovalRequest) { r.Allow = false }, reason.InvalidInput},
		{"of none", bob, func(r *palyrav1.DecideApprovalRequest) { r.ApprovalId = strings.Repeat("0", 26) }, reason.NotFound},
	} {
		test.by.send(votes(asked, test.change))
		got := test.by.refused()
		if got.GetReason() != string(test.code) || got.GetRemedy() == "" || got.GetApprovalId() == "" {
			t.Errorf("%s: %v, want %s", test.name, got, test.code)
		}
	}
	if w.run.Runs.Load() != 0 {
		t.Fatal("the tool ran")
	}
	// The agent may not decide; its owner may, but not this approval.
	for _, who := range []string{"agent:coder", "user:alice"} {
		if !w.audit.has(refusal{who, "/palyra.v1.GatewayService/RunStream", reason.PermissionDenied}) {
			t.Errorf("the refused vote of %s was not audited: %v", who, w.audit.refused)
		}
	}
	bob.send(votes(asked, func(r *palyrav1.DecideApprovalRequest) { r.Surface = "cli" }))
	if run := agent.finished(); run.GetState() != palyrav1.RunState_RUN_STATE_COMPLETED || w.run.Runs.Load() != 1 {
		t.Errorf("finished as %v, the tool ran %d times", run, w.run.Runs.Load())
	}
	got, err := w.bob.approvals().GetApproval(t.Context(), &palyrav1.GetApprovalRequest{ApprovalId: asked.GetApprovalId()})
	if err != nil || len(got.GetApproval().GetVotes()) != 1 || got.GetApproval().GetVotes()[0].GetSurface() != "stream" {
		t.Errorf("the votes are %v, %v", got.GetApproval().GetVotes(), err)
	}
	if len(asked.GetPrompt().GetWhy()) > 0 {
		t.Errorf("the agent sees why: %v", asked.GetPrompt().GetWhy())
	}
}

// A call requests a second approval for its changes, and a vote on the stream decides it.
func TestVotesOnTheStreamForChanges(t *testing.T) {
	t.Parallel()
	for allow, state := range map[bool]palyrav1.ApprovalState{
		true: palyrav1.ApprovalState_APPROVAL_STATE_ALLOWED, false: palyrav1.ApprovalState_APPROVAL_STATE_DENIED,
	} {
		w := newWorld(t)
		ruled := make(chan tool.CommitRuling, 1)
		w.run.Work = func(ctx context.Context, c tool.Call) tool.Report {
			ruling, _ := c.Commit(ctx, tool.CommitRequest{
				Facts:   tool.CommitFacts{Workspace: "default", Root: "sha256:1", Protected: []string{".envrc"}, Classes: []string{"agent"}},
				Preview: tool.Preview{Diff: "+export X=1"},
			})
			ruled <- ruling
			return gatewaytest.Succeeded(`{}`)
		}
		w.model.plays(wants(program("a")), says("done"))
		agent := w.coder.runStream(startRun("build"))
		bob := w.bob.runStream(resume(agent.started().GetRunId(), 0))
		bob.send(votes(bob.asked(), func(*palyrav1.DecideApprovalRequest) {}))
		changes := bob.asked()
		if !strings.HasPrefix(changes.GetSubjectId(), "commit:default:") || changes.GetPrompt().GetDiff() != "+export X=1" {
			t.Errorf("asked about %s", changes.GetSubjectId())
		}
		bob.send(votes(changes, func(r *palyrav1.DecideApprovalRequest) { r.Allow, r.Reason = allow, "because" }))
		resolved := last(bob.until(func(m *palyrav1.RunStreamResponse) bool {
			return m.GetEvent().GetApprovalResolved().GetApprovalId() == changes.GetApprovalId()
		})).GetEvent().GetApprovalResolved()
		if resolved.GetState() != state {
			t.Errorf("resolved as %v", resolved.GetState())
		}
		if ruling := <-ruled; ruling.Allowed != allow {
			t.Errorf("ruled %+v", ruling)
		}
		if end := agent.finished(); end.GetState() != palyrav1.RunState_RUN_STATE_COMPLETED {
			t.Errorf("finished as %v", end)
		}
	}
}

// Messages count against the mutate limit, and votes against the decide limit.
func TestMessagesAreLimited(t *testing.T) {
	t.Parallel()
	few := limit.Rates{Each: limit.Limit{PerSecond: 0.001, Burst: 1}, Global: limit.Limit{PerSecond: 1000, Burst: 1000}}
	w := newWorld(t, func(w *world) { w.limits[api.LimitMutate], w.limits[api.LimitDecide] = few, few })
	w.model.plays(wants(program("a")), says("done"))
	r := w.coder.runStream(startRun("build", interactive))
	asked := r.asked()
	// The first message of each class is not refused by the limit.
	r.send(userSays("first"))
	r.send(userSays(""))
	if got := r.refused(); got.GetReason() != string(reason.RateLimited) {
		t.Errorf("an invalid message is free of charge: %v", got)
	}
	r.send(votes(asked))
	if got := r.refused(); got.GetReason() == string(reason.RateLimited) {
		t.Errorf("the first vote: %v", got)
	}
	r.send(votes(asked))
	if got := r.refused(); got.GetReason() != string(reason.RateLimited) {
		t.Errorf("the second vote: %v", got)
	}
	r.send(cancels("enough"))
	if got := r.refused(); got.GetReason() != string(reason.RateLimited) {
		t.Errorf("a cancel is free of charge: %v", got)
	}
	if !w.audit.has(refusal{"agent:coder", "/palyra.v1.GatewayService/RunStream", reason.RateLimited}) {
		t.Errorf("audited: %v", w.audit.refused)
	}
}

// TestRunOutlivesItsStream: a run does not end with its stream, regardless of how the stream ends.
func TestRunOutlivesItsStream(t *testing.T) {
	t.Parallel()
	for name, end := range map[string]func(*world, *runClient){
		"the client leaves":     func(_ *world, r *runClient) { _ = r.stream.CloseResponse() },
		"the device is revoked": func(w *world, _ *runClient) { w.revoke(w.coder.device) },
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			began, release := make(chan struct{}), make(chan struct{})
			w.read.Work = func(context.Context, tool.Call) tool.Report {
				close(began)
				<-release
				return gatewaytest.Succeeded(`{"ok":true}`)
			}
			w.model.plays(wants(read("a")), says("done"))
			r := w.coder.runStream(startRun("look"))
			id := r.started().GetRunId()
			<-began
			end(w, r)
			if _, err := r.rest(); name == "the device is revoked" {
				wantError(t, name, err, reason.Unauthenticated)
			}
			close(release)
			events := w.watchRun(w.alice, id, 0)
			if last(events).GetFinished().GetRun().GetState() == palyrav1.RunState_RUN_STATE_CANCELLED {
				t.Errorf("the run is %v", last(events))
			}
		})
	}
}

// When the gateway stops, a watch ends immediately, and a stream ends with its run.
func TestStopAndRuns(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.model.set(func(ctx context.Context, _ model.Request, _ func(model.Event)) (model.Turn, error) {
		<-ctx.Done()
		return model.Turn{}, reason.Errorf(reason.Cancelled, "cut off")
	})
	r := w.coder.runStream(startRun("look"))
	id := r.started().GetRunId()
	watch, err := w.coder.gateway().WatchRun(t.Context(), &palyrav1.WatchRunRequest{RunId: id})
	if err != nil || !watch.Receive() {
		t.Fatal(err, watch.Err())
	}
	w.stopping()
	for watch.Receive() {
	}
	wantError(t, "the watch", watch.Err(), reason.ShuttingDown)
	w.stopRuns()
	if run := r.finished(); run.GetState() != palyrav1.RunState_RUN_STATE_INTERRUPTED || run.GetReason() != string(reason.RunInterrupted) {
		t.Errorf("finished as %v", run)
	}
}

func TestCancelOnTheStream(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	cut := make(chan error, 1)
	w.model.set(func(ctx context.Context, _ model.Request, _ func(model.Event)) (model.Turn, error) {
		<-ctx.Done()
		cut <- ctx.Err()
		return model.Turn{}, reason.Errorf(reason.Cancelled, "cut off")
	})
	r := w.coder.runStream(startRun("look"))
	r.send(cancels("wrong branch"))
	run := r.finished()
	if run.GetState() != palyrav1.RunState_RUN_STATE_CANCELLED || run.GetCancelledBy() != "agent:coder" || !strings.Contains(run.GetDetail(), "wrong branch") {
		t.Errorf("finished as %v", run)
	}
	if err := <-cut; err == nil {
		t.Error("the provider was not told")
	}
}
