package spake2plus

import "math/big"

// onCurve reports, by schoolbook arithmetic, whether share is the uncompressed form of a point
// of P-256: 4, x, y with x and y below p, and y^2 = x^3 - 3x + b.
func onCurve(share []byte) bool {
	if len(share) != 65 || share[0] != 4 {
		return false
	}
	p, _ := new(big.Int).SetString(fieldPrime, 16)
	b, _ := new(big.Int).SetString("5ac635d8aa3a93e7b3ebbd55769886bc651d06b0cc53b0f63bce3c3e27d2604b", 16)
	x, y := new(big.Int).SetBytes(share[1:33]), new(big.Int).SetBytes(share[33:])
	if x.Cmp(p) >= 0 || y.Cmp(p) >= 0 {
		return false
	}
	right := new(big.Int).Exp(x, big.NewInt(3), p)
	right.Sub(right, new(big.Int).Mul(x, big.NewInt(3))).Add(right, b).Mod(right, p)
	return y.Mul(y, y).Mod(y, p).Cmp(right) == 0
}
