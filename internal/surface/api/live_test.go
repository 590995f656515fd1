package api_test

import (
	"context"
	"errors"
	"net/http"
	"strings"
	"testing"

	"connectrpc.com/connect"

	palyrav1 "palyra/gen/palyra/v1"
	"palyra/internal/core/access"
	"palyra/internal/core/must"
	"palyra/internal/core/reason"
	"palyra/internal/core/tool"
	"palyra/internal/gateway/gatewaytest"
)

// watching is an open stream of approvals, whose end is sent to end.
type watching struct {
	end chan error
}

// watch opens a stream and returns after its first message.
func (c *client) watch(opts ...connect.ClientOption) *watching {
	c.w.t.Helper()
	stream := must.Get(c.approvals(opts...).WatchApprovals(c.w.t.Context(), &palyrav1.WatchApprovalsRequest{}))(c.w.t)
	if !stream.Receive() {
		c.w.t.Fatalf("the stream did not open: %v", stream.Err())
	}
	watching := &watching{end: make(chan error, 1)}
	go func() {
		for stream.Receive() {
		}
		watching.end <- stream.Err()
		_ = stream.Close()
	}()
	return watching
}

// ended waits for the stream's end.
func (s *watching) ended(t *testing.T) error {
	t.Helper()
	return must.Receive(t, "the stream ends", s.end)
}

func (s *watching) open() bool {
	select {
	case err := <-s.end:
		s.end <- err
		return false
	default:
		return true
	}
}

func (w *world) revoke(device string) {
	w.t.Helper()
	must.Get(w.identity.Devices.Revoke(w.t.Context(), access.User("alice"), device, "lost", true))(w.t)
}

// Revoking a device ends its own streams immediately, and no others.
func TestRevocationEndsLiveStreams(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	var streams []*watching
	for _, opts := range protocols {
		streams = append(streams, w.bob.watch(opts...))
	}
	other := w.eve.watch()
	w.revoke(w.bob.device)
	for _, s := range streams {
		wantError(t, "the revoked device's stream", s.ended(t), reason.Unauthenticated)
	}
	if !other.open() {
		t.Error("another device's stream ended")
	}
	_, err := w.bob.status().GetStatus(t.Context(), &palyrav1.GetStatusRequest{})
	wantError(t, "its next request", err, reason.Unauthenticated)
	if n := w.server.End(w.bob.device, nil); n != 0 {
		t.Errorf("%d requests of the device are still live", n)
	}
	if _, err := w.eve.status().GetStatus(t.Context(), &palyrav1.GetStatusRequest{}); err != nil {
		t.Errorf("the control: %v", err)
	}
}

// A call of a revoked device is stopped and attested, and its result is not returned.
func TestRevocationStopsACall(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	began, ended := make(chan struct{}), make(chan struct{})
	w.read.Work = func(ctx context.Context, c tool.Call) tool.Report {
		close(began)
		<-ctx.Done()
		c.Output("stdout", []byte("too late"))
		defer close(ended)
		r := gatewaytest.Succeeded(`{"secret":"result"}`)
		r.Outcome, r.Reason = tool.Stopped, string(reason.Cancelled)
		return r
	}
	type outcome struct {
		list []*palyrav1.CallToolResponse
		err  error
	}
	done := make(chan outcome, 1)
	go func() {
		list, err := w.coder.call(reading())
		done <- outcome{list, err}
	}()
	<-began
	w.revoke(w.coder.device)
	got := <-done
	wantError(t, "the call", got.err, reason.Unauthenticated)
	if n := names(got.list); len(n) != 2 {
		t.Errorf("the revoked device received %v", n)
	}
	<-ended
	must.Eventually(t, "the call is attested", func() (bool, string) {
		events := must.Get(w.journalEvents())(t)
		last := events[len(events)-1].GetCode()
		return last == "PAL-X100", last
	})
}

// TestStopEndsWatchesButNotCalls: when the gateway stops, streams that only watch end, and calls
// continue.
func TestStopEndsWatchesButNotCalls(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	began, release := make(chan struct{}), make(chan struct{})
	w.read.Work = func(context.Context, tool.Call) tool.Report {
		close(began)
		<-release
		return gatewaytest.Succeeded(`{}`)
	}
	done := make(chan error, 1)
	go func() {
		list, err := w.coder.call(reading())
		if err == nil && len(list) != 4 {
			err = errors.New("the call lacks its end")
		}
		done <- err
	}()
	<-began
	approvals := w.bob.watch()
	tail, err := w.eve.journal().TailEvents(t.Context(), &palyrav1.TailEventsRequest{})
	if err != nil || !tail.Receive() {
		t.Fatal(err)
	}
	w.stopping()
	wantError(t, "the watch", approvals.ended(t), reason.ShuttingDown)
	for tail.Receive() {
	}
	wantError(t, "the tail", tail.Err(), reason.ShuttingDown)
	close(release)
	if err := <-done; err != nil {
		t.Errorf("the call: %v", err)
	}
}

