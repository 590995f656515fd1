package mcp

import (
	"context"
	"encoding/json"
	"fmt"
	"sync"
	"time"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"palyra/internal/call"
	"palyra/internal/call/approval"
	"palyra/internal/core/reason"
	"palyra/internal/core/tool"
	"palyra/internal/surface/resume"
)

// tasksExtension is the extension in which a long call becomes a task that the client polls
// (SEP-2663, revision 2026-07-28).
const tasksExtension = "io.modelcontextprotocol/tasks"

const (
	// taskKept is how long the result of a task is kept, pollEvery the suggested polling interval,
	// mostTasks the bound per credential.
	taskKept  = time.Hour
	pollEvery = 2 * time.Second
	mostTasks = 64
)

// The states of a task.
const (
	taskWorking   = "working"
	taskCompleted = "completed"
	taskFailed    = "failed"
	taskCancelled = "cancelled"
)

// task is a call whose client polls instead of waiting. The client counts as attached, because
// it cancels the task if it no longer needs the call.
type task struct {
	id, owner        string
	created, changed time.Time
	cancel           context.CancelCauseFunc

	status, says string
	result       *result
	// kept is true once the client knows the task.
	kept bool
	// done is closed at the end.
	done chan struct{}
}

// tasks runs calls as tasks. Tasks of earlier processes are in the journal.
type tasks struct {
	pipeline Pipeline
	open     openTasks
	running  sync.WaitGroup
	// mu guards the fields of each task.
	mu sync.Mutex
}

func newTasks(p Pipeline) *tasks { return &tasks{pipeline: p, open: newTasksInMemory()} }

// taskMessage is a task on the wire: the result that creates one, and the result of tasks/get.
type taskMessage struct {
	mcp.ResultBase
	ResultType    string          `json:"resultType"`
	TaskID        string          `json:"taskId"`
	Status        string          `json:"status"`
	StatusMessage string          `json:"statusMessage,omitempty"`
	CreatedAt     string          `json:"createdAt"`
	LastUpdatedAt string          `json:"lastUpdatedAt"`
	TTLMs         *int64          `json:"ttlMs"`
	PollMs        int64           `json:"pollIntervalMs,omitempty"`
	Result        *result         `json:"result,omitempty"`
	Error         json.RawMessage `json:"error,omitempty"`
}

// taskParams are the parameters of all task methods.
type taskParams struct {
	mcp.ParamsBase
	TaskID string `json:"taskId"`
}

type taskAck struct {
	mcp.ResultBase
	ResultType string `json:"resultType"`
}

// runAsTask makes the call and answers with a task once approval is pending or the client's
// timeout is reached. A call that ends earlier is answered with its result.
func (q *request) runAsTask(ctx context.Context, w *watch, stay resume.Stay) (mcp.Result, error) {
	own, cancel := context.WithCancelCause(context.WithoutCancel(ctx))
	t := &task{owner: q.owner(), created: time.Now().UTC(), cancel: cancel, status: taskWorking, done: make(chan struct{})}
	t.changed = t.created
	becomes := newLeaving()
	q.sub.Peer.Ask, q.sub.Peer.Takes = nil, tool.Takes{} // tasks forward no requests
	tasks := q.face.tasks
	tasks.running.Go(func() {
		defer cancel(nil)
		outcome, err := q.face.Calls.Call(own, q.sub, 0, func(e call.Event) {
			tasks.note(t, e)
			w.observe(e)
			if e.Asked != nil && e.Asked.State == approval.Pending {
				becomes.leave()
			}
		})
		tasks.ended(t, q, outcome, err)
	})
	var late <-chan time.Time
	if stay.Limit > 0 {
		timer := time.NewTimer(stay.Limit - min(5*time.Second, stay.Limit/2))
		defer timer.Stop()
		late = timer.C
	}
	select {
	case <-t.done:
		return t.result, nil
	case <-ctx.Done():
		cancel(context.Cause(ctx))
		<-t.done
		return t.result, nil
	case <-becomes.now:
	case <-late:
	}
	if err := tasks.keep(t); err != nil {
		cancel(err)
		<-t.done
		return q.failed(err), nil
	}
	return tasks.message(t, "task"), nil
}

// note processes the events of a task's call.
func (ts *tasks) note(t *task, e call.Event) {
	ts.mu.Lock()
	defer ts.mu.Unlock()
	switch {
	case e.Proposed != nil:
		t.id = e.Proposed.ProposalID
	case e.Asked != nil && e.Asked.State == approval.Pending:
		t.says = fmt.Sprintf("waiting for approval until %s: palyra approve %s", e.Asked.ExpiresAt.Format(time.RFC3339), e.Asked.ID)
	case e.Decision != nil && e.Decision.Allowed:
		t.says = "the tool runs"
	default:
		return
	}
	t.changed = time.Now().UTC()
}

// ended keeps the result of a task for its client.
func (ts *tasks) ended(t *task, q *request, o call.Outcome, err error) {
	ts.mu.Lock()
	defer ts.mu.Unlock()
	t.status, t.says, t.changed = taskCompleted, "", time.Now().UTC()
	if t.result = resultOf(q.sub.Tool, o); err != nil {
		t.result = q.failed(err)
	}
	if reason.Of(err) == reason.Cancelled || o.Decision.Reason == reason.Cancelled || o.Report.Outcome == tool.Stopped {
		t.status = taskCancelled
	}
	close(t.done)
	ts.forget(t)
}

