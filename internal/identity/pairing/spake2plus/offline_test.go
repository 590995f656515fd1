package spake2plus

import (
	"bytes"
	"errors"
	"fmt"
	"slices"
	"testing"

	"filippo.io/nistec"

	"palyra/internal/core/must"
)

// These are the gateway's PIN, the PIN that the attacker tries, and the number of further PINs
// that it tests offline.
const (
	truePIN    = "pin 3"
	wrongGuess = "pin 5"
	candidates = 12
)

// trapdoor is a logarithm that nobody has for the real M and N. Tests that give it to the
// attacker show that they would detect an attack.
var trapdoor = number(424242)

// fits lists the candidate PINs for which the attacker computes the confirmation that it
// received.
func fits(t *testing.T, compute func(*Secret) []byte, sent []byte) []string {
	t.Helper()
	var out []string
	for i := range candidates {
		pin := fmt.Sprintf("pin %d", i)
		if bytes.Equal(compute(cheap(t, pin)), sent) {
			out = append(out, pin)
		}
	}
	return out
}

// fakeProver runs an exchange with a guess, stores its scalar and all messages, and then tests
// every candidate with them. known is the logarithm of M, or zero for an attacker who does not
// have it. Such an attacker cannot compute the scalar that its share would have under another
// PIN, so it uses the scalar that it drew.
func fakeProver(t *testing.T, points blinds, known scalar, guess string) []string {
	t.Helper()
	told := cheap(t, guess)
	x := must.Get(randomScalar())(t)
	e := must.Get(newExchange(bound(t), pair))(t)
	e.points = points
	e.shareP = must.Get(blind(x, told.w0, points.m))(t)
	v := must.Get(newVerifier(record(t, cheap(t, truePIN)), e, e.shareP, must.Get(randomScalar())(t)))(t)
	shareV, confirmV := v.Answer()
	e.shareV = shareV
	return fits(t, func(c *Secret) []byte {
		xc := shifted(x, told.w0, c.w0, known)
		y := less(must.Get(parseShare(shareV))(t), product(t, c.w0, points.n))
		k := must.Get(e.keys(product(t, xc, y), product(t, c.w1, y), c.w0))(t)
		return confirm(k.confirmV, e.shareP)
	}, confirmV)
}

// TestFakeProverTestsOneGuess: an attacker in the role of the prover learns only whether the
// one PIN in its share is right. A wrong guess reveals nothing about the others, although the
// right one is among the candidates.
func TestFakeProverTestsOneGuess(t *testing.T) {
	t.Parallel()
	points := must.Get(standard())(t)
	if got := fakeProver(t, points, scalar{}, wrongGuess); got != nil {
		t.Errorf("after a wrong guess, the attacker finds %q offline", got)
	}
	if got := fakeProver(t, points, scalar{}, truePIN); !slices.Equal(got, []string{truePIN}) {
		t.Errorf("after the right guess, the attacker finds %q; it should be that one", got)
	}
	// Control: with a known logarithm of M, one guess reveals all PINs.
	points.m = onto(t, trapdoor)
	if got := fakeProver(t, points, trapdoor, wrongGuess); !slices.Equal(got, []string{truePIN}) {
		t.Errorf("with a trapdoor in M the attacker finds %q; this test would notice nothing", got)
	}
}

// fakeVerifier acts as the gateway with a guess, and tests candidates with the prover's
// confirmation, if it gets one. A careless prover sends its confirmation without checking the
// verifier's. known is the logarithm of N, or zero.
func fakeVerifier(t *testing.T, points blinds, known scalar, guess string, careless bool) (found []string, confirmed bool) {
	t.Helper()
	told := cheap(t, guess)
	e := must.Get(newExchange(bound(t), pair))(t)
	e.points = points
	p := must.Get(newProver(cheap(t, truePIN), e, must.Get(randomScalar())(t)))(t)
	e.shareP = p.Share()
	y := must.Get(randomScalar())(t)
	e.shareV = must.Get(blind(y, told.w0, points.n))(t)
	compute := func(c *Secret) keys {
		yc := shifted(y, told.w0, c.w0, known)
		x := less(must.Get(parseShare(e.shareP))(t), product(t, c.w0, points.m))
		return must.Get(e.keys(product(t, yc, x), product(t, yc, record(t, c).l), c.w0))(t)
	}
	early := must.Get(p.agree(e.shareV))(t)
	confirmP, key, err := p.Finish(e.shareV, confirm(compute(told).confirmV, e.shareP))
	if careless {
		confirmP = confirm(early.confirmP, e.shareV)
	} else if err != nil && (!errors.Is(err, ErrConfirmation) || confirmP != nil || key != nil) {
		t.Errorf("the prover fails with %v and gives out something", err)
	}
	if confirmP == nil {
		return nil, false
	}
	return fits(t, func(c *Secret) []byte { return confirm(compute(c).confirmP, e.shareV) }, confirmP), true
}

