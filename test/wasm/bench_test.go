//go:build linux && cgo

package wasm

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"palyra/internal/core/must"
	wasmmodule "palyra/internal/exec/wasm/module"
)

// BenchmarkCold is the first call of a principal of a module of 3 MiB that was compiled
// before: it needs a worker that serves nobody yet, and the code loaded into it. Between two
// calls is time to start the next worker, as between those of people. It is to take less
// than 20 ms.
func BenchmarkCold(b *testing.B) {
	w := newWorld(b)
	m := module(b, largest(3<<20, wasmmodule.DefaultLimits()))
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

// BenchmarkWarm is a call in a worker that has the module. Beside its time it says what the
// workers use of the processor for it, which is the same on a busy machine.
func BenchmarkWarm(b *testing.B) {
	w := newWorld(b)
	m := module(b, compiled(b, echo))
	must.Get(w.Run(b.Context(), call(m, `{"text":"hello"}`)))(b)
	before := w.used(b)
	for b.Loop() {
		must.Get(w.Run(b.Context(), call(m, `{"text":"hello"}`)))(b)
	}
	b.ReportMetric(float64((w.used(b)-before).Microseconds())/float64(b.N), "worker-us/op")
}

// used is how much of the processor the workers of a world have used, those that have ended
// left out.
func (w world) used(t testing.TB) (sum time.Duration) {
	t.Helper()
	for _, line := range must.Get(filepath.Glob("/proc/[0-9]*/cmdline"))(t) {
		text, err := os.ReadFile(line)
		if err != nil || !strings.HasPrefix(string(text), w.dir) {
			continue // it is gone, or another's
		}
		threads, err := filepath.Glob(filepath.Join(filepath.Dir(line), "task", "*", "schedstat"))
		must.Do(t, err)
		for _, thread := range threads {
			var ran, waited int64
			if text, err := os.ReadFile(thread); err == nil {
				must.Get(fmt.Sscan(string(text), &ran, &waited))(t)
			}
			sum += time.Duration(ran)
		}
	}
	return sum
}
