package policy_test

import (
	"crypto/sha256"
	"testing"
)

func BenchmarkFloorSHA600(b *testing.B) {
	buf := make([]byte, 600)
	for b.Loop() {
		sha256.Sum256(buf)
	}
}
