package spake2plus

import "errors"

// The ways in which the other side fails. An exchange that met one of them is
// over, and no key comes out of it.
var (
	// ErrShare is a share that is not the uncompressed encoding of a point of
	// P-256, or one that leaves nothing once the password's part is taken off.
	ErrShare = errors.New("share of the other side is not a point that can be used")
	// ErrReflected is the own share, sent back.
	ErrReflected = errors.New("share of the other side is this side's own")
	// ErrConfirmation is a confirmation that does not fit: another PIN, another
	// context, other identities, or messages that were changed on their way.
	ErrConfirmation = errors.New("confirmation of the other side does not fit")
	// ErrFinished is a second use of a side.
	ErrFinished = errors.New("this side of the exchange was used before")
)
