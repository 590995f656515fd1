package cli

import (
	"context"
	"errors"
	"io"
	"slices"
	"sync"
	"time"

	"connectrpc.com/connect"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/timestamppb"

	palyrav1 "palyra/gen/palyra/v1"
	"palyra/internal/reason"
)

const fakeRunID = "01RVN000000000000000000001"

// fakeRuns drives runs as a gateway does: each has a tape that outlives its
// streams and is read from any place.
type fakeRuns struct {
	f *fakeGateway
	// script is what a run does once it started; nil completes it.
	script func(*fakeRun)
	// cut, when set, is asked after each event that was sent; true breaks the
	// connection.
	cut func(sent int) bool
	// deaf is how many starts lose their connection before anything is sent.
	deaf int
	// repeats makes every stream begin at the beginning, whatever it asks for.
	repeats bool
	// listed is what ListRuns has beside the run that was started.
	listed []*palyrav1.Run

	mu      sync.Mutex
	started []*palyrav1.StartRunRequest
	resumed []int64
	run     *fakeRun
	sent    int
	wait    sync.WaitGroup
}

// fakeRun is one run with its tape.
type fakeRun struct {
	f      *fakeGateway
	record *palyrav1.Run
	ctx    context.Context

	mu       sync.Mutex
	tape     []*palyrav1.RunEvent
	changed  chan struct{}
	messages chan string
	// cancelled says why; closed that no more messages come.
	cancelled chan string
	refused   []*palyrav1.MessageRefused
}

// begin starts a run, or returns the one that the same key made.
func (r *fakeRuns) begin(req *palyrav1.StartRunRequest) *fakeRun {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.started = append(r.started, req)
	if r.run != nil && r.started[0].GetIdempotencyKey() == req.GetIdempotencyKey() {
		return r.run
	}
	r.run = &fakeRun{
		f: r.f, ctx: r.f.life, changed: make(chan struct{}), messages: make(chan string, 16), cancelled: make(chan string, 16),
		record: &palyrav1.Run{
			RunId: fakeRunID, State: palyrav1.RunState_RUN_STATE_RUNNING, Principal: "user:ada", OnBehalfOf: "user:ada", Session: "01DEVICE/default",
			Model: firstOf(req.GetModel(), "fast"), Workspace: firstOf(req.GetWorkspace(), "demo"), Message: req.GetMessage(),
			StartedAt: timestamppb.New(testNow), Budget: &palyrav1.RunBudget{Calls: 200, Tokens: 2_000_000, WallClock: durationpb.New(2 * time.Hour)},
			Interactive: req.GetInteractive(),
		},
	}
	run := r.run
	run.add(&palyrav1.RunEvent{Event: &palyrav1.RunEvent_Started{Started: &palyrav1.RunStarted{Run: run.snapshot()}}})
	r.wait.Go(func() {
		if r.script != nil {
			r.script(run)
		}
		run.finish(palyrav1.RunState_RUN_STATE_COMPLETED, "", "")
	})
	return run
}

// snapshot is the record as it is now.
func (r *fakeRun) snapshot() *palyrav1.Run {
	r.mu.Lock()
	defer r.mu.Unlock()
	return proto.Clone(r.record).(*palyrav1.Run)
}

// add puts an event on the tape, with a gap before it as the real one has.
func (r *fakeRun) add(e *palyrav1.RunEvent) {
	r.mu.Lock()
	defer r.mu.Unlock()
	n := int64(len(r.tape) + 1)
	e.Sequence, e.At = n*(1<<20)+7*n, timestamppb.New(testNow.Add(time.Duration(n)*time.Millisecond))
	r.tape = append(r.tape, e)
	close(r.changed)
	r.changed = make(chan struct{})
}

func (r *fakeRun) refuse(m *palyrav1.MessageRefused) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.refused = append(r.refused, m)
	close(r.changed)
	r.changed = make(chan struct{})
}

