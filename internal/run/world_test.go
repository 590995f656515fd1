package run_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/oklog/ulid/v2"

	toolcall "palyra/internal/call"
	"palyra/internal/call/approval"
	"palyra/internal/call/decision"
	"palyra/internal/call/record"
	"palyra/internal/core/access"
	"palyra/internal/core/canonical"
	"palyra/internal/core/event"
	"palyra/internal/core/must"
	"palyra/internal/core/reason"
	"palyra/internal/core/tool"
	"palyra/internal/evidence/attest"
	"palyra/internal/gateway/gatewaytest"
	"palyra/internal/run"
	"palyra/internal/run/model"
)

var (
	agent = gatewaytest.Agent
	alice = gatewaytest.Person(access.User("alice"), access.RoleOwner)
)

// step is one turn of a scripted model.
type step func(ctx context.Context, r model.Request, observe func(model.Event)) (model.Turn, error)

// scripted is a model that plays steps, one for each request, and records the requests.
type scripted struct {
	mu       sync.Mutex
	steps    []step
	requests []model.Request
}

func (s *scripted) Generate(ctx context.Context, r model.Request, observe func(model.Event)) (model.Turn, error) {
	s.mu.Lock()
	r.Messages = slices.Clone(r.Messages)
	s.requests = append(s.requests, r)
	n := len(s.requests)
	var next step
	if n <= len(s.steps) {
		next = s.steps[n-1]
	}
	s.mu.Unlock()
	if next == nil {
		return model.Turn{}, reason.Errorf(reason.ModelInvalid, "the script has no step %d", n)
	}
	return next(ctx, r, observe)
}

// asked returns the n-th request, counted from 1.
func (s *scripted) asked(n int) model.Request {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.requests[n-1]
}

// says returns a step that ends the run with a text.
func says(text string) step {
	return func(_ context.Context, _ model.Request, observe func(model.Event)) (model.Turn, error) {
		observe(model.Event{Delta: &model.Delta{Text: text}})
		return model.Turn{Text: text, Stop: model.EndTurn, Usage: model.Usage{InputTokens: 10, OutputTokens: 5}, Model: "m-1"}, nil
	}
}

// calls returns a step with calls.
func calls(list ...model.Call) step {
	return func(context.Context, model.Request, func(model.Event)) (model.Turn, error) {
		return model.Turn{Calls: list, Stop: model.ToolUse, Usage: model.Usage{InputTokens: 10, OutputTokens: 5}, Model: "m-1"}, nil
	}
}

// waits is a step that blocks until its context ends.
func waits(ctx context.Context, _ model.Request, _ func(model.Event)) (model.Turn, error) {
	<-ctx.Done()
	return model.Turn{}, reason.Errorf(reason.Cancelled, "the request was cancelled: %w", ctx.Err())
}

func modelCall(id, name, input string) model.Call {
	return model.Call{ID: id, Tool: name, Input: []byte(input)}
}

// work is the execution of a fake tool; output sends a chunk. For planning, output is nil.
type work func(ctx context.Context, s toolcall.Submission, output func(string)) (tool.Report, error)

// pipeline is a fake of the real pipeline with the same writes, in the same order and
// transactions.
type pipeline struct {
	store     *store
	approvals *approvals
	tools     map[string]work
	// ended, if set, is called with a call's run after the call's end was written, and before it
	// is observed.
	ended func(run string)

	mu        sync.Mutex
	made      map[string]int // number of calls by run
	submitted []toolcall.Submission
}

// errAsk makes a call require approval; errDeny is a denial by policy.
var (
	errAsk  = errors.New("ask")
	errDeny = errors.New("deny")
)

