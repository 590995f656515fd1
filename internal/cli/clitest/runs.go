package clitest

import (
	"cmp"
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
	"palyra/internal/cli/client"
	"palyra/internal/core/reason"
)

// RunID is the id of the first run.
const RunID = "01RVN000000000000000000001"

// Runs drives runs as a gateway does: each run has a tape that outlives its streams and can be read
// from any position.
type Runs struct {
	f *Gateway
	// Script is the behaviour of a started run; nil completes it.
	Script func(*Run)
	// Cut, if set, is called after each sent event; true breaks the connection.
	Cut func(sent int) bool
	// Deaf is the number of starts whose connection breaks before anything is sent.
	Deaf int
	// Repeats makes every stream start at the first event, independent of the request.
	Repeats bool
	// Listed are the runs that ListRuns returns in addition to started runs.
	Listed []*palyrav1.Run

	mu      sync.Mutex
	Started []*palyrav1.StartRunRequest
	Resumed []int64
	Run     *Run
	sent    int
	Wait    sync.WaitGroup
}

// Run is one run with its tape.
type Run struct {
	f      *Gateway
	record *palyrav1.Run
	Ctx    context.Context

	mu       sync.Mutex
	tape     []*palyrav1.RunEvent
	changed  chan struct{}
	Messages chan string
	// cancelled receives the reason of a cancellation; closed is closed when no further messages
	// come.
	cancelled chan string
	refused   []*palyrav1.MessageRefused
}

// begin starts a run, or returns the run of the same key.
func (r *Runs) begin(req *palyrav1.StartRunRequest) *Run {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.Started = append(r.Started, req)
	if r.Run != nil && r.Started[0].GetIdempotencyKey() == req.GetIdempotencyKey() {
		return r.Run
	}
	r.Run = &Run{
		f: r.f, Ctx: r.f.life, changed: make(chan struct{}), Messages: make(chan string, 16), cancelled: make(chan string, 16),
		record: &palyrav1.Run{
			RunId: RunID, State: palyrav1.RunState_RUN_STATE_RUNNING, Principal: "user:ada", OnBehalfOf: "user:ada", Session: "01DEVICE/default",
			Model: cmp.Or(req.GetModel(), "fast"), Workspace: cmp.Or(req.GetWorkspace(), "demo"), Message: req.GetMessage(),
			StartedAt: now, Budget: &palyrav1.RunBudget{Calls: 200, Tokens: 2_000_000, WallClock: durationpb.New(2 * time.Hour)},
			Interactive: req.GetInteractive(),
		},
	}
	run := r.Run
	run.Add(&palyrav1.RunEvent{Event: &palyrav1.RunEvent_Started{Started: &palyrav1.RunStarted{Run: run.snapshot()}}})
	r.Wait.Go(func() {
		if r.Script != nil {
			r.Script(run)
		}
		run.Finish(palyrav1.RunState_RUN_STATE_COMPLETED, "", "")
	})
	return run
}

// snapshot returns the current record.
func (r *Run) snapshot() *palyrav1.Run {
	r.mu.Lock()
	defer r.mu.Unlock()
	return proto.CloneOf(r.record)
}

// Add appends an event to the tape, after a gap as in the real tape.
func (r *Run) Add(e *palyrav1.RunEvent) {
	r.mu.Lock()
	defer r.mu.Unlock()
	n := int64(len(r.tape) + 1)
	e.Sequence, e.At = n*(1<<20)+7*n, timestamppb.New(Now.Add(time.Duration(n)*time.Millisecond))
	r.tape = append(r.tape, e)
	close(r.changed)
	r.changed = make(chan struct{})
}

func (r *Run) refuse(m *palyrav1.MessageRefused) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.refused = append(r.refused, m)
	close(r.changed)
	r.changed = make(chan struct{})
}

// say delivers a message of the user.
func (r *Run) say(m *palyrav1.UserMessage) {
	r.Add(&palyrav1.RunEvent{Event: &palyrav1.RunEvent_UserMessage{UserMessage: m}})
	r.Messages <- m.GetText()
}

