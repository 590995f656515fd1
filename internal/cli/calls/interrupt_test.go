package calls_test

import (
	"context"
	"slices"
	"strings"
	"testing"

	palyrav1 "palyra/gen/palyra/v1"
	"palyra/internal/cli/clitest"
	"palyra/internal/cli/printer"
)

// interrupted runs a call and interrupts it once ready is closed.
func interrupted(w *clitest.World, ready <-chan struct{}, s printer.Streams) clitest.Result {
	w.T.Helper()
	ctx, cancel := context.WithCancel(w.T.Context())
	defer cancel()
	go func() { <-ready; cancel() }()
	return w.Within(ctx, s, "call", "echo", "--idempotency-key", "mine")
}

// TestInterruptWhileWaiting: the call has an idempotency key and continues without its client.
// Ctrl-C prints this, and the commands to withdraw the call and to get its result.
func TestInterruptWhileWaiting(t *testing.T) {
	t.Parallel()
	w := clitest.NewWorld(t)
	w.Gateway.Asks(clitest.SomeApproval(), clitest.Finished("succeeded", "", `{}`))
	watch := clitest.NewWatcher("deny:")
	r := interrupted(w, watch.Seen, printer.Streams{Err: watch})
	w.Want(r, 130)
	for _, want := range []string{
		"interrupted: the call is still waiting for approval " + clitest.ApprovalID + " and will run if it is allowed",
		"palyra approvals cancel " + clitest.ApprovalID, "--idempotency-key mine",
	} {
		if !strings.Contains(r.Err, want) {
			t.Errorf("does not say %q:\n%s", want, r.Err)
		}
	}
}

func TestInterruptAfterTheDecision(t *testing.T) {
	t.Parallel()
	w := clitest.NewWorld(t)
	running := make(chan struct{})
	w.Gateway.Play = func(ctx context.Context, _ *palyrav1.CallToolRequest, send func(*palyrav1.CallToolResponse) error) error {
		err := clitest.Play(send, clitest.Allowed(), clitest.Output("stdout", "first"))
		<-ctx.Done()
		return err
	}
	watch := clitest.NewWatcher("first")
	go func() { <-watch.Seen; close(running) }()
	r := interrupted(w, running, printer.Streams{Out: watch, OutTerminal: true})
	w.Want(r, 130)
	if !strings.Contains(r.Err, "interrupted: the call continues\n") || !strings.Contains(r.Err, "--idempotency-key mine") || !strings.Contains(r.Err, "palyra calls cancel 01PROPOSAL0000000000000000\n") {
		t.Errorf("says:\n%s", r.Err)
	}
}

func TestInterruptBeforeTheDecision(t *testing.T) {
	t.Parallel()
	w := clitest.NewWorld(t)
	taken := make(chan struct{})
	w.Gateway.Play = func(ctx context.Context, _ *palyrav1.CallToolRequest, _ func(*palyrav1.CallToolResponse) error) error {
		close(taken)
		<-ctx.Done()
		return ctx.Err()
	}
	r := interrupted(w, taken, printer.Streams{})
	w.Want(r, 130)
	if !strings.Contains(r.Err, "if the gateway received the call") || strings.Contains(r.Err, "nothing ran") {
		t.Errorf("says:\n%s", r.Err)
	}
}

// TestSessionOfTheTerminal: calls of one terminal have the same session, unless a session is
// named. The command that repeats a call has its session and key, because it may run in another
// terminal.
func TestSessionOfTheTerminal(t *testing.T) {
	t.Parallel()
	w := clitest.NewWorld(t)
	w.Want(w.Run("call", "echo"), 0)
	w.Terminal = "terminal-0123456789"
	w.Want(w.Run("call", "echo"), 0)
	w.Want(w.Run("call", "echo", "--session", "mine"), 0)
	var got []string
	for _, c := range w.Gateway.Calls {
		got = append(got, c.GetSession())
	}
	if want := []string{"", "terminal-0123456789", "mine"}; !slices.Equal(got, want) {
		t.Errorf("the sessions are %q, want %q", got, want)
	}
	w.Gateway.Asks(clitest.SomeApproval(), clitest.Finished("succeeded", "", `{}`))
	watch := clitest.NewWatcher("deny:")
	r := interrupted(w, watch.Seen, printer.Streams{Err: watch})
	w.Want(r, 130)
	if !strings.Contains(r.Err, "--session terminal-0123456789 --idempotency-key mine") {
		t.Errorf("it does not say how to see the result:\n%s", r.Err)
	}
}
