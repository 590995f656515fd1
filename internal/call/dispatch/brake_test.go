package dispatch_test

import (
	"context"
	"encoding/json"
	"errors"
	"sync"
	"testing"

	"palyra/internal/core/reason"
	"palyra/internal/core/tool"
	"palyra/internal/gateway/gatewaytest"
)

// untilStopped runs until its context ends, and signals when it has started.
func untilStopped(began chan<- struct{}) func(context.Context, tool.Call) tool.Report {
	return func(ctx context.Context, _ tool.Call) tool.Report {
		began <- struct{}{}
		<-ctx.Done()
		return tool.Report{Outcome: tool.Stopped, Reason: string(reason.Cancelled)}
	}
}

func TestFreezeStopsRunningCallsAndRefusesOthers(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	const calls = 8
	began := make(chan struct{}, calls)
	w.tool.Work = untilStopped(began)
	var wg sync.WaitGroup
	for range calls {
		d := w.decide(t, w.proposal(t))
		wg.Go(func() {
			report := w.Run(context.Background(), d)
			if report.Outcome != tool.Stopped || report.Reason != string(reason.GatewayFrozen) || report.Remedy == "" {
				t.Errorf("a call that was stopped: %+v", report)
			}
		})
	}
	for range calls {
		<-began
	}
	if n := w.InFlight(); n != calls {
		t.Errorf("%d calls in flight", n)
	}
	waiting := w.decide(t, w.proposal(t))
	if n := w.Freeze(); n != calls {
		t.Errorf("freeze stopped %d calls, want %d", n, calls)
	}
	wg.Wait()
	if !w.Frozen() || w.InFlight() != 0 {
		t.Errorf("frozen %v, %d in flight", w.Frozen(), w.InFlight())
	}
	ran := w.tool.Runs.Load()
	report := w.Run(t.Context(), waiting)
	if report.Outcome != tool.Refused || report.Reason != string(reason.GatewayFrozen) || w.tool.Runs.Load() != ran {
		t.Errorf("a call while frozen: %+v", report)
	}
	if n := w.Freeze(); n != 0 || !w.Frozen() {
		t.Errorf("a second freeze stopped %d", n)
	}

	w.Thaw()
	w.tool.Change(func(p *gatewaytest.Probe) { p.Work = nil })
	if report := w.Run(t.Context(), w.decide(t, w.proposal(t))); report.Outcome != tool.Succeeded {
		t.Errorf("the control after thaw: %+v", report)
	}
	// A call that was refused during a freeze does not run after the thaw.
	if report := w.Run(t.Context(), waiting); report.Reason != string(reason.PermitRefused) {
		t.Errorf("the refused call after thaw: %+v", report)
	}
}

// A call that had finished its work before the freeze has succeeded.
func TestFreezeLeavesSuccessAlone(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.tool.Work = func(context.Context, tool.Call) tool.Report {
		w.Freeze()
		return tool.Report{Outcome: tool.Succeeded, Result: json.RawMessage(`1`)}
	}
	if report := w.Run(t.Context(), w.decide(t, w.proposal(t))); report.Outcome != tool.Succeeded || report.Reason != "" {
		t.Errorf("got %+v", report)
	}
}

// A freeze between the check of the binding and the start stops the call.
func TestFreezeDuringPreparation(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	d := w.decide(t, w.proposal(t))
	w.tool.Work = func(ctx context.Context, _ tool.Call) tool.Report {
		if ctx.Err() == nil {
			t.Error("the tool was let go on")
		}
		return tool.Report{Outcome: tool.Stopped}
	}
	d.Ready = func(context.Context) error { w.Freeze(); return nil }
	if report := w.Run(t.Context(), d); report.Reason != string(reason.GatewayFrozen) {
		t.Errorf("got %+v", report)
	}
}

// A cancellation by the client is not reported as a freeze.
func TestCancelIsNotAFreeze(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	began := make(chan struct{}, 1)
	w.tool.Work = untilStopped(began)
	ctx, cancel := context.WithCancelCause(t.Context())
	d := w.decide(t, w.proposal(t))
	done := make(chan tool.Report)
	go func() { done <- w.Run(ctx, d) }()
	<-began
	cancel(errors.New("gone"))
	if report := <-done; report.Outcome != tool.Stopped || report.Reason != string(reason.Cancelled) {
		t.Errorf("got %+v", report)
	}
}
