package spake2plus

import (
	"crypto/ecdh"
	"crypto/rand"
	"encoding/hex"
	"fmt"

	"filippo.io/bigmod"
)

const (
	// scalarSize is the size of a number modulo the order of P-256, in bytes.
	scalarSize = 32
	// wideSize is the size of a number before its reduction. It has 64 bits more than the order,
	// so that the bias of the reduction is at most 2^-64 (RFC 9383, section 3.2).
	wideSize = scalarSize + 8
	// halfSize is half of wideSize. Each half is below the order.
	halfSize = wideSize / 2
)

// groupOrder is the order of P-256 (SEC 2, section 2.4.2).
const groupOrder = "ffffffff00000000ffffffffffffffffbce6faada7179e84f3b9cac2fc632551"

// scalar is a number below the order of P-256, most significant byte first.
type scalar [scalarSize]byte

// randomScalar returns a random number from 1 to the order minus one, without bias.
func randomScalar() (scalar, error) {
	key, err := ecdh.P256().GenerateKey(rand.Reader)
	if err != nil {
		return scalar{}, fmt.Errorf("drawing a scalar: %w", err)
	}
	return scalar(key.Bytes()), nil
}

// reduce returns a wide number modulo the order of P-256, in constant time. bigmod reads
// numbers of the modulus' length, so that the number is split into two halves: high * 2^160 +
// low.
func reduce(wide [wideSize]byte) (scalar, error) {
	encoded, err := hex.DecodeString(groupOrder)
	if err != nil {
		return scalar{}, fmt.Errorf("reading the order: %w", err)
	}
	order, err := bigmod.NewModulus(encoded)
	if err != nil {
		return scalar{}, fmt.Errorf("reading the order: %w", err)
	}
	sum, err := nat(wide[:halfSize], order)
	if err != nil {
		return scalar{}, err
	}
	shift, err := nat(append([]byte{1}, make([]byte, halfSize)...), order)
	if err != nil {
		return scalar{}, err
	}
	low, err := nat(wide[halfSize:], order)
	if err != nil {
		return scalar{}, err
	}
	return scalar(sum.Mul(shift, order).Add(low, order).Bytes(order)), nil
}

// nat reads at most scalarSize bytes as a number below the order.
func nat(b []byte, order *bigmod.Modulus) (*bigmod.Nat, error) {
	var padded scalar
	copy(padded[scalarSize-len(b):], b)
	n, err := bigmod.NewNat().SetBytes(padded[:], order)
	if err != nil {
		return nil, fmt.Errorf("reading a number: %w", err)
	}
	return n, nil
}
