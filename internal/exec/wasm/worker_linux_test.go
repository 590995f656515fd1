package wasm

import (
	"bufio"
	"context"
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"testing"

	"palyra/internal/core/must"
	"palyra/internal/core/reason"
	"palyra/internal/exec/sandbox"
	"palyra/internal/exec/wasm/wire"
)

// broken is a sandbox in which no program starts.
type broken struct{ sandbox.Runner }

func (broken) Run(context.Context, sandbox.Spec) (sandbox.Report, error) {
	return sandbox.Report{}, reason.Errorf(reason.SandboxUnavailable, "there are no namespaces")
}

// TestWorkerThatDoesNotStart: a start error is reported immediately, before the timeout of the
// greeting.
func TestWorkerThatDoesNotStart(t *testing.T) {
	t.Parallel()
	program := filepath.Join(t.TempDir(), Worker)
	must.Do(t, os.WriteFile(program, []byte("\x7fELF"), 0o755))
	r := must.Get(Open(Config{Sandbox: broken{}, Worker: program, Dir: t.TempDir(), Log: slog.New(slog.DiscardHandler)}))(t)
	defer r.Close()
	// The context lasts half of the timeout of the greeting.
	ctx, stop := context.WithTimeout(t.Context(), greetingTime/2)
	defer stop()
	if _, err := r.Probe(ctx); reason.Of(err) != reason.SandboxUnavailable || ctx.Err() != nil {
		t.Errorf("the worker did not start: %v", err)
	}
}

// TestReadAfterTheEnd: after its caller has disconnected, no frame of a worker is accepted,
// even if it was already received. From then on the deadline of the connection is unreliable.
func TestReadAfterTheEnd(t *testing.T) {
	t.Parallel()
	ours, received, err := sockets()
	must.Do(t, err)
	defer ours.Close()
	defer received.Close()
	w := &worker{conn: ours, in: bufio.NewReader(ours)}
	for range 2 {
		must.Do(t, wire.Write(received, wire.Ready, wire.Greeting{Engine: "one"}))
	}
	if f, err := w.read(t.Context(), 0, greetingTime); err != nil || f.Kind != wire.Ready {
		t.Fatalf("a frame that is there: %v %v", f.Kind, err)
	}
	left, leave := context.WithCancel(t.Context())
	leave()
	if _, err := w.read(left, 0, greetingTime); !errors.Is(err, context.Canceled) {
		t.Errorf("after its caller left: %v", err)
	}
}