// finish ends the run, once.
func (r *fakeRun) finish(state palyrav1.RunState, why reason.Code, detail string) {
	if r.over() {
		return
	}
	r.mu.Lock()
	r.record.State, r.record.Reason, r.record.Detail = state, string(why), detail
	if state == palyrav1.RunState_RUN_STATE_CANCELLED {
		r.record.CancelledBy = "user:ada"
	}
	r.record.EndedAt = timestamppb.New(testNow.Add(2300 * time.Millisecond))
	r.record.Usage = &palyrav1.RunUsage{Calls: 2, Turns: 2, InputTokens: 700, OutputTokens: 112, WallClock: durationpb.New(2300 * time.Millisecond)}
	r.mu.Unlock()
	r.add(&palyrav1.RunEvent{Event: &palyrav1.RunEvent_Finished{Finished: &palyrav1.RunFinished{Run: r.snapshot()}}})
}

func (r *fakeRun) over() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return len(r.tape) > 0 && r.tape[len(r.tape)-1].GetFinished() != nil
}

// untilCancelled waits for a cancel and ends the run with it.
func (r *fakeRun) untilCancelled() {
	select {
	case why := <-r.cancelled:
		r.finish(palyrav1.RunState_RUN_STATE_CANCELLED, reason.Cancelled, why)
	case <-r.ctx.Done():
	}
}

func (r *fakeRun) delta(text string) {
	r.add(&palyrav1.RunEvent{Event: &palyrav1.RunEvent_ModelDelta{ModelDelta: &palyrav1.ModelDelta{Text: text}}})
}

// turn is a whole answer; its calls are given as id, tool, input.
func (r *fakeRun) turn(text string, calls ...[3]string) {
	t := &palyrav1.ModelTurn{Text: text, Stop: "end_turn", Model: "fast-1"}
	for _, c := range calls {
		t.Stop = "tool_use"
		t.Calls = append(t.Calls, &palyrav1.ModelToolCall{CallId: c[0], Tool: c[1], Input: []byte(c[2])})
	}
	r.add(&palyrav1.RunEvent{Event: &palyrav1.RunEvent_ModelTurn{ModelTurn: t}})
}

// call adds an event of a call, made of one of CallTool's.
func (r *fakeRun) call(id string, m *palyrav1.CallToolResponse) {
	e := &palyrav1.RunEvent{CallId: id, ProposalId: "01PROPOSAL00000000000" + id}
	switch c := m.GetEvent().(type) {
	case *palyrav1.CallToolResponse_Proposed:
		c.Proposed.ProposalId = e.ProposalId
		e.Event = &palyrav1.RunEvent_Proposed{Proposed: c.Proposed}
	case *palyrav1.CallToolResponse_ApprovalRequested:
		e.Event = &palyrav1.RunEvent_ApprovalRequested{ApprovalRequested: c.ApprovalRequested}
	case *palyrav1.CallToolResponse_ApprovalResolved:
		e.Event = &palyrav1.RunEvent_ApprovalResolved{ApprovalResolved: c.ApprovalResolved}
	case *palyrav1.CallToolResponse_Decision:
		e.Event = &palyrav1.RunEvent_Decision{Decision: c.Decision}
	case *palyrav1.CallToolResponse_Output:
		e.Event = &palyrav1.RunEvent_Output{Output: c.Output}
	case *palyrav1.CallToolResponse_Result:
		e.Event = &palyrav1.RunEvent_Result{Result: c.Result}
	case *palyrav1.CallToolResponse_Attestation:
		e.Event = &palyrav1.RunEvent_Attestation{Attestation: c.Attestation}
	}
	r.add(e)
}

func (r *fakeRun) propose(id, tool string) {
	r.call(id, proposed(&palyrav1.CallToolRequest{Tool: tool}))
}

// ask asks for a call and waits for the answer; allowed reports whether it was
// a yes.
func (r *fakeRun) ask(id string, v *palyrav1.Approval) (yes bool) {
	send := func(m *palyrav1.CallToolResponse) error { r.call(id, m); return nil }
	r.f.asks(v)
	_ = r.f.play(r.ctx, nil, send)
	r.f.mu.Lock()
	defer r.f.mu.Unlock()
	return r.f.approvals[v.GetApprovalId()].GetState() == palyrav1.ApprovalState_APPROVAL_STATE_ALLOWED
}

