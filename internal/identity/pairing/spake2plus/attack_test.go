package spake2plus

import (
	"bytes"
	"errors"
	"slices"
	"testing"

	"filippo.io/nistec"

	"palyra/internal/core/must"
)

// fieldPrime is the prime of P-256's field, which is out of range for a coordinate.
const fieldPrime = "ffffffff00000001000000000000000000000000ffffffffffffffffffffffff"

// TestWrongPIN: the confirmations fail on both sides, and no side has a key.
func TestWrongPIN(t *testing.T) {
	t.Parallel()
	told, held := cheap(t, "12345678"), record(t, cheap(t, "12345679"))
	p := must.Get(NewProver(told, bound(t)))(t)
	v := must.Get(NewVerifier(held, bound(t), p.Share()))(t)
	shareV, confirmV := v.Answer()
	// A careless prover would send its confirmation although confirmV is wrong.
	careless := must.Get(p.agree(shareV))(t)

	confirmP, key, err := p.Finish(shareV, confirmV)
	if !errors.Is(err, ErrConfirmation) || confirmP != nil || key != nil {
		t.Errorf("the prover gave %x, a key: %v, and %v", confirmP, key != nil, err)
	}
	if key, err := v.Finish(confirm(careless.confirmP, shareV)); !errors.Is(err, ErrConfirmation) || key != nil {
		t.Errorf("the verifier gave a key: %v, and %v", key != nil, err)
	}
}

// TestChangedMessages flips each byte of each message in turn.
func TestChangedMessages(t *testing.T) {
	t.Parallel()
	secret := cheap(t, "12345678")
	held := record(t, secret)
	changed := func(b []byte, i int) []byte {
		b = bytes.Clone(b)
		b[i] ^= 0x40
		return b
	}
	for i := range 32 {
		p := must.Get(NewProver(secret, bound(t)))(t)
		v := must.Get(NewVerifier(held, bound(t), p.Share()))(t)
		shareV, confirmV := v.Answer()
		if confirmP, key, err := p.Finish(shareV, changed(confirmV, i)); !errors.Is(err, ErrConfirmation) || confirmP != nil || key != nil {
			t.Errorf("confirmV with another byte %d is taken: %v", i, err)
		}
		p = must.Get(NewProver(secret, bound(t)))(t)
		v = must.Get(NewVerifier(held, bound(t), p.Share()))(t)
		confirmP, _, err := p.Finish(v.Answer())
		must.Do(t, err)
		if key, err := v.Finish(changed(confirmP, i)); !errors.Is(err, ErrConfirmation) || key != nil {
			t.Errorf("confirmP with another byte %d is taken: %v", i, err)
		}
	}
	for _, length := range []int{0, 1, 31, 33} {
		p := must.Get(NewProver(secret, bound(t)))(t)
		v := must.Get(NewVerifier(held, bound(t), p.Share()))(t)
		shareV, confirmV := v.Answer()
		if _, key, err := p.Finish(shareV, append(confirmV, 0)[:length]); !errors.Is(err, ErrConfirmation) || key != nil {
			t.Errorf("a confirmV of %d bytes is taken: %v", length, err)
		}
		if key, err := v.Finish(make([]byte, length)); !errors.Is(err, ErrConfirmation) || key != nil {
			t.Errorf("a confirmP of %d bytes is taken: %v", length, err)
		}
	}
}

