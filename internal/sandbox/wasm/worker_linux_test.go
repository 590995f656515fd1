package wasm

import (
	"context"
	"log/slog"
	"os"
	"path/filepath"
	"testing"

	"palyra/internal/must"
	"palyra/internal/reason"
	"palyra/internal/sandbox"
)

// broken is a sandbox that starts nothing.
type broken struct{ sandbox.Runner }

func (broken) Run(context.Context, sandbox.Spec) (sandbox.Report, error) {
	return sandbox.Report{}, reason.Errorf(reason.SandboxUnavailable, "there are no namespaces")
}

// TestWorkerThatDoesNotStart: what keeps a worker from starting is said at once, and not
// when its greeting is overdue.
func TestWorkerThatDoesNotStart(t *testing.T) {
	program := filepath.Join(t.TempDir(), Worker)
	must.Do(t, os.WriteFile(program, []byte("\x7fELF"), 0o755))
	r := must.Get(Open(Config{Sandbox: broken{}, Worker: program, Dir: t.TempDir(), Log: slog.New(slog.DiscardHandler)}))(t)
	defer r.Close()
	// Half of the time that a greeting may take.
	ctx, stop := context.WithTimeout(t.Context(), greetingTime/2)
	defer stop()
	if _, err := r.Probe(ctx); reason.Of(err) != reason.SandboxUnavailable || ctx.Err() != nil {
		t.Errorf("the worker did not start: %v", err)
	}
}