func (p *pipeline) Call(ctx context.Context, s toolcall.Submission, observe func(toolcall.Event)) (toolcall.Outcome, error) {
	id := ulid.Make().String()
	p.mu.Lock()
	p.made[s.Run]++
	n := p.made[s.Run]
	p.submitted = append(p.submitted, s)
	p.mu.Unlock()
	w := &writing{p: p, s: s, id: id, drafts: slices.Clone(s.Lead), blobs: slices.Clone(s.LeadBlobs)}
	do, known := p.tools[s.Tool]
	if !known {
		why := reason.Errorf(reason.UnknownTool, "tool %q not found", s.Tool)
		return toolcall.Outcome{}, w.refuse(why, why)
	}
	observe(toolcall.Event{Proposed: &toolcall.Proposed{ProposalID: id, CallID: s.CallID}})
	w.draft(event.Proposed, record.Proposed{
		ProposalID: id, CallID: s.CallID, Principal: s.Caller.Principal.String(), Tool: s.Tool, StoredArguments: record.StoredArguments{ArgumentsDigest: canonical.Digest(s.Input)},
	})
	w.draft(event.Evaluated, map[string]string{"proposal_id": id})
	d := decision.Record{ID: ulid.Make().String(), ProposalID: id, Allowed: true, At: time.Now().UTC()}
	if s.MaxCalls > 0 && n > s.MaxCalls {
		d.Allowed, d.Reason, d.Message, d.Remedy = false, reason.BudgetExceeded, "too many calls", "Start another run."
	}
	output := func(text string) {
		observe(toolcall.Event{Output: &toolcall.Chunk{Stream: "stdout", Data: []byte(text)}})
	}
	probe := func() error {
		_, err := do(ctx, s, nil)
		return err
	}
	if d.Allowed {
		switch err := probe(); {
		case errors.Is(err, errDeny):
			d.Allowed, d.Reason, d.Message, d.Remedy = false, reason.PolicyDenied, "Policy does not allow this call.", "Ask an operator."
		case errors.Is(err, errAsk):
			if err := w.ask(ctx, &d, observe); err != nil {
				return toolcall.Outcome{}, w.refuse(err, err)
			}
		case err != nil:
			known := &reason.Error{}
			errors.As(err, &known)
			return toolcall.Outcome{}, w.refuse(known, err)
		}
	}
	w.draft(event.Decided, d)
	if err := w.flush(); err != nil {
		return toolcall.Outcome{}, err
	}
	observe(toolcall.Event{Decision: &d})
	if !d.Allowed {
		return toolcall.Outcome{Decision: d}, nil
	}
	report, _ := do(ctx, s, output)
	payload := record.Attested{
		AttestationID: ulid.Make().String(), ProposalID: id, DecisionID: d.ID, Tool: s.Tool, Report: report, Envelope: json.RawMessage(`{"payload":"x"}`),
	}
	if len(report.Result) > 0 {
		payload.ResultBlob = canonical.Digest(report.Result)
		w.blobs = append(w.blobs, report.Result)
	}
	w.draft(event.Attested, payload)
	if err := w.flush(); err != nil {
		return toolcall.Outcome{Decision: d}, err
	}
	if p.ended != nil {
		p.ended(s.Run)
	}
	out := toolcall.Outcome{Decision: d, Report: report, Attestation: toolcall.Attestation{Envelope: attest.Envelope{ID: payload.AttestationID}}}
	observe(toolcall.Event{Result: &out.Report})
	observe(toolcall.Event{Attestation: &out.Attestation})
	return out, nil
}

// writing collects the next write of a call in the fake pipeline.
type writing struct {
	p      *pipeline
	s      toolcall.Submission
	id     string
	drafts []event.Draft
	blobs  [][]byte
}

func (w *writing) draft(code event.Code, payload any) { w.draftAbout(code, w.id, payload) }

func (w *writing) draftAbout(code event.Code, subject string, payload any) {
	text, err := canonical.Marshal(payload)
	if err != nil {
		panic(err)
	}
	w.drafts = append(w.drafts, event.Draft{
		Code: code, Session: toolcall.SessionID(w.s.Caller, w.s.Session), Run: w.s.Run, Actor: w.s.Caller.Principal.String(),
		Subject: subject, Payload: text,
	})
}

func (w *writing) flush() error {
	err := w.p.store.Append(context.Background(), run.Write{Drafts: w.drafts, Blobs: w.blobs})
	w.drafts, w.blobs = nil, nil
	if err != nil {
		return reason.Errorf(reason.JournalUnavailable, "writing the journal: %w", err)
	}
	return nil
}