// bad returns shares that both sides must refuse.
func bad(t *testing.T) map[string][]byte {
	point := must.Get(NewProver(cheap(t, "other"), bound(t)))(t)
	share := point.Share()
	parsed := must.Get(nistec.NewP256Point().SetBytes(share))(t)
	x, y := share[1:33], share[33:]
	prime := unhex(t, fieldPrime)
	join := func(parts ...[]byte) []byte { return slices.Concat(parts...) }
	// The point with x = 0 has a second encoding of the right length, with x = p.
	zero := must.Get(nistec.NewP256Point().SetBytes(append([]byte{2}, make([]byte, 32)...)))(t).Bytes()
	off := bytes.Clone(share)
	off[64] ^= 1
	return map[string][]byte{
		"nothing":                          nil,
		"the identity":                     {0},
		"the identity, 65 bytes":           make([]byte, 65),
		"the origin":                       join([]byte{4}, make([]byte, 64)),
		"off the curve":                    off,
		"coordinates swapped":              join([]byte{4}, y, x),
		"x in place of y":                  join([]byte{4}, x, x),
		"x not canonical":                  join([]byte{4}, prime, zero[33:]),
		"y not canonical":                  join([]byte{4}, x, prime),
		"all ones":                         join([]byte{4}, bytes.Repeat([]byte{0xff}, 64)),
		"compressed":                       parsed.BytesCompressed(),
		"compressed, padded":               join(parsed.BytesCompressed(), make([]byte, 32)),
		"hybrid":                           join([]byte{6 | y[31]&1}, x, y),
		"x alone":                          x,
		"x and y without their form":       join(x, y),
		"one byte short":                   share[:64],
		"one byte more":                    join(share, []byte{0}),
		"two shares":                       join(share, share),
		"form 0 before good coordinates":   join([]byte{0}, x, y),
		"form 5 before good coordinates":   join([]byte{5}, x, y),
		"form 2 before good coordinates":   join([]byte{2}, x, y),
		"a scalar where a share should be": number(1).bytes(),
	}
}

func (s scalar) bytes() []byte { return s[:] }

// TestBadShares: a fake peer sends values that are not a point, not on the curve, or not in the
// canonical encoding.
func TestBadShares(t *testing.T) {
	t.Parallel()
	secret := cheap(t, "12345678")
	held := record(t, secret)
	for name, share := range bad(t) {
		t.Run(name, func(t *testing.T) {
			if v, err := NewVerifier(held, bound(t), share); !errors.Is(err, ErrShare) || v != nil {
				t.Errorf("the verifier takes it: %v", err)
			}
			p := must.Get(NewProver(secret, bound(t)))(t)
			if confirmP, key, err := p.Finish(share, make([]byte, 32)); !errors.Is(err, ErrShare) || confirmP != nil || key != nil {
				t.Errorf("the prover takes it: %v", err)
			}
		})
	}
}

// TestInvalidCurvePointsAreRefused sends points of other curves, which share P-256's group law
// (it does not use the constant b) and have small orders. An attacker uses such points to learn
// a secret scalar piece by piece. (x, 0) has order two on the curve through it.
func TestInvalidCurvePointsAreRefused(t *testing.T) {
	t.Parallel()
	held := record(t, cheap(t, "12345678"))
	for _, x := range []byte{1, 2, 3, 5, 7} {
		share := make([]byte, ShareSize)
		share[0], share[32] = uncompressed, x
		if _, err := NewVerifier(held, bound(t), share); !errors.Is(err, ErrShare) {
			t.Errorf("(%d, 0) is taken: %v", x, err)
		}
	}
}

// TestShareOfThePasswordAlone: a peer that has the PIN omits its scalar, so that Z is the
// identity for any scalar of the other side. The share is refused.
func TestShareOfThePasswordAlone(t *testing.T) {
	t.Parallel()
	secret := cheap(t, "12345678")
	points := must.Get(standard())(t)
	if v, err := NewVerifier(record(t, secret), bound(t), product(t, secret.w0, points.m).Bytes()); !errors.Is(err, ErrShare) || v != nil {
		t.Errorf("the verifier takes w0*M: %v", err)
	}
	p := must.Get(NewProver(secret, bound(t)))(t)
	if _, key, err := p.Finish(product(t, secret.w0, points.n).Bytes(), make([]byte, 32)); !errors.Is(err, ErrShare) || key != nil {
		t.Errorf("the prover takes w0*N: %v", err)
	}
}

