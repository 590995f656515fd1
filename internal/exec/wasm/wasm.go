// Package wasm is Tier A: WebAssembly guests under fuel. The engine is a program of its
// own, palyra-wasm, that runs inside a Tier C sandbox and is not trusted: this package
// compiles modules in one-shot workers, keeps compiled code that nobody else can change,
// hands it to workers that serve one principal each, and answers what guests ask.
package wasm

import (
	"log/slog"
	"strings"

	"palyra/internal/core/reason"
	"palyra/internal/exec/sandbox"
	"palyra/internal/exec/wasm/guest"
	"palyra/internal/exec/wasm/wire"
)

// Worker is the name of the worker's program.
const Worker = "palyra-wasm"

// Config is what a Runner works with.
type Config struct {
	// Sandbox is Tier C, in which workers run; nil where there is none.
	Sandbox sandbox.Runner
	// Worker is the path of the worker's program.
	Worker string
	// Dir is a directory that only palyrad writes.
	Dir string
	Log *slog.Logger
	// Workers bounds how many guests run at once, 0 for 16.
	Workers int
	// Limits are those of most calls: workers that stand ready have room for them. Without
	// any none stands ready.
	Limits guest.Limits
}

// unavailable is Tier A without a worker.
func unavailable(format string, args ...any) *reason.Error {
	return reason.Errorf(reason.SandboxUnavailable, format, args...).
		WithRemedy("Install palyra-wasm beside palyrad (`make build` builds it where gcc is), and see `palyrad doctor`.")
}

// verdict is the error of a call that did not finish, nil of one that did. It is false
// for an outcome that there is not.
func verdict(e wire.End, l guest.Limits) (ended error, known bool) {
	if e.Outcome == wire.Finished {
		return nil, true
	}
	err := failure(e, l)
	return err, err != nil
}

func failure(e wire.End, l guest.Limits) error {
	switch e.Outcome {
	case wire.OutOfFuel:
		return reason.Errorf(reason.QuotaExceeded, "fuel: the guest used all of its %d", l.Fuel).
			WithRemedy("Give it a smaller input, or raise `fuel` in its manifest, up to wasm_runtime.fuel_ceiling.")
	case wire.OutOfTime:
		return reason.Errorf(reason.TimedOut, "the guest ran longer than %s", l.Wall)
	case wire.OutOfMemory:
		return reason.Errorf(reason.QuotaExceeded, "memory: the guest ended with all of its %d bytes in use", l.MemoryBytes)
	case wire.OutOfTable:
		return reason.Errorf(reason.QuotaExceeded, "table: the guest ended with all of its %d elements in use", l.TableElements)
	case wire.OutOfStack:
		return reason.Errorf(reason.QuotaExceeded, "stack: the guest called itself too deeply")
	case wire.OutOfOutput:
		return reason.Errorf(reason.QuotaExceeded, "output: the guest wrote more than %d bytes", l.Output)
	case wire.Exited:
		return reason.Errorf(reason.ToolFailed, "the guest exited with code %d", e.Exit)
	case wire.BadResult:
		return reason.Errorf(reason.ToolFailed, "the guest's result cannot be read: %s", e.Problem)
	case wire.NotStartable:
		return reason.Errorf(reason.ToolFailed, "the guest could not be started: %s", firstLine(e.Problem))
	case wire.Trapped:
		return reason.Errorf(reason.ToolFailed, "the guest trapped: %s", firstLine(e.Problem))
	}
	return nil
}

func firstLine(text string) string {
	line, _, _ := strings.Cut(strings.TrimSpace(text), "\n")
	return line[:min(len(line), 300)]
}