func (w *writing) refuse(why *reason.Error, err error) error {
	if why.Code == reason.ShuttingDown || why.Code == reason.JournalUnavailable {
		return err
	}
	w.draft(event.Refused, record.Refused{
		ProposalID: w.id, CallID: w.s.CallID, Principal: w.s.Caller.Principal.String(), Tool: w.s.Tool,
		Reason: why.Code, Message: why.Message, Remedy: why.NextStep(),
	})
	if err := w.flush(); err != nil {
		return err
	}
	return err
}

// ask waits for the answer of the fake desk.
func (w *writing) ask(ctx context.Context, d *decision.Record, observe func(toolcall.Event)) *reason.Error {
	a := w.p.approvals.open(w.s)
	w.draftAbout(event.Asked, a.record.ID, approval.AskedPayload{ApprovalID: a.record.ID, ProposalID: w.id})
	if err := w.flush(); err != nil {
		return reason.Errorf(reason.JournalUnavailable, "%w", err)
	}
	observe(toolcall.Event{Asked: &a.record})
	d.ApprovalID = a.record.ID
	select {
	case yes := <-a.answer:
		if !yes {
			d.Allowed, d.Reason, d.Message = false, reason.ApprovalDenied, "a person denied the call"
		}
	case <-ctx.Done():
		if reason.Of(context.Cause(ctx)) == reason.ShuttingDown {
			return reason.Errorf(reason.ShuttingDown, "the gateway is stopping; the approval stays pending")
		}
		d.Allowed, d.Reason, d.Message = false, reason.ApprovalCancelled, "the request for approval was withdrawn"
	}
	return nil
}

// approvals is a fake approval desk.
type approvals struct {
	mu    sync.Mutex
	all   map[string]*asked
	asked chan *asked
}

type asked struct {
	record approval.Record
	answer chan bool
}

func newApprovals() *approvals {
	return &approvals{all: make(map[string]*asked), asked: make(chan *asked, 1024)}
}

func (a *approvals) open(s toolcall.Submission) *asked {
	rec := approval.Record{ID: ulid.Make().String(), Run: s.Run, State: approval.Pending, RequestedBy: s.Caller.Principal}
	q := &asked{record: rec, answer: make(chan bool, 1)}
	a.mu.Lock()
	a.all[rec.ID] = q
	a.mu.Unlock()
	a.asked <- q
	return q
}

func (a *approvals) Get(_ context.Context, id string) (approval.Record, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if q, ok := a.all[id]; ok {
		return q.record, nil
	}
	return approval.Record{}, reason.Errorf(reason.NotFound, "approval %s not found", id)
}

func succeeded(result string) tool.Report {
	return tool.Report{Outcome: tool.Succeeded, Result: json.RawMessage(result)}
}

// returns returns the work of a tool with a fixed result.
func returns(result string) work {
	return func(context.Context, toolcall.Submission, func(string)) (tool.Report, error) {
		return succeeded(result), nil
	}
}

// fails returns the work of a tool whose call fails in the pipeline.
func fails(err error) work {
	return func(context.Context, toolcall.Submission, func(string)) (tool.Report, error) {
		return tool.Report{}, err
	}
}

// world is a run manager over fakes.
type world struct {
	t *testing.T
	*run.Manager
	store     *store
	approvals *approvals
	pipeline  *pipeline
	model     *scripted
	config    run.Config
	stop      context.CancelFunc
	ended     chan struct{}
}

