package spake2plus

import (
	"bytes"
	"crypto/hmac"
	"sync/atomic"
)

// Prover is the side that knows the PIN, in one exchange.
type Prover struct {
	sealed
	exchange exchange
	secret   Secret
	x        scalar
	finished atomic.Bool
}

// NewProver starts an exchange.
func NewProver(secret *Secret, context Context) (*Prover, error) {
	e, err := newExchange(context, secret.ids)
	if err != nil {
		return nil, err
	}
	x, err := randomScalar()
	if err != nil {
		return nil, err
	}
	return newProver(secret, e, x)
}

func newProver(secret *Secret, e exchange, x scalar) (*Prover, error) {
	share, err := blind(x, secret.w0, e.points.m)
	if err != nil {
		return nil, err
	}
	e.shareP = share
	return &Prover{exchange: e, secret: *secret, x: x}, nil
}

// Share returns shareP, the first message of the exchange.
func (p *Prover) Share() []byte {
	return bytes.Clone(p.exchange.shareP)
}

// Finish processes the verifier's answer. It returns confirmP, the third message, and the key.
// The verifier has then proved that it has the PIN's record in this context. The errors are
// ErrShare, ErrReflected and ErrConfirmation; after these, only the failure may be sent to the
// verifier. Later calls return ErrFinished.
func (p *Prover) Finish(shareV, confirmV []byte) (confirmP []byte, key *Key, err error) {
	if p.finished.Swap(true) {
		return nil, nil, ErrFinished
	}
	defer p.forget()
	k, err := p.agree(shareV)
	if err != nil {
		return nil, nil, err
	}
	if !hmac.Equal(confirmV, confirm(k.confirmV, p.exchange.shareP)) {
		return nil, nil, ErrConfirmation
	}
	return confirm(k.confirmP, shareV), &Key{bytes: [KeySize]byte(k.shared)}, nil
}

// agree computes the keys of the exchange. They must not be used before the verifier's
// confirmation was checked.
func (p *Prover) agree(shareV []byte) (keys, error) {
	if bytes.Equal(shareV, p.exchange.shareP) {
		return keys{}, ErrReflected
	}
	y, err := unblind(shareV, p.secret.w0, p.exchange.points.n)
	if err != nil {
		return keys{}, err
	}
	z, err := times(p.x, y)
	if err != nil {
		return keys{}, err
	}
	v, err := times(p.secret.w1, y)
	if err != nil {
		return keys{}, err
	}
	e := p.exchange
	e.shareV = shareV
	return e.keys(z, v, p.secret.w0)
}

func (p *Prover) forget() {
	clear(p.x[:])
	clear(p.secret.w0[:])
	clear(p.secret.w1[:])
}
