package spake2plus

import (
	"bytes"
	"crypto/hmac"
	"sync/atomic"
)

// Verifier is the side that holds the PIN's record, in one exchange.
type Verifier struct {
	sealed
	shareV, confirmV []byte
	// expected is the confirmation that the prover has to send.
	expected []byte
	key      Key
	finished atomic.Bool
}

// NewVerifier processes a prover's share. It always uses up one guess of the PIN, because the
// answer reveals to the prover whether its PIN is correct. The error may be ErrShare or
// ErrReflected.
func NewVerifier(record *Record, context Context, shareP []byte) (*Verifier, error) {
	e, err := newExchange(context, record.ids)
	if err != nil {
		return nil, err
	}
	y, err := randomScalar()
	if err != nil {
		return nil, err
	}
	defer clear(y[:])
	return newVerifier(record, e, shareP, y)
}

func newVerifier(record *Record, e exchange, shareP []byte, y scalar) (*Verifier, error) {
	x, err := unblind(shareP, record.w0, e.points.m)
	if err != nil {
		return nil, err
	}
	shareV, err := blind(y, record.w0, e.points.n)
	if err != nil {
		return nil, err
	}
	if bytes.Equal(shareP, shareV) {
		return nil, ErrReflected
	}
	e.shareP, e.shareV = bytes.Clone(shareP), shareV
	z, err := times(y, x)
	if err != nil {
		return nil, err
	}
	v, err := times(y, record.l)
	if err != nil {
		return nil, err
	}
	k, err := e.keys(z, v, record.w0)
	if err != nil {
		return nil, err
	}
	return &Verifier{
		shareV:   shareV,
		confirmV: confirm(k.confirmV, e.shareP),
		expected: confirm(k.confirmP, shareV),
		key:      Key{bytes: [KeySize]byte(k.shared)},
	}, nil
}

// Answer returns shareV and confirmV, the second message of the exchange.
func (v *Verifier) Answer() (shareV, confirmV []byte) {
	return bytes.Clone(v.shareV), bytes.Clone(v.confirmV)
}

// Finish processes the prover's confirmation and returns the key. The prover has then proved
// that it knows the PIN in this context. Before that, nothing may be sent to it under the key.
// The error is ErrConfirmation, or ErrFinished after the first call.
func (v *Verifier) Finish(confirmP []byte) (*Key, error) {
	if v.finished.Swap(true) {
		return nil, ErrFinished
	}
	defer v.forget()
	// A verifier that was not created by NewVerifier has no expected confirmation. An empty
	// confirmation must not match it.
	if len(v.expected) == 0 || !hmac.Equal(confirmP, v.expected) {
		return nil, ErrConfirmation
	}
	return &Key{bytes: v.key.bytes}, nil
}

func (v *Verifier) forget() {
	clear(v.expected)
	clear(v.key.bytes[:])
}