// TestFakeVerifierTestsOneGuess: an attacker in the role of the gateway receives shareP, which
// is a random point under every PIN, and after a wrong guess nothing else. It has no value to
// compare candidates with. That holds even with the logarithm of N (RFC 9383, section 3.3), as
// long as the prover checks confirmV before it sends confirmP. Control: a prover that does not
// check it.
func TestFakeVerifierTestsOneGuess(t *testing.T) {
	t.Parallel()
	weak := must.Get(standard())(t)
	weak.n = onto(t, trapdoor)
	for _, c := range []struct {
		name   string
		points blinds
		known  scalar
	}{
		{"the suite's N", must.Get(standard())(t), scalar{}},
		{"a trapdoor in N", weak, trapdoor},
	} {
		if got, confirmed := fakeVerifier(t, c.points, c.known, wrongGuess, false); confirmed || got != nil {
			t.Errorf("%s: after a wrong guess the prover confirms: %v, and the attacker finds %q", c.name, confirmed, got)
		}
		if got, confirmed := fakeVerifier(t, c.points, c.known, truePIN, false); !confirmed || !slices.Equal(got, []string{truePIN}) {
			t.Errorf("%s: after the right guess the prover confirms: %v, and the attacker finds %q", c.name, confirmed, got)
		}
	}
	if got, _ := fakeVerifier(t, weak, trapdoor, wrongGuess, true); !slices.Equal(got, []string{truePIN}) {
		t.Errorf("a prover that confirms first, with a trapdoor in N, gives away %q; this test would notice nothing", got)
	}
}

// TestListenerTestsNothing records a failed exchange of two honest sides with different PINs.
// Three values cross the wire. The listener has neither scalar. In their place it tries, for
// each candidate, each share, with and without the candidate's part, and the generator. No
// result is the recorded confirmation, for either side's PIN. Control: with one leaked scalar,
// the search succeeds.
func TestListenerTestsNothing(t *testing.T) {
	t.Parallel()
	told, made := cheap(t, wrongGuess), cheap(t, truePIN)
	e := must.Get(newExchange(bound(t), pair))(t)
	p := must.Get(newProver(told, e, must.Get(randomScalar())(t)))(t)
	leaked := must.Get(randomScalar())(t)
	v := must.Get(newVerifier(record(t, made), e, p.Share(), leaked))(t)
	e.shareP = p.Share()
	var confirmV []byte
	e.shareV, confirmV = v.Answer()
	if confirmP, _, err := p.Finish(e.shareV, confirmV); err == nil || confirmP != nil {
		t.Fatal("the exchange did not fail before the third message")
	}
	x, y := must.Get(parseShare(e.shareP))(t), must.Get(parseShare(e.shareV))(t)
	unblinded := func(c *Secret) (px, py *nistec.P256Point) {
		return less(x, product(t, c.w0, e.points.m)), less(y, product(t, c.w0, e.points.n))
	}
	for i := range 5 {
		for j := range 5 {
			got := fits(t, func(c *Secret) []byte {
				px, py := unblinded(c)
				stand := []*nistec.P256Point{x, y, px, py, onto(t, number(1))}
				k := must.Get(e.keys(stand[i], product(t, c.w1, stand[j]), c.w0))(t)
				return confirm(k.confirmV, e.shareP)
			}, confirmV)
			if got != nil {
				t.Errorf("a listener finds %q offline", got)
			}
		}
	}
	got := fits(t, func(c *Secret) []byte {
		px, py := unblinded(c)
		k := must.Get(e.keys(product(t, leaked, px), product(t, c.w1, py), c.w0))(t)
		return confirm(k.confirmV, e.shareP)
	}, confirmV)
	if !slices.Equal(got, []string{truePIN}) {
		t.Errorf("with the verifier's scalar leaked the listener finds %q; this test would notice nothing", got)
	}
}