// Finish ends the run, once.
func (r *Run) Finish(state palyrav1.RunState, why reason.Code, detail string) {
	if r.Over() {
		return
	}
	r.mu.Lock()
	r.record.State, r.record.Reason, r.record.Detail = state, string(why), detail
	if state == palyrav1.RunState_RUN_STATE_CANCELLED {
		r.record.CancelledBy = "user:ada"
	}
	r.record.EndedAt = ago(-2300 * time.Millisecond)
	r.record.Usage = &palyrav1.RunUsage{Calls: 2, Turns: 2, InputTokens: 700, OutputTokens: 112, WallClock: durationpb.New(2300 * time.Millisecond)}
	r.mu.Unlock()
	r.Add(&palyrav1.RunEvent{Event: &palyrav1.RunEvent_Finished{Finished: &palyrav1.RunFinished{Run: r.snapshot()}}})
}

// Over reports whether the run has ended.
func (r *Run) Over() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return len(r.tape) > 0 && r.tape[len(r.tape)-1].GetFinished() != nil
}

// UntilCancelled waits for a cancel and ends the run with it.
func (r *Run) UntilCancelled() {
	select {
	case why := <-r.cancelled:
		r.Finish(palyrav1.RunState_RUN_STATE_CANCELLED, reason.Cancelled, why)
	case <-r.Ctx.Done():
	}
}

// Delta appends a part of the model's text.
func (r *Run) Delta(text string) {
	r.Add(&palyrav1.RunEvent{Event: &palyrav1.RunEvent_ModelDelta{ModelDelta: &palyrav1.ModelDelta{Text: text}}})
}

// Turn appends a complete answer; its calls are given as id, tool, input.
func (r *Run) Turn(text string, calls ...[3]string) {
	t := &palyrav1.ModelTurn{Text: text, Stop: "end_turn", Model: "fast-1"}
	for _, c := range calls {
		t.Stop = "tool_use"
		t.Calls = append(t.Calls, &palyrav1.ModelToolCall{CallId: c[0], Tool: c[1], Input: []byte(c[2])})
	}
	r.Add(&palyrav1.RunEvent{Event: &palyrav1.RunEvent_ModelTurn{ModelTurn: t}})
}

// Call appends an event of a call, converted from an event of CallTool.
func (r *Run) Call(id string, m *palyrav1.CallToolResponse) {
	e := &palyrav1.RunEvent{CallId: id, ProposalId: "01PROPOSAL00000000000" + id}
	if p := m.GetProposed(); p != nil {
		p.ProposalId = e.ProposalId
	}
	// The events of both types have the same names.
	in, out := m.ProtoReflect(), e.ProtoReflect()
	event := in.WhichOneof(in.Descriptor().Oneofs().ByName("event"))
	out.Set(out.Descriptor().Fields().ByName(event.Name()), in.Get(event))
	r.Add(e)
}

// Propose opens a call of the run.
func (r *Run) Propose(id, tool string) {
	r.Call(id, Proposed(&palyrav1.CallToolRequest{Tool: tool}))
}

// Ask requests an approval for a call and waits for its result. It reports whether the call was
// allowed.
func (r *Run) Ask(id string, v *palyrav1.Approval) (yes bool) {
	send := func(m *palyrav1.CallToolResponse) error { r.Call(id, m); return nil }
	r.f.Asks(v)
	_ = r.f.Play(r.Ctx, nil, send)
	r.f.Mu.Lock()
	defer r.f.Mu.Unlock()
	return r.f.Approvals[v.GetApprovalId()].GetState() == palyrav1.ApprovalState_APPROVAL_STATE_ALLOWED
}

// Pair is the usual run: two parallel calls, then an answer.
func Pair(r *Run) {
	r.Delta("I look at the file ")
	r.Delta("and the history.")
	r.Turn("I look at the file and the history.", [3]string{"A", "fs.read", `{"path":"greet.py"}`}, [3]string{"B", "process.run", `{"argv":["git","log"]}`})
	r.Propose("A", "fs.read")
	r.Propose("B", "process.run")
	r.Call("B", Allowed())
	r.Call("A", Allowed())
	r.Call("B", Output("stdout", "one\ntw"))
	r.Call("A", Finished("succeeded", "", `{"text":"x"}`))
	r.Call("B", Output("stdout", "o\n"))
	r.Call("A", Attested())
	r.Call("B", Finished("succeeded", "", ProcessJSON(0, "one\ntwo\n", "")))
	r.Call("B", Attested())
	r.Delta("It greets; ")
	r.Delta("two commits.")
	r.Turn("It greets; two commits.")
}