// keep stores a task for its client.
func (ts *tasks) keep(t *task) error {
	ts.mu.Lock()
	defer ts.mu.Unlock()
	if t.id == "" {
		return reason.Errorf(reason.TimedOut, "the call was not proposed within the client's timeout").WithRemedy("Make the call again.")
	}
	if err := ts.open.add(t); err != nil {
		return err
	}
	t.kept = true
	ts.forget(t)
	return nil
}

// forget removes a task later that its client knows and that has ended. The caller holds mu.
func (ts *tasks) forget(t *task) {
	if t.kept && t.status != taskWorking {
		time.AfterFunc(taskKept, func() { ts.open.remove(t) })
	}
}

func (ts *tasks) message(t *task, kind string) *taskMessage {
	ts.mu.Lock()
	defer ts.mu.Unlock()
	m := &taskMessage{
		ResultType: kind, TaskID: t.id, Status: t.status, StatusMessage: t.says, PollMs: pollEvery.Milliseconds(),
		CreatedAt: t.created.Format(time.RFC3339Nano), LastUpdatedAt: t.changed.Format(time.RFC3339Nano),
	}
	if t.status == taskCompleted {
		m.Result = t.result
	}
	return m
}

// end cancels the running tasks and waits for them. Pending approvals stay pending.
func (ts *tasks) end() {
	for _, t := range ts.open.all() {
		t.cancel(reason.Errorf(reason.ShuttingDown, "the gateway is stopping"))
	}
	ts.running.Wait()
}

func noTask(id string) error {
	return &jsonrpc.Error{Code: jsonrpc.CodeInvalidParams, Message: "unknown task: " + clipped(id)}
}

// addTaskMethods answers tasks/get, tasks/update and tasks/cancel.
func (ts *tasks) addTaskMethods(s *mcp.Server) {
	get := func(ctx context.Context, _ *mcp.ServerSession, p *taskParams) (*taskMessage, error) {
		return ts.getTask(ctx, p)
	}
	update := func(ctx context.Context, _ *mcp.ServerSession, p *taskParams) (*taskAck, error) {
		if _, err := ts.getTask(ctx, p); err != nil {
			return nil, err
		}
		return &taskAck{ResultType: complete}, nil // tasks request no input
	}
	cancel := func(ctx context.Context, _ *mcp.ServerSession, p *taskParams) (*taskAck, error) {
		return ts.cancelTask(ctx, p)
	}
	for _, err := range []error{
		mcp.AddReceivingCustomMethod(s, "tasks/get", get),
		mcp.AddReceivingCustomMethod(s, "tasks/update", update),
		mcp.AddReceivingCustomMethod(s, "tasks/cancel", cancel),
	} {
		if err != nil {
			panic(err) // these names are the protocol's own
		}
	}
}

func (ts *tasks) getTask(ctx context.Context, p *taskParams) (*taskMessage, error) {
	v := visitFrom(ctx)
	if v == nil || p == nil {
		return nil, noTask("")
	}
	if t, ok := ts.open.find(v.owner(), p.TaskID); ok {
		return ts.message(t, complete), nil
	}
	return ts.pastTask(ctx, v, p.TaskID)
}

// pastTask returns a task from before the gateway's start, as journaled. Its result is in its
// attestation.
func (ts *tasks) pastTask(ctx context.Context, v *httpRequest, id string) (*taskMessage, error) {
	past, err := ts.pipeline.PastCall(ctx, id)
	if err != nil || past.Caller.Principal != v.caller.Principal.String() || past.Proposed == nil || past.Proposed.DeviceID != v.caller.DeviceID {
		return nil, noTask(id)
	}
	if past.Live {
		return nil, noTask(id) // the call was not made as a task
	}
	m := &taskMessage{ResultType: complete, TaskID: id, Status: taskFailed}
	if len(past.Steps) > 0 {
		m.CreatedAt = past.Steps[0].At.UTC().Format(time.RFC3339Nano)
		m.LastUpdatedAt = past.Steps[len(past.Steps)-1].At.UTC().Format(time.RFC3339Nano)
	}
	why := "the gateway stopped while the call was waiting; repeat the call"
	if past.Attested != nil {
		why = "the result is in attestation " + past.Attested.AttestationID
	}
	if m.Error, err = json.Marshal(&jsonrpc.Error{Code: jsonrpc.CodeInternalError, Message: why}); err != nil {
		return nil, err
	}
	return m, nil
}

func (ts *tasks) cancelTask(ctx context.Context, p *taskParams) (*taskAck, error) {
	v := visitFrom(ctx)
	if v == nil || p == nil {
		return nil, noTask("")
	}
	t, ok := ts.open.find(v.owner(), p.TaskID)
	if !ok {
		return nil, noTask(p.TaskID)
	}
	t.cancel(reason.Errorf(reason.Cancelled, "the client cancelled the task"))
	select {
	case <-t.done:
	case <-ctx.Done():
	}
	return &taskAck{ResultType: complete}, nil
}
