// Package guest defines the types of Tier A: the call of a WebAssembly guest, and the host that
// answers the guest's requests. The implementation is in other packages, which only the daemon
// imports.
//
// The package is separate from the engine because package catalog plans the tools of skills and
// must not import an executor.
package guest

import (
	"context"
	"errors"
	"strings"
	"time"

	"palyra/internal/core/access"
	"palyra/internal/core/limit"
	"palyra/internal/core/reason"
	"palyra/internal/exec/sandbox"
	"palyra/internal/exec/wasm/module"
	"palyra/internal/exec/wasm/wire"
)

// Runner runs guests.
type Runner interface {
	// Run makes one call. It returns a report even if the guest did not finish. Stdout.Head is the
	// guest's result and Stderr.Head its log, both without digests.
	Run(context.Context, Call) (sandbox.Report, error)
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
	// Caller is the principal on whose behalf the guest runs, and the user responsible for it. A
	// worker never serves two principals.
	Caller limit.Who
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

// CallerOf returns the requester of a guest's place in a queue.
func CallerOf(c access.Caller) limit.Who {
	return limit.Who{Owner: c.OnBehalfOf.String(), Principal: c.Principal.String()}
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

// mostLogged is the maximum size of the log excerpt in an error.
const mostLogged = 2000

// WithLog adds the end of the guest's log, where programs usually explain a failure, to the error of
// a failed guest.
func WithLog(err error, log []byte) error {
	var known *reason.Error
	if len(log) == 0 || !errors.As(err, &known) || known.Code != reason.ToolFailed {
		return err
	}
	logged := strings.ToValidUTF8(string(log[max(0, len(log)-mostLogged):]), "\uFFFD")
	return reason.Errorf(known.Code, "%s; it logged: %s", known.Message, strings.TrimSpace(logged)).WithRemedy("%s", known.NextStep())
}
