package atrest_test

import (
	"crypto/sha256"
	"fmt"
	"testing"
	"time"

	"palyra/internal/core/must"
	"palyra/internal/vault/atrest"
	"palyra/internal/vault/atrest/atresttest"
)

// BenchmarkSeal measures the cost of a stored value in addition to its digest.
func BenchmarkSeal(b *testing.B) {
	keys := atrest.New(&atresttest.Ring{}, &shelf{}, time.Now)
	must.Do(b, keys.Ready(b.Context()))
	for _, size := range []int{64, 4 << 10, 256 << 10} {
		b.Run(fmt.Sprint(size), func(b *testing.B) {
			plain := make([]byte, size)
			at := atrest.Place{Table: "results", Digest: sha256.Sum256(plain)}
			b.ReportAllocs()
			for b.Loop() {
				if _, _, err := keys.Seal(at, plain); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
