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

// BenchmarkCold is the first call of a principal to a module of 3 MiB that is already compiled.
// It needs an unassigned worker, into which the code is loaded. The pause between two calls is
// long enough to start the next worker, as with interactive use. The goal is less than 20 ms.
func BenchmarkCold(b *testing.B) {
	w := newWorld(b)
	m := module(b, largest(3<<20, wasmmodule.DefaultLimits()))
	must.Do(b, w.Prepare(b.Context(), m))
	var took time.Duration
	for i := range b.N {
		time.Sleep(100 * time.Millisecond)
		order := call(m, "")
		order.Caller = user(fmt.Sprint("user:", i))
		began := time.Now()
		must.Get(w.Run(b.Context(), order))(b)
		took += time.Since(began)
	}
	b.ReportMetric(float64(took.Microseconds())/float64(b.N), "us/call")
}

// BenchmarkWarm is a call in a worker that has the module. It also reports the processor time
// of the workers, which does not depend on other work on the machine.
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

// used returns the processor time of the running workers of a world.
func (w world) used(t testing.TB) (sum time.Duration) {
	t.Helper()
	for _, line := range must.Get(filepath.Glob("/proc/[0-9]*/cmdline"))(t) {
		text, err := os.ReadFile(line)
		if err != nil || !strings.HasPrefix(string(text), w.dir) {
			continue // it has exited, or belongs to another world
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
