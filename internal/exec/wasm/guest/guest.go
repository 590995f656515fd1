// Package guest is the vocabulary of Tier A: the call of a WebAssembly guest, what answers
// the guest's questions, and what the call came to. What runs guests is elsewhere, and only
// the daemon names it.
package guest

import (
	"context"
	"errors"
	"strings"
	"time"

	"palyra/internal/core/reason"
	"palyra/internal/core/tool"
	"palyra/internal/exec/wasm/module"
	"palyra/internal/exec/wasm/wire"
)

// Tier is how facts and attestations name where guests run.
const Tier = "a"

// Runner runs guests.
type Runner interface {
	// Run makes one call. The report is there also when the guest did not finish.
	Run(context.Context, Call) (Report, error)
}

// Module is a module that module.Check has read.
type Module struct {
	Bytes []byte
	// Digest is the SHA-256 of Bytes.
	Digest [32]byte
	Kind   module.Kind
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
	// Backend is the engine and what isolates its worker, each with its version.
	Backend string
	// Isolation is how the worker is isolated, as it was read back when it started.
	Isolation   tool.Isolation
	Enforcement tool.Enforcement
	Started     time.Time
	Finished    time.Time
}

// Describe adds what is known of the worker, and of what the guest used, to the report of
// a call.
func (r Report) Describe(to *tool.Report) {
	if r.Started.IsZero() {
		return
	}
	isolation := r.Isolation
	to.Isolation, to.Enforcement, to.Executor.Backend = &isolation, r.Enforcement, r.Backend
	to.Usage = tool.Usage{Wall: r.Finished.Sub(r.Started), PeakMemory: r.MemoryBytes, Fuel: int64(r.Fuel)}
	to.StartedAt = r.Started.UTC()
}

// mostLogged bounds what an error says of a guest's log.
const mostLogged = 2000

// WithLog adds the end of what the guest wrote to standard error, where programs say why
// they stop, to the error of a guest that failed.
func (r Report) WithLog(err error) error {
	var known *reason.Error
	if len(r.Log) == 0 || !errors.As(err, &known) || known.Code != reason.ToolFailed {
		return err
	}
	said := strings.ToValidUTF8(string(r.Log[max(0, len(r.Log)-mostLogged):]), "\uFFFD")
	return reason.Errorf(known.Code, "%s; it logged: %s", known.Message, strings.TrimSpace(said)).WithRemedy("%s", known.NextStep())
}
