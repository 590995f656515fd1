//go:build linux && cgo

package wasm

import (
	"fmt"
	"testing"
	"time"

	"palyra/internal/must"
	"palyra/internal/wasm/structure"
)

// BenchmarkCold is the first call of a principal of a module of 3 MiB that was compiled
// before: it needs a worker that serves nobody yet, and the code loaded into it. Between two
// calls is time to start the next worker, as between those of people. It is to take less
// than 20 ms.
func BenchmarkCold(b *testing.B) {
	w := newWorld(b)
	m := module(b, largest(3<<20, structure.DefaultLimits()))
	must.Do(b, w.Prepare(b.Context(), m))
	var took time.Duration
	for i := range b.N {
		time.Sleep(100 * time.Millisecond)
		order := call(m, "")
		order.Owner = fmt.Sprint("user:", i)
		began := time.Now()
		must.Get(w.Run(b.Context(), order))(b)
		took += time.Since(began)
	}
	b.ReportMetric(float64(took.Microseconds())/float64(b.N), "us/call")
}

// BenchmarkWarm is a call in a worker that has the module.
func BenchmarkWarm(b *testing.B) {
	w := newWorld(b)
	m := module(b, compiled(b, echo))
	for b.Loop() {
		must.Get(w.Run(b.Context(), call(m, `{"text":"hello"}`)))(b)
	}
}