// pair is the usual run: two calls side by side, then an answer.
func pair(r *fakeRun) {
	r.delta("I look at the file ")
	r.delta("and the history.")
	r.turn("I look at the file and the history.", [3]string{"A", "fs.read", `{"path":"greet.py"}`}, [3]string{"B", "process.run", `{"argv":["git","log"]}`})
	r.propose("A", "fs.read")
	r.propose("B", "process.run")
	r.call("B", allowed())
	r.call("A", allowed())
	r.call("B", output("stdout", "one\ntw"))
	r.call("A", finished("succeeded", "", `{"text":"x"}`))
	r.call("B", output("stdout", "o\n"))
	r.call("A", attested())
	r.call("B", finished("succeeded", "", processJSON(0, "one\ntwo\n", "")))
	r.call("B", attested())
	r.delta("It greets; ")
	r.delta("two commits.")
	r.turn("It greets; two commits.")
}

// send sends the tape after a sequence number until the run is over.
func (r *fakeRuns) send(ctx context.Context, run *fakeRun, after int64, send func(*palyrav1.RunEvent) error, refuse func(*palyrav1.MessageRefused) error) error {
	if r.repeats {
		after = 0
	}
	for {
		run.mu.Lock()
		tape, changed, refused := slices.Clone(run.tape), run.changed, run.refused
		run.refused = nil
		run.mu.Unlock()
		for _, m := range refused {
			if err := refuse(m); err != nil {
				return err
			}
		}
		for _, e := range tape {
			if e.GetSequence() <= after {
				continue
			}
			if err := send(e); err != nil {
				return err
			}
			after = e.GetSequence()
			if r.cuts() {
				r.f.hangUp()
				<-ctx.Done()
				return ctx.Err()
			}
			if e.GetFinished() != nil {
				return nil
			}
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// cuts counts an event and reports whether the connection breaks after it.
func (r *fakeRuns) cuts() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.sent++
	return r.cut != nil && r.cut(r.sent)
}

func (s fakeCalls) RunStream(ctx context.Context, stream *connect.BidiStream[palyrav1.RunStreamRequest, palyrav1.RunStreamResponse]) error {
	first, err := stream.Receive()
	if err != nil {
		return err
	}
	runs := s.f.runs
	var run *fakeRun
	if first.GetStart() != nil {
		if first.GetStart().GetModel() == "none" {
			return gatewayError(connect.CodeNotFound, reason.UnknownModel, "there is no model none", nil)
		}
		run = runs.begin(first.GetStart())
		if runs.losesStart() {
			s.f.hangUp()
			<-ctx.Done()
			return ctx.Err()
		}
	} else {
		run = runs.attach(first.GetResume())
	}
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	go func() {
		defer stop()
		for {
			m, err := stream.Receive()
			if err != nil {
				if errors.Is(err, io.EOF) {
					close(run.messages)
					<-ctx.Done()
				}
				return
			}
			s.take(ctx, run, m)
		}
	}()
	return runs.send(ctx, run, first.GetResume().GetAfter(),
		func(e *palyrav1.RunEvent) error { return stream.Send(&palyrav1.RunStreamResponse{Event: e}) },
		func(m *palyrav1.MessageRefused) error { return stream.Send(&palyrav1.RunStreamResponse{Refused: m}) })
}

// take does what a client's message says.
func (s fakeCalls) take(ctx context.Context, run *fakeRun, m *palyrav1.RunStreamRequest) {
	switch {
	case m.GetCancel() != nil:
		run.cancelled <- m.GetCancel().GetReason()
	case m.GetUserMessage() != nil:
		run.add(&palyrav1.RunEvent{Event: &palyrav1.RunEvent_UserMessage{UserMessage: m.GetUserMessage()}})
		run.messages <- m.GetUserMessage().GetText()
	case m.GetApproval() != nil:
		_, err := fakeApprovals(s).DecideApproval(ctx, m.GetApproval())
		if err == nil {
			return
		}
		e := explain(nil, err)
		run.refuse(&palyrav1.MessageRefused{Reason: string(e.Code), Message: e.Message, Remedy: e.Remedy, ApprovalId: m.GetApproval().GetApprovalId()})
	}
}

// losesStart counts a start and reports whether its connection breaks.
func (r *fakeRuns) losesStart() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.deaf--
	return r.deaf >= 0
}

func (r *fakeRuns) attach(at *palyrav1.ResumeRun) *fakeRun {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.resumed = append(r.resumed, at.GetAfter())
	return r.run
}

func (s fakeCalls) StartRun(ctx context.Context, req *palyrav1.StartRunRequest) (*palyrav1.StartRunResponse, error) {
	run := s.f.runs.begin(req)
	if s.f.runs.losesStart() {
		s.f.hangUp()
		<-ctx.Done()
		return nil, ctx.Err()
	}
	return &palyrav1.StartRunResponse{Run: run.snapshot()}, nil
}

func (s fakeCalls) GetRun(_ context.Context, req *palyrav1.GetRunRequest) (*palyrav1.GetRunResponse, error) {
	for _, r := range s.f.runs.all() {
		if r.GetRunId() == req.GetRunId() {
			return &palyrav1.GetRunResponse{Run: r, LastSequence: s.f.runs.last()}, nil
		}
	}
	return nil, gatewayError(connect.CodeNotFound, reason.NotFound, "there is no run "+req.GetRunId(), nil)
}

// last is the number of the newest durable event of the run's tape.
func (r *fakeRuns) last() (n int64) {
	r.mu.Lock()
	run := r.run
	r.mu.Unlock()
	if run == nil {
		return 0
	}
	run.mu.Lock()
	defer run.mu.Unlock()
	for _, e := range run.tape {
		if e.GetModelDelta() == nil && e.GetModelRetry() == nil && e.GetOutput() == nil {
			n = e.GetSequence()
		}
	}
	return n
}

// all lists the runs, newest first.
func (r *fakeRuns) all() []*palyrav1.Run {
	r.mu.Lock()
	defer r.mu.Unlock()
	list := slices.Clone(r.listed)
	if r.run != nil {
		list = append([]*palyrav1.Run{r.run.snapshot()}, list...)
	}
	return list
}

func (s fakeCalls) ListRuns(_ context.Context, req *palyrav1.ListRunsRequest) (*palyrav1.ListRunsResponse, error) {
	list := slices.DeleteFunc(s.f.runs.all(), func(r *palyrav1.Run) bool {
		return len(req.GetStates()) > 0 && !slices.Contains(req.GetStates(), r.GetState()) || req.GetPrincipal() != "" && r.GetPrincipal() != req.GetPrincipal()
	})
	if req.GetPageToken() == "" && len(list) > 1 {
		return &palyrav1.ListRunsResponse{Runs: list[:1], NextPageToken: "rest"}, nil
	}
	if req.GetPageToken() == "rest" {
		list = list[1:]
	}
	return &palyrav1.ListRunsResponse{Runs: list}, nil
}

func (s fakeCalls) WatchRun(ctx context.Context, req *palyrav1.WatchRunRequest, stream *connect.ServerStream[palyrav1.WatchRunResponse]) error {
	if _, err := s.GetRun(ctx, &palyrav1.GetRunRequest{RunId: req.GetRunId()}); err != nil {
		return err
	}
	if err := stream.Send(&palyrav1.WatchRunResponse{}); err != nil {
		return err
	}
	run := s.f.runs.attach(&palyrav1.ResumeRun{After: req.GetAfter()})
	return s.f.runs.send(ctx, run, req.GetAfter(),
		func(e *palyrav1.RunEvent) error { return stream.Send(&palyrav1.WatchRunResponse{Event: e}) },
		func(*palyrav1.MessageRefused) error { return nil })
}

func (s fakeCalls) CancelRun(_ context.Context, req *palyrav1.CancelRunRequest) (*palyrav1.CancelRunResponse, error) {
	s.f.runs.mu.Lock()
	run := s.f.runs.run
	s.f.runs.mu.Unlock()
	switch {
	case run == nil || req.GetRunId() != fakeRunID:
		return nil, gatewayError(connect.CodeNotFound, reason.NotFound, "there is no run "+req.GetRunId(), nil)
	case run.over():
		return nil, gatewayError(connect.CodeFailedPrecondition, reason.RunEnded, "the run has ended", nil)
	}
	run.finish(palyrav1.RunState_RUN_STATE_CANCELLED, reason.Cancelled, req.GetReason())
	return &palyrav1.CancelRunResponse{Run: run.snapshot()}, nil
}
