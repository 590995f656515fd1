package spake2plus

import "errors"

// The errors of the peer's messages. An exchange with one of them has ended without a key.
var (
	// ErrShare is returned for a share that is not the uncompressed encoding of a point of P-256,
	// or that is the identity after the subtraction of the password's point.
	ErrShare = errors.New("the peer's share is not a valid point")
	// ErrReflected is returned if the peer's share equals this side's share.
	ErrReflected = errors.New("the peer's share equals this side's share")
	// ErrConfirmation is returned for a confirmation that does not match: the PIN, the context or
	// the identities differ, or messages were changed in transit.
	ErrConfirmation = errors.New("the peer's confirmation does not match")
	// ErrFinished is returned for a second use of a side.
	ErrFinished = errors.New("this side of the exchange was already used")
)
