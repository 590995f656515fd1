package cli

import (
	"context"
	"strings"
	"testing"

	palyrav1 "palyra/gen/palyra/v1"
	"palyra/internal/reason"
)

// interrupted runs a call and interrupts it once ready is closed.
func (w *world) interrupted(ready <-chan struct{}, s Streams) result {
	w.t.Helper()
	ctx, cancel := context.WithCancel(w.t.Context())
	defer cancel()
	go func() { <-ready; cancel() }()
	return w.within(ctx, s, "call", "echo", "--idempotency-key", "mine")
}

// TestInterruptWhileWaiting: the call has a key and goes on without its
// client; Ctrl-C says so, how to withdraw it, and how to see its result.
func TestInterruptWhileWaiting(t *testing.T) {
	w := newWorld(t)
	w.gateway.asks(someApproval(), finished("succeeded", "", `{}`))
	watch := newWatcher("deny:")
	r := w.interrupted(watch.seen, Streams{Err: watch})
	w.want(r, 1)
	for _, want := range []string{
		"interrupted: the call still waits for approval " + approvalID + " and will run if it is allowed",
		"palyra approvals cancel " + approvalID, "--idempotency-key mine",
	} {
		if !strings.Contains(r.err, want) {
			t.Errorf("does not say %q:\n%s", want, r.err)
		}
	}
}

func TestInterruptAfterTheDecision(t *testing.T) {
	w := newWorld(t)
	running := make(chan struct{})
	w.gateway.play = func(ctx context.Context, _ *palyrav1.CallToolRequest, send func(*palyrav1.CallToolResponse) error) error {
		err := play(send, allowed(), output("stdout", "first"))
		<-ctx.Done()
		return err
	}
	watch := newWatcher("first")
	go func() { <-watch.seen; close(running) }()
	r := w.interrupted(running, Streams{Out: watch, OutTerminal: true})
	w.want(r, 1)
	if !strings.Contains(r.err, "interrupted: the call goes on\n") || !strings.Contains(r.err, "--idempotency-key mine") || strings.Contains(r.err, "cancel") {
		t.Errorf("says:\n%s", r.err)
	}
}

func TestInterruptBeforeTheDecision(t *testing.T) {
	w := newWorld(t)
	taken := make(chan struct{})
	w.gateway.play = func(ctx context.Context, _ *palyrav1.CallToolRequest, _ func(*palyrav1.CallToolResponse) error) error {
		close(taken)
		<-ctx.Done()
		return ctx.Err()
	}
	r := w.interrupted(taken, Streams{})
	w.want(r, 1)
	if !strings.Contains(r.err, "may have taken the call") || strings.Contains(r.err, "nothing ran") {
		t.Errorf("says:\n%s", r.err)
	}
}

func TestCancelApproval(t *testing.T) {
	w := newWorld(t)
	w.gateway.asks(someApproval(), finished("succeeded", "", `{}`))
	watch := newWatcher("deny:")
	done := make(chan result)
	go func() { done <- w.with(Streams{Err: watch}, "call", "echo") }()
	<-watch.seen
	r := w.run("approvals", "cancel", approvalID, "--reason", "wrong branch")
	w.want(r, 0)
	if !strings.Contains(r.out, "cancelled") {
		t.Errorf("says %s", r.out)
	}
	call := <-done
	w.want(call, reason.Lookup(reason.ApprovalCancelled).Exit)
	if !strings.Contains(call.err, "APPROVAL_CANCELLED") {
		t.Errorf("the call says %s", call.err)
	}
	w.want(w.run("approvals", "cancel", approvalID), 7)
	w.want(w.run("approvals", "cancel"), 2)
}
