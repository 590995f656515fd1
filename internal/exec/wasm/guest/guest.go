// Package guest defines the types of Tier A: the call of a WebAssembly guest, the host that
// answers the guest's requests, and the report of the call. The implementation is in other
// packages, which only the daemon imports.
//
// The package is separate from the engine because package catalog plans the tools of skills and
// must not import an executor.
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

// Tier is the name of Tier A in facts and attestations.
const Tier = "a"

// Runner runs guests.
type Runner interface {
	// Run makes one call. It returns a report even if the guest did not finish.
	Run(context.Context, Call) (Report, error)
}

// Module is a module that passed module.Check.
type Module struct {
	Bytes []byte
	// Digest is the SHA-256 of Bytes.
	Digest [32]byte
	Kind   module.Kind
	// Features are the features that its manifest requests.
	Features wire.Features
}

// Limits bound one call.
type Limits struct {
	Fuel          uint64
	MemoryBytes   int64
	TableElements int64
	// Wall is the maximum duration of the guest; after that the worker is killed.
	Wall time.Duration
	// Output is the maximum size of standard output and of standard error, in bytes each.
	Output int
}

// Call is one call of a guest.
type Call struct {
	// Owner is the principal on whose behalf the guest runs. A worker never serves two
	// principals.
	Owner  string
	Module Module
	// Tool is the program name that the guest receives.
	Tool   string
	Input  []byte
	Limits Limits
	// Seed seeds the guest's randomness. It is the digest of the call, so that the same call uses
	// the same fuel.
	Seed [32]byte
	// Clock and Random are grants for the real clock and randomness.
	Clock, Random bool
	// Host answers the guest's requests; nil refuses all of them.
	Host Host
}

// Answer is the result of a function of the handle interface.
type Answer struct {
	// Value is a handle, a size or a negative number; see docs/format/skill.md.
	Value int32
	// Result is the data that the guest may read next.
	Result []byte
	// Spent reports that the guest received data that its worker must not outlive, such as the
	// bytes of a secret.
	Spent bool
}

// Host answers the requests of one guest, one at a time.
type Host interface {
	// Answer handles a call of a function. The numbers and the two byte strings are arguments of
	// the guest and are untrusted. An error ends the call.
	Answer(ctx context.Context, function string, numbers []int32, first, second []byte) (Answer, error)
}

// Report is the result of a call.
type Report struct {
	// Output is the result and Log the standard error.
	Output, Log []byte
	// Fuel is the used fuel, as reported by the worker. MemoryBytes is the final size of the
	// guest's memory. Clock and Random count the uses of the real clock and randomness.
	Fuel        uint64
	MemoryBytes int64
	Clock       int
	Random      int
	// Backend names the engine and the isolation of its worker, each with its version.
	Backend string
	// Isolation is the isolation of the worker, as verified at its start.
	Isolation   tool.Isolation
	Enforcement tool.Enforcement
	Started     time.Time
	Finished    time.Time
}

// Describe adds the worker and the resources used by the guest to the report of a call.
func (r Report) Describe(to *tool.Report) {
	if r.Started.IsZero() {
		return
	}
	isolation := r.Isolation
	to.Isolation, to.Enforcement, to.Executor.Backend = &isolation, r.Enforcement, r.Backend
	to.Usage = tool.Usage{Wall: r.Finished.Sub(r.Started), PeakMemory: r.MemoryBytes, Fuel: int64(r.Fuel)}
	to.StartedAt = r.Started.UTC()
}

// mostLogged is the maximum size of the log excerpt in an error.
const mostLogged = 2000

// WithLog adds the end of the guest's standard error, where programs usually explain a failure,
// to the error of a failed guest.
func (r Report) WithLog(err error) error {
	var known *reason.Error
	if len(r.Log) == 0 || !errors.As(err, &known) || known.Code != reason.ToolFailed {
		return err
	}
	logged := strings.ToValidUTF8(string(r.Log[max(0, len(r.Log)-mostLogged):]), "\uFFFD")
	return reason.Errorf(known.Code, "%s; it logged: %s", known.Message, strings.TrimSpace(logged)).WithRemedy("%s", known.NextStep())
}
