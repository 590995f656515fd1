package spake2plus

import (
	"bytes"
	"crypto/sha512"
	"encoding/binary"
	"encoding/hex"
	"math/big"
	"testing"

	"filippo.io/nistec"

	"palyra/internal/core/must"
)

// pair are the identities of most tests.
var pair = Identities{Prover: "device", Verifier: "gateway"}

// cheap makes a secret of a PIN as Derive does, without the price of Argon2id.
// What the tests of the exchange show does not depend on it.
func cheap(t testing.TB, pin string) *Secret {
	t.Helper()
	low, high := sha512.Sum512([]byte("low "+pin)), sha512.Sum512([]byte("high "+pin))
	return must.Get(newSecret([2 * wideSize]byte(append(low[:wideSize], high[:wideSize]...)), pair))(t)
}

func record(t testing.TB, s *Secret) *Record {
	t.Helper()
	return must.Get(s.Record())(t)
}

func bound(t testing.TB, parts ...string) Context {
	t.Helper()
	if len(parts) == 0 {
		parts = []string{"exporter"}
	}
	var fields [][]byte
	for _, p := range parts {
		fields = append(fields, []byte(p))
	}
	return must.Get(Bind("palyra test 1", fields...))(t)
}

func unhex(t testing.TB, s string) []byte {
	t.Helper()
	return must.Get(hex.DecodeString(s))(t)
}

// number is a scalar with a small value.
func number(n uint64) (s scalar) {
	binary.BigEndian.PutUint64(s[scalarSize-8:], n)
	return s
}

// onto gives k times the generator.
func onto(t testing.TB, k scalar) *nistec.P256Point {
	t.Helper()
	return must.Get(nistec.NewP256Point().ScalarBaseMult(k[:]))(t)
}

// product gives k times a point.
func product(t testing.TB, k scalar, p *nistec.P256Point) *nistec.P256Point {
	t.Helper()
	return must.Get(times(k, p))(t)
}

// less gives a - b.
func less(a, b *nistec.P256Point) *nistec.P256Point {
	minus := nistec.NewP256Point().Negate(b)
	return minus.Add(minus, a)
}

// shifted gives x + (a-b)*m modulo the order: the scalar that a share has in the
// eyes of an attacker who knows that M is m times the generator.
func shifted(x, a, b, m scalar) (out scalar) {
	order, _ := new(big.Int).SetString(groupOrder, 16)
	d := new(big.Int).Sub(new(big.Int).SetBytes(a[:]), new(big.Int).SetBytes(b[:]))
	d.Mul(d, new(big.Int).SetBytes(m[:])).Add(d, new(big.Int).SetBytes(x[:])).Mod(d, order)
	d.FillBytes(out[:])
	return out
}

// sameKey ends the test unless both sides have one key.
func sameKey(t testing.TB, a, b *Key) {
	t.Helper()
	if a == nil || b == nil || !bytes.Equal(a.Bytes(), b.Bytes()) {
		t.Fatal("the two sides have different keys")
	}
}