// A watcher gets the changes of approvals, and can resume after a sequence number.
func TestWatchResumes(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	call := must.Get(w.coder.gateway().CallTool(t.Context(), running()))(t)
	defer call.Close()
	for call.Receive() && call.Msg().GetApprovalRequested() == nil {
	}
	first := must.Get(w.bob.approvals().WatchApprovals(t.Context(), &palyrav1.WatchApprovalsRequest{}))(t)
	var seen *palyrav1.WatchApprovalsResponse
	for seen.GetApproval() == nil && first.Receive() {
		seen = first.Msg()
	}
	_ = first.Close()
	asked := seen.GetApproval()
	must.Get(w.bob.approvals().DecideApproval(t.Context(), &palyrav1.DecideApprovalRequest{
		ApprovalId: asked.GetApprovalId(), ShownDigest: asked.GetCallDigest(), Reason: "no",
	}))(t)
	again := must.Get(w.bob.approvals().WatchApprovals(t.Context(), &palyrav1.WatchApprovalsRequest{Cursor: seen.GetCursor()}))(t)
	defer again.Close()
	for again.Receive() {
		if a := again.Msg().GetApproval(); a != nil {
			if a.GetState() != palyrav1.ApprovalState_APPROVAL_STATE_DENIED {
				t.Errorf("after the cursor came %v", a)
			}
			break
		}
	}
	bad, err := w.bob.approvals().WatchApprovals(t.Context(), &palyrav1.WatchApprovalsRequest{Cursor: "not-one"})
	if err == nil {
		for bad.Receive() {
		}
		err = bad.Err()
	}
	wantError(t, "a made-up cursor", err, reason.InvalidInput)
}

// A stream ends when new policies no longer permit it to its caller, also if it has no message
// to send. Streams of other callers continue.
func TestPoliciesEndStreams(t *testing.T) {
	t.Parallel()
	held := make(chan error, 1)
	w := newWorld(t, func(w *world) {
		w.surfaces = map[string]http.Handler{"/mcp": http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			w.WriteHeader(http.StatusOK)
			_ = http.NewResponseController(w).Flush()
			<-r.Context().Done()
			held <- context.Cause(r.Context())
		})}
	})
	began := make(chan struct{}, 1)
	w.read.Work = func(ctx context.Context, _ tool.Call) tool.Report {
		began <- struct{}{}
		<-ctx.Done()
		return gatewaytest.Succeeded(`{}`).Fail(ctx, ctx.Err())
	}
	tail := must.Get(w.eve.journal().TailEvents(t.Context(), &palyrav1.TailEventsRequest{}))(t)
	if !tail.Receive() {
		t.Fatal(tail.Err())
	}
	others := w.bob.watch()
	call := must.Get(w.coder.gateway().CallTool(t.Context(), reading()))(t)
	go func() {
		for call.Receive() {
		}
	}()
	<-began
	res := must.Get(w.coder.http.Post(w.url+"/mcp", "application/json", strings.NewReader("{}")))(t)
	defer res.Body.Close()
	w.policies = `@id("no-tail") @reason("a test") forbid(principal, action == Action::"journal.tail", resource);
@id("no-calls") @reason("a test") forbid(principal is Agent, action in [Action::"tool.call", Action::"tool.list"], resource);`
	w.engine.Swap(w.policySet(w.registry.List()))
	w.server.LookAgain()
	for tail.Receive() {
	}
	wantError(t, "the tail", tail.Err(), reason.PermissionDenied)
	if err := <-held; reason.Of(err) != reason.PermissionDenied {
		t.Errorf("the route: %v", err)
	}
	must.Eventually(t, "the call ends", func() (bool, string) {
		events := must.Get(w.journalEvents())(t)
		last := events[len(events)-1]
		return last.GetCode() == "PAL-X100", last.GetCode()
	})
	if !others.open() {
		t.Error("the stream of another ended")
	}
}