// send sends the tape after a sequence number until the run ends.
func (r *Runs) send(ctx context.Context, run *Run, after int64, send func(*palyrav1.RunEvent) error, refuse func(*palyrav1.MessageRefused) error) error {
	if r.Repeats {
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
func (r *Runs) cuts() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.sent++
	return r.Cut != nil && r.Cut(r.sent)
}

func (f *Gateway) runStream(ctx context.Context, stream *connect.BidiStream[palyrav1.RunStreamRequest, palyrav1.RunStreamResponse]) error {
	first, err := stream.Receive()
	if err != nil {
		return err
	}
	f.Mu.Lock()
	err = f.Fail
	f.Mu.Unlock()
	if err != nil {
		return err
	}
	runs := f.Runs
	var run *Run
	if first.GetStart() != nil {
		if first.GetStart().GetModel() == "none" {
			return onWire(reason.Errorf(reason.UnknownModel, "model none not found"))
		}
		run = runs.begin(first.GetStart())
		if runs.losesStart() {
			f.hangUp()
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
					close(run.Messages)
					<-ctx.Done()
				}
				return
			}
			f.take(ctx, run, m)
		}
	}()
	return runs.send(ctx, run, first.GetResume().GetAfter(),
		func(e *palyrav1.RunEvent) error { return stream.Send(&palyrav1.RunStreamResponse{Event: e}) },
		func(m *palyrav1.MessageRefused) error { return stream.Send(&palyrav1.RunStreamResponse{Refused: m}) })
}

// take handles a message of a client.
func (f *Gateway) take(ctx context.Context, run *Run, m *palyrav1.RunStreamRequest) {
	switch {
	case m.GetCancel() != nil:
		run.cancelled <- m.GetCancel().GetReason()
	case m.GetUserMessage() != nil:
		run.say(m.GetUserMessage())
	case m.GetApproval() != nil:
		_, err := f.decide(ctx, m.GetApproval())
		if err == nil {
			return
		}
		e := client.Explain(nil, onWire(err))
		run.refuse(&palyrav1.MessageRefused{Reason: string(e.Code), Message: e.Message, Remedy: e.Remedy, ApprovalId: m.GetApproval().GetApprovalId()})
	}
}

// losesStart counts a start and reports whether its connection breaks.
func (r *Runs) losesStart() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.Deaf--
	return r.Deaf >= 0
}

func (r *Runs) attach(at *palyrav1.ResumeRun) *Run {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.Resumed = append(r.Resumed, at.GetAfter())
	return r.Run
}

