package calls_test

import (
	"context"
	"strings"
	"testing"

	"connectrpc.com/connect"

	palyrav1 "palyra/gen/palyra/v1"
	"palyra/internal/cli/clitest"
	"palyra/internal/core/reason"
)

// wantsReason refuses calls without a reason, and records all calls.
func wantsReason(w *clitest.World) *[]*palyrav1.CallToolRequest {
	var got []*palyrav1.CallToolRequest
	w.Gateway.Play = func(_ context.Context, req *palyrav1.CallToolRequest, send func(*palyrav1.CallToolResponse) error) error {
		got = append(got, req)
		if req.GetRequesterReason() == "" {
			return clitest.GatewayError(connect.CodeFailedPrecondition, reason.RequestReasonNeeded, "policy requires a reason from the requester before approvers are asked: Which ticket?\x1b[2J",
				map[string]string{"question": "Which ticket?\x1b[2J"})
		}
		return clitest.Play(send, clitest.Allowed(), clitest.Finished("succeeded", "", `{}`), clitest.Attested())
	}
	return &got
}

// On a terminal the command requests the reason once and makes a new call with it. Without a
// terminal, or with an empty answer, the error has the remedy.
func TestCallAsksForTheReason(t *testing.T) {
	t.Parallel()
	w := clitest.NewWorld(t)
	got := wantsReason(w)
	r := w.With(clitest.Typing("OPS-1\n"), "--no-color", "call", "process.run")
	w.Want(r, 0)
	if list := *got; len(list) != 2 || list[1].GetRequesterReason() != "OPS-1" || list[0].GetIdempotencyKey() == list[1].GetIdempotencyKey() {
		t.Errorf("called %v", list)
	}
	if !strings.Contains(r.Err, "policy requires a reason before approval: Which ticket?") || strings.Contains(r.Err, "\x1b[2J") {
		t.Errorf("stderr %q", r.Err)
	}
	for name, run := range map[string]func() clitest.Result{
		"no terminal": func() clitest.Result { return w.Run("call", "process.run") },
		"no reason":   func() clitest.Result { return w.With(clitest.Typing("\n"), "call", "process.run") },
		"a key of theirs": func() clitest.Result {
			return w.With(clitest.Typing("OPS-1\n"), "call", "process.run", "--idempotency-key", "k1")
		},
	} {
		*got = nil
		r := run()
		w.Want(r, reason.Lookup(reason.RequestReasonNeeded).Exit)
		if len(*got) != 1 || !strings.Contains(r.Err, "Which ticket?") || !strings.Contains(r.Err, "--reason TEXT") {
			t.Errorf("%s: %d calls, stderr %q", name, len(*got), r.Err)
		}
	}
	*got = nil
	w.Want(w.Run("call", "process.run", "--reason", "OPS-2"), 0)
	if list := *got; len(list) != 1 || list[0].GetRequesterReason() != "OPS-2" {
		t.Errorf("with the flag: %v", list)
	}
}