// TestFixedPoints: the points of the suite and the generator are accepted like other points. A
// peer that sends them cannot compute a confirmation: no value that it can compute without the
// PIN matches.
func TestFixedPoints(t *testing.T) {
	t.Parallel()
	secret := cheap(t, "12345678")
	held := record(t, secret)
	points := must.Get(standard())(t)
	for name, sent := range map[string]*nistec.P256Point{
		"M": points.m, "N": points.n, "-M": less(nistec.NewP256Point(), points.m),
		"-N": less(nistec.NewP256Point(), points.n), "P": onto(t, number(1)),
	} {
		t.Run(name, func(t *testing.T) {
			v := must.Get(NewVerifier(held, bound(t), sent.Bytes()))(t)
			shareV, _ := v.Answer()
			e := must.Get(newExchange(bound(t), pair))(t)
			e.shareP, e.shareV = sent.Bytes(), shareV
			y := must.Get(nistec.NewP256Point().SetBytes(shareV))(t)
			// Without w0, the attacker can use shareV, the generator and its own share in the place of Z
			// and V, and zero, one or its own PIN's value as w0.
			for _, z := range []*nistec.P256Point{y, onto(t, number(1)), sent} {
				for _, w0 := range []scalar{{}, number(1), cheap(t, "0").w0} {
					k := must.Get(e.keys(z, z, w0))(t)
					if hmacFits(v, confirm(k.confirmP, shareV)) {
						t.Fatal("a confirmation without the PIN fits")
					}
				}
			}
			if key, err := v.Finish(make([]byte, 32)); !errors.Is(err, ErrConfirmation) || key != nil {
				t.Errorf("the verifier gives a key: %v", err)
			}
			p := must.Get(NewProver(secret, bound(t)))(t)
			if confirmP, key, err := p.Finish(sent.Bytes(), make([]byte, 32)); !errors.Is(err, ErrConfirmation) || confirmP != nil || key != nil {
				t.Errorf("the prover goes on: %v", err)
			}
		})
	}
}

// hmacFits compares a confirmation with the expected one without consuming the exchange.
func hmacFits(v *Verifier, confirmP []byte) bool { return bytes.Equal(v.expected, confirmP) }

// TestReflection sends each side its own messages back.
func TestReflection(t *testing.T) {
	t.Parallel()
	secret := cheap(t, "12345678")
	held := record(t, secret)
	p := must.Get(NewProver(secret, bound(t)))(t)
	_, confirmV := must.Get(NewVerifier(held, bound(t), p.Share()))(t).Answer()
	if confirmP, key, err := p.Finish(p.Share(), confirmV); !errors.Is(err, ErrReflected) || confirmP != nil || key != nil {
		t.Errorf("the prover takes its own share: %v", err)
	}

	// The verifier draws its share after it received the other one. A peer that could predict it
	// and send it first is refused, too.
	e := must.Get(newExchange(bound(t), pair))(t)
	foreseen := must.Get(blind(number(7), held.w0, e.points.n))(t)
	if v, err := newVerifier(held, e, foreseen, number(7)); !errors.Is(err, ErrReflected) || v != nil {
		t.Errorf("the verifier takes its own share: %v", err)
	}

	// The prover sends back the verifier's confirmation and share.
	v := must.Get(NewVerifier(held, bound(t), must.Get(NewProver(secret, bound(t)))(t).Share()))(t)
	shareV, confirmV := v.Answer()
	if key, err := v.Finish(confirmV); !errors.Is(err, ErrConfirmation) || key != nil {
		t.Errorf("the verifier takes its own confirmation: %v", err)
	}
	v = must.Get(NewVerifier(held, bound(t), shareV))(t)
	_, confirmV = v.Answer()
	if key, err := v.Finish(confirmV); !errors.Is(err, ErrConfirmation) || key != nil {
		t.Errorf("a verifier takes what another one said: %v", err)
	}
}

// TestReplay repeats the messages of a successful exchange to new sides.
func TestReplay(t *testing.T) {
	t.Parallel()
	secret := cheap(t, "12345678")
	held := record(t, secret)
	p := must.Get(NewProver(secret, bound(t)))(t)
	v := must.Get(NewVerifier(held, bound(t), p.Share()))(t)
	shareV, confirmV := v.Answer()
	confirmP, _, err := p.Finish(shareV, confirmV)
	must.Do(t, err)
	must.Get(v.Finish(confirmP))(t)

	again := must.Get(NewVerifier(held, bound(t), p.Share()))(t)
	if key, err := again.Finish(confirmP); !errors.Is(err, ErrConfirmation) || key != nil {
		t.Errorf("a new verifier takes the old messages: %v", err)
	}
	next := must.Get(NewProver(secret, bound(t)))(t)
	if confirmP, key, err := next.Finish(shareV, confirmV); !errors.Is(err, ErrConfirmation) || confirmP != nil || key != nil {
		t.Errorf("a new prover takes the old messages: %v", err)
	}
}

