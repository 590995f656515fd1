package access

import "context"

// Precedence says how far a write may go when the disk is nearly full. It depends
// on who asks for what: the API sets it for each request that it lets in (package
// rpc), and the daemon for its own upkeep. A write without one has PrecedenceNone.
type Precedence int

// The precedences, from the least to the most.
const (
	// PrecedenceNone is for new work, such as a proposal: it is refused while the
	// disk is nearly full.
	PrecedenceNone Precedence = iota
	// PrecedenceEnding is for the end of work that was begun, such as an
	// attestation, and for the gateway's own upkeep: it may use what the disk has
	// left, but not the reserve.
	PrecedenceEnding
	// PrecedenceOperator is for the call of an operator at a terminal: it may use
	// a part of the reserve.
	PrecedenceOperator
	// PrecedenceUrgent is for votes, freeze, thaw, revocation, and the start and
	// stop of the gateway: it may use all of the reserve.
	PrecedenceUrgent
)

type precedenceKey struct{}

// ReachesExecutors lets what an executor writes have the precedence of its request
// (tool.Isolate).
func (precedenceKey) ReachesExecutors() {}

// Precede returns a context under which writes have precedence p, or that of ctx
// when it is higher.
func Precede(ctx context.Context, p Precedence) context.Context {
	if p <= PrecedenceOf(ctx) {
		return ctx
	}
	return context.WithValue(ctx, precedenceKey{}, p)
}

// PrecedenceOf returns the precedence of what is written under ctx.
func PrecedenceOf(ctx context.Context) Precedence {
	p, _ := ctx.Value(precedenceKey{}).(Precedence)
	return p
}