func newWorld(t *testing.T, steps ...step) *world {
	w := &world{t: t, store: newStore(t), approvals: newApprovals(), model: &scripted{steps: steps}}
	w.pipeline = &pipeline{store: w.store, approvals: w.approvals, made: make(map[string]int), tools: map[string]work{
		"echo": returns(`{"ok":true}`), "deny": fails(errDeny),
	}}
	w.config = run.Config{
		Calls: w.pipeline, Models: map[string]model.Provider{"fake": w.model}, DefaultModel: "fake",
		Catalog: func(access.Caller) []tool.Descriptor {
			return []tool.Descriptor{
				{Name: "echo", Description: "Say it again.", InputSchema: json.RawMessage(`{"type":"object"}`), SecretPaths: []string{"/token"}},
				{Name: "plain", InputSchema: json.RawMessage(`{"type":"object"}`)},
			}
		},
		Workspaces: []run.Workspace{{Name: "default"}, {Name: "docs", ReadOnly: true}},
		Store:      w.store, Approvals: w.approvals,
		Limits: run.Limits{Budget: run.Budget{Calls: 20, Tokens: 100_000, WallClock: time.Hour}, ActivePerPrincipal: 3, ParallelCalls: 4, AbandonedAfter: 30 * time.Minute},
	}
	w.open()
	return w
}

// open starts a manager, as a start of the daemon does.
func (w *world) open() {
	w.t.Helper()
	m := must.Get(run.New(w.config))(w.t)
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan struct{})
	w.Manager, w.ended = m, ended
	go func() {
		defer close(ended)
		if err := m.Run(ctx, time.Second); err != nil {
			w.t.Errorf("the manager ended with %v", err)
		}
	}()
	w.stop = func() { cancel(); <-ended }
}

// start starts a run or fails the test.
func (w *world) start(s run.Start) (run.Record, run.Inbox) {
	w.t.Helper()
	if s.Message == "" {
		s.Message = "do it"
	}
	r, inbox, err := w.Start(context.Background(), agent, s)
	must.Do(w.t, err)
	return r, inbox
}

// events watches a run to its end.
func (w *world) events(id string, after int64) []run.Event {
	w.t.Helper()
	var list []run.Event
	err := w.Watch(context.Background(), id, after, func(e run.Event) error {
		list = append(list, e)
		return nil
	}, func() {})
	if err != nil {
		w.t.Errorf("watching after %d: %v", after, err)
	}
	return list
}

// finish watches a run to its end and returns its record.
func (w *world) finish(id string) run.Record {
	w.t.Helper()
	list := w.events(id, 0)
	last := list[len(list)-1]
	if last.Finished == nil {
		w.t.Fatalf("the last event is %s", kind(last))
	}
	stored := must.Get(w.Get(context.Background(), id))(w.t)
	if stored != *last.Finished {
		w.t.Errorf("the tape ends with\n%+v, the row says\n%+v", *last.Finished, stored)
	}
	return stored
}

// kind returns the name of an event.
func kind(e run.Event) string {
	switch {
	case e.Started != nil:
		return "started"
	case e.Message != nil:
		return "message"
	case e.Delta != nil:
		return "delta"
	case e.Retry != nil:
		return "retry"
	case e.Turn != nil:
		return "turn"
	case e.Proposed != nil:
		return "proposed"
	case e.Asked != nil:
		return "asked"
	case e.Resolved != nil:
		return "resolved"
	case e.Decision != nil:
		return "decision"
	case e.Output != nil:
		return "output"
	case e.Result != nil:
		return "result"
	case e.Attestation != nil:
		return "attestation"
	case e.Finished != nil:
		return "finished"
	}
	return "nothing"
}

func kinds(list []run.Event) []string {
	names := make([]string, len(list))
	for i, e := range list {
		names[i] = kind(e)
	}
	return names
}

func wantEnd(t *testing.T, r run.Record, state run.State, code reason.Code) {
	t.Helper()
	if r.State != state || r.Reason != code {
		t.Errorf("the run is %s %s (%s), want %s %s", r.State, r.Reason, r.Detail, state, code)
	}
	if code != "" && (r.Detail == "" || r.Remedy == "") {
		t.Errorf("the end says %q, %q", r.Detail, r.Remedy)
	}
	if r.EndedAt.IsZero() {
		t.Error("the run has no end")
	}
}

func result(r model.Request, n int) model.Result {
	last := r.Messages[len(r.Messages)-1]
	if n >= len(last.Results) {
		panic(fmt.Sprintf("the request ends with %+v", last))
	}
	return last.Results[n]
}
