package dispatch_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"palyra/internal/core/access"
	"palyra/internal/core/must"
	"palyra/internal/core/tool"
	"palyra/internal/gateway/gatewaytest"
)

type foreignKey struct{}

// watching is a tool that stores the contexts it receives.
type watching struct {
	*gatewaytest.Probe
	got map[string]any
}

func (w watching) note(ctx context.Context, method string) { w.got[method] = ctx.Value(foreignKey{}) }

func (w watching) Plan(ctx context.Context, p tool.Proposal) (tool.Plan, error) {
	w.note(ctx, "Plan")
	return w.Probe.Plan(ctx, p)
}

func (w watching) Prepare(ctx context.Context, p tool.Proposal) (tool.Prepared, error) {
	w.note(ctx, "Prepare")
	prepared, err := w.Probe.Prepare(ctx, p)
	run := prepared.Run
	prepared.Run = func(ctx context.Context, c tool.Call) tool.Report {
		w.note(ctx, "Run")
		return run(ctx, c)
	}
	return prepared, err
}

func (w watching) Resolve(ctx context.Context, _ tool.Proposal, _ tool.Plan) (tool.Resolved, error) {
	w.note(ctx, "Resolve")
	return tool.Resolved{}, nil
}

// TestExecutorsGetNoValues: a value of a request's context reaches no method of a tool.
// Control: the context of the request contains the value.
func TestExecutorsGetNoValues(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	watched := watching{w.tool, map[string]any{}}
	must.Do(t, w.SetTools("", []tool.Runnable{watched}))
	ctx := context.WithValue(t.Context(), foreignKey{}, "2026-07-28")
	d := w.decide(t, w.proposal(t))
	plan := must.Get(w.Plan(ctx, d.Proposal))(t)
	must.Get(w.Resolved(ctx, d.Proposal, plan))(t)
	if r := w.Run(ctx, d); r.Outcome != tool.Succeeded {
		t.Fatalf("%s %s", r.Outcome, r.Message)
	}
	if ctx.Value(foreignKey{}) == nil || len(watched.got) != 4 {
		t.Errorf("called %v", watched.got)
	}
	for method, value := range watched.got {
		if value != nil {
			t.Errorf("%s got %v", method, value)
		}
	}
}

// TestIsolate: the isolated context keeps the deadline, the cancellation with its cause, the
// device and the precedence of the request.
func TestIsolate(t *testing.T) {
	t.Parallel()
	deadline := time.Now().Add(time.Hour)
	timed, stop := context.WithDeadline(access.Precede(access.WithDevice(t.Context(), "d"), access.PrecedenceOperator), deadline)
	defer stop()
	request, cancel := context.WithCancelCause(timed)
	isolated, end := tool.Isolate(request)
	defer end()
	below, stopBelow := context.WithCancel(isolated)
	defer stopBelow()
	if at, is := isolated.Deadline(); !is || !at.Equal(deadline) || access.DeviceOf(below) != "d" || access.PrecedenceOf(below) != access.PrecedenceOperator || below.Err() != nil {
		t.Errorf("deadline %v, device %q, precedence %v, %v", at, access.DeviceOf(below), access.PrecedenceOf(below), below.Err())
	}
	why := errors.New("the reason")
	cancel(why)
	<-below.Done()
	if !errors.Is(context.Cause(below), why) || !errors.Is(context.Cause(isolated), why) {
		t.Errorf("ended because of %v, %v", context.Cause(isolated), context.Cause(below))
	}
	late, end := tool.Isolate(request)
	defer end()
	if late.Err() == nil || !errors.Is(context.Cause(late), why) {
		t.Errorf("of a request that has ended: %v", late.Err())
	}
	ended, end := tool.Isolate(t.Context())
	if end(); ended.Err() == nil {
		t.Error("end did not end it")
	}
}
