package spake2plus

import (
	"crypto/hkdf"
	"crypto/hmac"
	"crypto/sha256"
	"errors"
	"fmt"

	"filippo.io/nistec"
)

// KeySize is the size of the agreed key in bytes.
const KeySize = sha256.Size

// Key is the key that both sides agree on, K_shared of the RFC.
type Key struct {
	sealed
	bytes [KeySize]byte
}

// Bytes returns a copy of the key.
func (k *Key) Bytes() []byte {
	return append([]byte(nil), k.bytes[:]...)
}

// exchange holds the values known to both sides: the transcript without the secrets.
type exchange struct {
	context        Context
	ids            Identities
	points         blinds
	shareP, shareV []byte
}

func newExchange(context Context, ids Identities) (exchange, error) {
	if len(context.encoded) == 0 {
		return exchange{}, errors.New("an exchange needs a context")
	}
	if err := ids.check(); err != nil {
		return exchange{}, err
	}
	points, err := standard()
	if err != nil {
		return exchange{}, err
	}
	return exchange{context: context, ids: ids, points: points}, nil
}

// transcript returns TT of RFC 9383, section 3.3.
func (e exchange) transcript(z, v *nistec.P256Point, w0 scalar) []byte {
	var tt []byte
	for _, field := range [][]byte{
		e.context.encoded, []byte(e.ids.Prover), []byte(e.ids.Verifier),
		e.points.m.Bytes(), e.points.n.Bytes(),
		e.shareP, e.shareV, z.Bytes(), v.Bytes(), w0[:],
	} {
		tt = appendField(tt, field)
	}
	return tt
}

// keys are the keys derived in section 3.4: both confirmation keys, and the shared key.
type keys struct {
	confirmP, confirmV, shared []byte
}

// keys returns the keys that both sides derive.
func (e exchange) keys(z, v *nistec.P256Point, w0 scalar) (keys, error) {
	tt := e.transcript(z, v, w0)
	main := sha256.Sum256(tt)
	clear(tt)
	defer clear(main[:])
	return schedule(main[:])
}

// schedule derives all keys from K_main.
func schedule(main []byte) (keys, error) {
	confirmation, err := hkdf.Key(sha256.New, main, nil, "ConfirmationKeys", 2*sha256.Size)
	if err != nil {
		return keys{}, fmt.Errorf("deriving the confirmation keys: %w", err)
	}
	shared, err := hkdf.Key(sha256.New, main, nil, "SharedKey", KeySize)
	if err != nil {
		return keys{}, fmt.Errorf("deriving the shared key: %w", err)
	}
	return keys{confirmation[:sha256.Size], confirmation[sha256.Size:], shared}, nil
}

// confirm returns the confirmation over a received share, computed with key.
func confirm(key, share []byte) []byte {
	mac := hmac.New(sha256.New, key)
	mac.Write(share)
	return mac.Sum(nil)
}
