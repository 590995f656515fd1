// Package wasm implements Tier A: WebAssembly guests with limited fuel. The engine is a
// separate, untrusted program, palyra-wasm, which runs in a Tier C sandbox. This package
// compiles modules in one-shot workers, and stores the compiled code so that no other process
// can change it. It passes the code to workers that serve one principal each, and answers the
// requests of guests.
//
// A worker loads one module. Compiled code of several modules in one process would increase the
// attack surface, and starting a worker costs about as much as loading another module. The
// decision about a call of a guest is durable before the guest runs, even if the guest has no
// grants. A call of package pure does not wait for that. A guest does, because only a sandbox
// with an untrusted engine limits its effects.
package wasm

import (
	"log/slog"
	"strings"
	"time"

	"palyra/internal/core/reason"
	"palyra/internal/exec/sandbox"
	"palyra/internal/exec/wasm/guest"
	"palyra/internal/exec/wasm/wire"
)

// Worker is the name of the worker's program.
const Worker = "palyra-wasm"

// Config configures a Runner.
type Config struct {
	// Sandbox is the Tier C runner for workers; nil if it is not available.
	Sandbox sandbox.Runner
	// Worker is the path of the worker's program.
	Worker string
	// Dir is a directory that only palyrad writes to.
	Dir string
	Log *slog.Logger
	// Workers is the maximum number of concurrent guests, 0 for 16.
	Workers int
	// CompileCPU is the processor time for compiling one module, 0 for 10 s.
	CompileCPU time.Duration
	// Limits are the usual limits of calls: spare workers are started with them. With zero limits
	// no spare worker is started.
	Limits guest.Limits
}

// unavailable returns the error for a missing or unusable worker.
func unavailable(format string, args ...any) *reason.Error {
	return reason.Errorf(reason.SandboxUnavailable, format, args...).
		WithRemedy("Install palyra-wasm in the directory of palyrad (`make build` builds it if gcc is installed), and see `palyrad doctor`.")
}

func closing() error { return reason.Errorf(reason.Cancelled, "palyrad is shutting down") }

// verdict returns the error of a call that did not finish, nil if it finished. known is false for
// an unknown outcome.
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
		return reason.Errorf(reason.QuotaExceeded, "fuel: the guest used all of its %d units", l.Fuel).
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
		return reason.Errorf(reason.ToolFailed, "the guest's result is not valid: %s", e.Problem)
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
