package spake2plus

import (
	"encoding/hex"
	"fmt"

	"filippo.io/nistec"
)

// ShareSize is the size of a share in bytes: a point of P-256 in the uncompressed form of SEC
// 1, section 2.3.3.
const ShareSize = 65

// uncompressed is the first byte of this form.
const uncompressed = 4

// M and N of RFC 9383, section 4, uncompressed. Their discrete logarithms are unknown: they are
// derived from a hash (appendix B), which a test repeats.
const (
	pointM = "04" +
		"886e2f97ace46e55ba9dd7242579f2993b64e16ef3dcab95afd497333d8fa12f" +
		"5ff355163e43ce224e0b0e65ff02ac8e5c7be09419c785e0ca547d55a12e2d20"
	pointN = "04" +
		"d8bbd6c639c62937b04d997f38c3770719c629d7014d49a24b4f98baa1292b49" +
		"07d60aa6bfade45008a636337f5168c64d9bd36034808cd564490b1e656edbe7"
)

// blinds are the points that hide the shares: M the prover's, N the verifier's.
type blinds struct {
	m, n *nistec.P256Point
}

// standard returns the points of the RFC.
func standard() (blinds, error) {
	m, err := fixed(pointM)
	if err != nil {
		return blinds{}, err
	}
	n, err := fixed(pointN)
	if err != nil {
		return blinds{}, err
	}
	return blinds{m, n}, nil
}

func fixed(encoded string) (*nistec.P256Point, error) {
	b, err := hex.DecodeString(encoded)
	if err != nil {
		return nil, fmt.Errorf("reading a point of the suite: %w", err)
	}
	return parseShare(b)
}

// parseShare parses a share. It accepts only the uncompressed form, with coordinates below the
// field's prime, of a point on the curve. The identity has no such form, and P-256 has no other
// points of low order (its cofactor is 1).
func parseShare(b []byte) (*nistec.P256Point, error) {
	if len(b) != ShareSize || b[0] != uncompressed {
		return nil, ErrShare
	}
	p, err := nistec.NewP256Point().SetBytes(b)
	if err != nil {
		return nil, ErrShare
	}
	return p, nil
}

// blind returns secret*P + password*by, a share.
func blind(secret, password scalar, by *nistec.P256Point) ([]byte, error) {
	own, err := nistec.NewP256Point().ScalarBaseMult(secret[:])
	if err != nil {
		return nil, fmt.Errorf("multiplying the generator: %w", err)
	}
	mask, err := times(password, by)
	if err != nil {
		return nil, err
	}
	return own.Add(own, mask).Bytes(), nil
}

// unblind returns share - password*by. It refuses a share that equals the password's part: the
// result would be the identity, and Z would not depend on this side's own scalar.
func unblind(share []byte, password scalar, by *nistec.P256Point) (*nistec.P256Point, error) {
	p, err := parseShare(share)
	if err != nil {
		return nil, err
	}
	mask, err := times(password, by)
	if err != nil {
		return nil, err
	}
	p.Add(p, mask.Negate(mask))
	if p.IsInfinity() == 1 {
		return nil, ErrShare
	}
	return p, nil
}

func times(k scalar, p *nistec.P256Point) (*nistec.P256Point, error) {
	out, err := nistec.NewP256Point().ScalarMult(p, k[:])
	if err != nil {
		return nil, fmt.Errorf("multiplying a point: %w", err)
	}
	return out, nil
}
