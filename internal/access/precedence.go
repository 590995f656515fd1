package access

import "context"

// Precedence says how far a write may go when the disk is nearly full. It
// belongs to who does what, and is set in one place, where the API lets a
// request in; a write that nobody gave one has the least.
type Precedence int

// The precedences, from the least to the most.
const (
	// PrecedenceNone is for what begins: it is refused while the disk is nearly
	// full.
	PrecedenceNone Precedence = iota
	// PrecedenceEnding is for the end of what was begun, and for the gateway's
	// own upkeep: it may use what the disk has left, and not the reserve.
	PrecedenceEnding
	// PrecedenceOperator is for the call of an operator at a terminal: it may use
	// a part of the reserve.
	PrecedenceOperator
	// PrecedenceUrgent is for votes, freeze, thaw, revocation, and the start and
	// stop of the gateway: it may use all of the reserve.
	PrecedenceUrgent
)

type precedenceKey struct{}

// Precede gives what is written under ctx a precedence, unless it has a higher
// one.
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
