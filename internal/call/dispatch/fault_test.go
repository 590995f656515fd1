package dispatch_test

import (
	"bytes"
	"context"
	"errors"
	"strings"
	"testing"

	"palyra/internal/core/reason"
	"palyra/internal/core/tool"
)

// TestFaultsAreLogged: the client receives one sentence about a fault inside a tool, and the
// log contains the cause.
func TestFaultsAreLogged(t *testing.T) {
	t.Parallel()
	var log bytes.Buffer
	w := newLoggingWorld(t, &log)
	run := func(r tool.Report) string {
		log.Reset()
		w.tool.Work = func(context.Context, tool.Call) tool.Report { return r }
		w.Run(t.Context(), w.decide(t, w.proposal(t)))
		return log.String()
	}
	got := run(tool.Report{Outcome: tool.Failed, Reason: string(reason.Internal), Message: "told", Cause: errors.New("the cause")})
	if !strings.Contains(got, "level=ERROR") || !strings.Contains(got, `error="the cause"`) || !strings.Contains(got, "proposal=") || strings.Contains(got, "told") {
		t.Errorf("the log is %q", got)
	}
	if got := run(tool.Report{Outcome: tool.Failed, Reason: string(reason.Internal), Message: "told"}); !strings.Contains(got, "told") {
		t.Errorf("without a cause the log is %q", got)
	}
	// Control: a failure that the client caused is not logged.
	if got := run(tool.Report{Outcome: tool.Failed, Reason: string(reason.FileNotFound), Cause: errors.New("x")}); got != "" {
		t.Errorf("a failure of the call is logged: %q", got)
	}
}

// A call whose client disconnected before the start counts as cancelled, not as a fault.
func TestLeavingBeforeTheStartIsCancelled(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	d := w.decide(t, w.proposal(t))
	ctx, leave := context.WithCancel(t.Context())
	d.Ready = func(ctx context.Context) error {
		leave()
		<-ctx.Done()
		return ctx.Err()
	}
	report := w.Run(ctx, d)
	if report.Outcome != tool.Refused || report.Reason != string(reason.Cancelled) {
		t.Errorf("got %+v", report)
	}
	// Control: the same error is a fault while the client is connected.
	d = w.decide(t, w.proposal(t))
	d.Ready = func(context.Context) error { return errors.New("x") }
	if report := w.Run(t.Context(), d); report.Reason != string(reason.Internal) {
		t.Errorf("got %+v", report)
	}
}
