package access

import "context"

// Precedence determines how much space a write may use when the disk is nearly full. It depends on
// the caller and the operation: the API sets it for each admitted request (package api), and the
// daemon for its own maintenance. A write without one has PrecedenceNone.
type Precedence int

// The precedences, from the least to the most.
const (
	// PrecedenceNone is for new work, such as a proposal: it is refused while the
	// disk is nearly full.
	PrecedenceNone Precedence = iota
	// PrecedenceEnding is for the end of started work, such as an attestation, and for the
	// gateway's own maintenance: it may use the remaining disk space, but not the reserve.
	PrecedenceEnding
	// PrecedenceOperator is for the call of an operator at a terminal: it may use
	// a part of the reserve.
	PrecedenceOperator
	// PrecedenceUrgent is for votes, freeze, thaw, revocation, and the start and
	// stop of the gateway: it may use all of the reserve.
	PrecedenceUrgent
)

type precedenceKey struct{}

// ReachesExecutors gives an executor's writes the precedence of its request (tool.Isolate).
func (precedenceKey) ReachesExecutors() {}

// Precede returns a context whose writes have precedence p, or the precedence of ctx if that is
// higher.
func Precede(ctx context.Context, p Precedence) context.Context {
	if p <= PrecedenceOf(ctx) {
		return ctx
	}
	return context.WithValue(ctx, precedenceKey{}, p)
}

// PrecedenceOf returns the precedence of writes under ctx.
func PrecedenceOf(ctx context.Context) Precedence {
	p, _ := ctx.Value(precedenceKey{}).(Precedence)
	return p
}
