// Package wasm is Tier A: WebAssembly guests under fuel. The engine is a program of its
// own, palyra-wasm, that runs inside a Tier C sandbox and is not trusted: this package
// compiles modules in one-shot workers, keeps compiled code that nobody else can change,
// hands it to workers that serve one principal each, and answers what guests ask.
package wasm

import (
	"context"
	"log/slog"
	"strings"
	"time"

	"palyra/internal/reason"
	"palyra/internal/sandbox"
	"palyra/internal/wasm/structure"
	"palyra/internal/wasm/wire"
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
}

// Module is a module that structure.Check has read.
type Module struct {
	Bytes []byte
	// Digest is the SHA-256 of Bytes.
	Digest [32]byte
	Kind   structure.Kind
	// Features are those that its manifest asks for.
	Features wire.Features
}

// Limits bound one call.
type Limits struct {
	Fuel          uint64
	MemoryBytes   int64
	TableElements int64
	// Wall is how long the guest may run; the worker is killed when it takes longer.
	Wall time.Duration
	// Output bounds standard output and standard error, in bytes each.
	Output int
}

// Call is one call of a guest.
type Call struct {
	// Owner is the principal on whose behalf it runs: no worker serves two.
	Owner  string
	Module Module
	// Tool is the name that the guest sees as its program's.
	Tool   string
	Input  []byte
	Limits Limits
	// Seed is where its randomness comes from: the digest of the call, so that the same
	// call uses the same fuel.
	Seed [32]byte
	// Clock and Random are grants for the real ones.
	Clock, Random bool
	// Host answers what the guest asks; nil refuses everything.
	Host Host
}

// Answer is what a function of the interface of handles returns.
type Answer struct {
	// Value is a handle, a size or a negative number; see docs/format/skill.md.
	Value int32
	// Result is what the guest may read next.
	Result []byte
	// Spent says that the guest got something that its worker must not outlive, such as
	// the bytes of a secret.
	Spent bool
}

// Host answers the questions of one guest, one after another.
type Host interface {
	// Answer has the numbers and the two pieces of data of a function's arguments, which
	// are the guest's: they may be anything. An error ends the call.
	Answer(ctx context.Context, function string, numbers []int32, first, second []byte) (Answer, error)
}

// Report is what a call came to.
type Report struct {
	// Output is the result and Log what went to standard error.
	Output, Log []byte
	// Fuel is what was used, as the worker says; MemoryBytes is what the guest's memory
	// grew to, and Clock and Random are the uses of the real ones.
	Fuel        uint64
	MemoryBytes int64
	Clock       int
	Random      int
	Engine      string
	// Worker is how the worker is isolated, as it was read back.
	Worker   sandbox.Report
	Started  time.Time
	Finished time.Time
}

// unavailable is Tier A without a worker.
func unavailable(format string, args ...any) *reason.Error {
	return reason.Errorf(reason.SandboxUnavailable, format, args...).
		WithRemedy("Install palyra-wasm beside palyrad (`make build` builds it where gcc is), and see `palyrad doctor`.")
}

// verdict is the error of a call that did not finish, nil of one that did. It is false
// for an outcome that there is not.
func verdict(e wire.End, l Limits) (ended error, known bool) {
	if e.Outcome == wire.Finished {
		return nil, true
	}
	err := failure(e, l)
	return err, err != nil
}

func failure(e wire.End, l Limits) error {
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