// TestRelay: a man in the middle forwards every message unchanged between two connections. Each
// end binds its exchange to its own connection and peer, so the confirmations do not match.
// Control: without a difference they match.
func TestRelay(t *testing.T) {
	t.Parallel()
	secret := cheap(t, "12345678")
	held := record(t, secret)
	seen := []string{"exporter", "device key", "gateway key", "CA", "device id", "kind"}
	relay := func(atDevice, atGateway Context) (*Key, error) {
		p := must.Get(NewProver(secret, atDevice))(t)
		v := must.Get(NewVerifier(held, atGateway, p.Share()))(t)
		shareV, _ := v.Answer()
		careless := must.Get(p.agree(shareV))(t)
		confirmP, key, err := p.Finish(v.Answer())
		if err == nil {
			return v.Finish(confirmP)
		}
		if confirmP != nil || key != nil || !errors.Is(err, ErrConfirmation) {
			t.Errorf("the prover fails with %v and gives out something", err)
		}
		return v.Finish(confirm(careless.confirmP, shareV))
	}
	if _, err := relay(bound(t, seen...), bound(t, seen...)); err != nil {
		t.Fatalf("without a difference the exchange fails: %v", err)
	}
	for i, part := range seen {
		other := slices.Clone(seen)
		other[i] = "another " + part
		if key, err := relay(bound(t, seen...), bound(t, other...)); !errors.Is(err, ErrConfirmation) || key != nil {
			t.Errorf("another %s at the gateway's end goes unnoticed: %v", part, err)
		}
	}
}

// TestIdentitiesAreBound: the same numbers with other identities do not match.
func TestIdentitiesAreBound(t *testing.T) {
	t.Parallel()
	secret := cheap(t, "12345678")
	for _, ids := range []Identities{{"device2", "gateway"}, {"device", "gateway2"}, {"gateway", "device"}} {
		held := record(t, secret)
		held.ids = ids
		p := must.Get(NewProver(secret, bound(t)))(t)
		v := must.Get(NewVerifier(held, bound(t), p.Share()))(t)
		if _, key, err := p.Finish(v.Answer()); !errors.Is(err, ErrConfirmation) || key != nil {
			t.Errorf("%v goes unnoticed: %v", ids, err)
		}
	}
}

// FuzzShare: a share is refused, or is the canonical encoding of its point. No share causes a
// panic or makes a side return a key.
func FuzzShare(f *testing.F) {
	secret := cheap(f, "12345678")
	held := record(f, secret)
	context := bound(f)
	f.Add(must.Get(NewProver(secret, context))(f).Share())
	f.Add([]byte{0})
	f.Add([]byte{})
	f.Add(unhex(f, pointM))
	f.Add(append([]byte{4}, make([]byte, 64)...))
	f.Add(unhex(f, "02886e2f97ace46e55ba9dd7242579f2993b64e16ef3dcab95afd497333d8fa12f"))
	f.Add(unhex(f, "04"+fieldPrime+fieldPrime))
	zero := must.Get(nistec.NewP256Point().SetBytes(append([]byte{2}, make([]byte, 32)...)))(f).Bytes()
	f.Add(zero)
	f.Add(slices.Concat([]byte{4}, unhex(f, fieldPrime), zero[33:]))
	f.Fuzz(func(t *testing.T, share []byte) {
		p, err := parseShare(share)
		if onCurve(share) != (err == nil) {
			t.Fatalf("%x is taken: %v, and a point in its form: %v", share, err == nil, onCurve(share))
		}
		if err == nil && !bytes.Equal(p.Bytes(), share) {
			t.Fatalf("%x is read as %x", share, p.Bytes())
		}
		v, err := NewVerifier(held, context, share)
		if err != nil {
			return
		}
		if key, err := v.Finish(share); err == nil || key != nil {
			t.Fatalf("%x gives a key", share)
		}
	})
}
