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

// cheap derives a secret from a PIN as Derive does, without the cost of Argon2id, which does
// not affect the tests of the exchange.
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

// number returns a scalar with a small value.
func number(n uint64) (s scalar) {
	binary.BigEndian.PutUint64(s[scalarSize-8:], n)
	return s
}

// onto returns k times the generator.
func onto(t testing.TB, k scalar) *nistec.P256Point {
	t.Helper()
	return must.Get(nistec.NewP256Point().ScalarBaseMult(k[:]))(t)
}

// product returns k times a point.
func product(t testing.TB, k scalar, p *nistec.P256Point) *nistec.P256Point {
	t.Helper()
	return must.Get(times(k, p))(t)
}

// less returns a - b.
func less(a, b *nistec.P256Point) *nistec.P256Point {
	minus := nistec.NewP256Point().Negate(b)
	return minus.Add(minus, a)
}

// shifted returns x + (a-b)*m modulo the order: the scalar of a share from the point of view of
// an attacker who knows that M is m times the generator.
func shifted(x, a, b, m scalar) (out scalar) {
	order, _ := new(big.Int).SetString(groupOrder, 16)
	d := new(big.Int).Sub(new(big.Int).SetBytes(a[:]), new(big.Int).SetBytes(b[:]))
	d.Mul(d, new(big.Int).SetBytes(m[:])).Add(d, new(big.Int).SetBytes(x[:])).Mod(d, order)
	d.FillBytes(out[:])
	return out
}

// sameKey ends the test unless both sides have the same key.
func sameKey(t testing.TB, a, b *Key) {
	t.Helper()
	if a == nil || b == nil || !bytes.Equal(a.Bytes(), b.Bytes()) {
		t.Fatal("the two sides have different keys")
	}
}