func serveRuns(f *Gateway) {
	runs := f.Runs
	serve(f, func(ctx context.Context, req *palyrav1.StartRunRequest) (*palyrav1.StartRunResponse, error) {
		run := runs.begin(req)
		if runs.losesStart() {
			f.hangUp()
			<-ctx.Done()
			return nil, ctx.Err()
		}
		return &palyrav1.StartRunResponse{Run: run.snapshot()}, nil
	})
	on(f, func(req *palyrav1.GetRunRequest) (*palyrav1.GetRunResponse, error) {
		r, err := runs.find(req.GetRunId())
		return &palyrav1.GetRunResponse{Run: r, LastSequence: runs.last()}, err
	})
	on(f, func(req *palyrav1.ListRunsRequest) (*palyrav1.ListRunsResponse, error) {
		list, next := page(slices.DeleteFunc(runs.all(), func(r *palyrav1.Run) bool {
			return len(req.GetStates()) > 0 && !slices.Contains(req.GetStates(), r.GetState()) || req.GetPrincipal() != "" && r.GetPrincipal() != req.GetPrincipal()
		}), req.GetPageToken())
		return &palyrav1.ListRunsResponse{Runs: list, NextPageToken: next}, nil
	})
	stream(f, func(ctx context.Context, req *palyrav1.WatchRunRequest, send func(*palyrav1.WatchRunResponse) error) error {
		if _, err := runs.find(req.GetRunId()); err != nil {
			return err
		}
		if err := send(&palyrav1.WatchRunResponse{}); err != nil {
			return err
		}
		run := runs.attach(&palyrav1.ResumeRun{After: req.GetAfter()})
		return runs.send(ctx, run, req.GetAfter(),
			func(e *palyrav1.RunEvent) error { return send(&palyrav1.WatchRunResponse{Event: e}) },
			func(*palyrav1.MessageRefused) error { return nil })
	})
	on(f, func(req *palyrav1.SendRunMessageRequest) (*palyrav1.SendRunMessageResponse, error) {
		run, err := runs.underWay(req.GetRunId())
		if err != nil {
			return nil, err
		}
		if req.GetText() != "" {
			run.say(&palyrav1.UserMessage{Text: req.GetText()})
		}
		if req.GetLast() {
			close(run.Messages)
		}
		return &palyrav1.SendRunMessageResponse{Run: run.snapshot()}, nil
	})
	on(f, func(req *palyrav1.CancelRunRequest) (*palyrav1.CancelRunResponse, error) {
		run, err := runs.underWay(req.GetRunId())
		if err != nil {
			return nil, err
		}
		run.Finish(palyrav1.RunState_RUN_STATE_CANCELLED, reason.Cancelled, req.GetReason())
		return &palyrav1.CancelRunResponse{Run: run.snapshot()}, nil
	})
}

// find returns a run.
func (r *Runs) find(id string) (*palyrav1.Run, error) {
	for _, one := range r.all() {
		if one.GetRunId() == id {
			return one, nil
		}
	}
	return nil, notFound("run %s not found", id)
}

// last returns the sequence number of the newest durable event of the run's tape.
func (r *Runs) last() (n int64) {
	r.mu.Lock()
	run := r.Run
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

// all returns the runs, newest first.
func (r *Runs) all() []*palyrav1.Run {
	r.mu.Lock()
	defer r.mu.Unlock()
	list := slices.Clone(r.Listed)
	if r.Run != nil {
		list = append([]*palyrav1.Run{r.Run.snapshot()}, list...)
	}
	return list
}

// underWay returns the run, unless it has ended.
func (r *Runs) underWay(id string) (*Run, error) {
	r.mu.Lock()
	run := r.Run
	r.mu.Unlock()
	switch {
	case run == nil || id != RunID:
		return nil, notFound("run %s not found", id)
	case run.Over():
		return nil, reason.Errorf(reason.RunEnded, "the run has ended")
	}
	return run, nil
}

// OlderRuns returns two earlier runs.
func OlderRuns() []*palyrav1.Run {
	usage := &palyrav1.RunUsage{Calls: 4, Turns: 3, InputTokens: 900, OutputTokens: 100, WallClock: durationpb.New(12 * time.Second)}
	return []*palyrav1.Run{
		{
			RunId: "01RVN000000000000000000000", State: palyrav1.RunState_RUN_STATE_FAILED, Principal: "agent:claude", OnBehalfOf: "user:ada", Session: "01DEVICE/work",
			Model: "local", Workspace: "demo", Message: "tidy up\nand more", StartedAt: ago(2 * time.Hour), EndedAt: ago(time.Hour),
			Usage: usage, Reason: "MODEL_UNAVAILABLE", Detail: "the provider answered 503", Remedy: "Try again later.",
		},
		{
			RunId: "01RVM000000000000000000000", State: palyrav1.RunState_RUN_STATE_INTERRUPTED, Principal: "user:ada", OnBehalfOf: "user:ada", Session: "01DEVICE/default",
			Model: "fast", Workspace: "demo", Message: "count", StartedAt: ago(3 * time.Hour), EndedAt: ago(2 * time.Hour), Usage: usage,
			Reason: "RUN_INTERRUPTED",
		},
	}
}
