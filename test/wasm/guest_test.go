//go:build linux && cgo

package wasm

import (
	"strings"
	"testing"

	"palyra/internal/core/must"
)

// echo copies its input to its output.
const echo = `(module
  (import "wasi_snapshot_preview1" "fd_read" (func $read (param i32 i32 i32 i32) (result i32)))
  (import "wasi_snapshot_preview1" "fd_write" (func $write (param i32 i32 i32 i32) (result i32)))
  (memory (export "memory") 2)
  (func (export "_start")
    (i32.store (i32.const 0) (i32.const 1024))
    (i32.store (i32.const 4) (i32.const 60000))
    (drop (call $read (i32.const 0) (i32.const 0) (i32.const 1) (i32.const 8)))
    (i32.store (i32.const 4) (i32.load (i32.const 8)))
    (drop (call $write (i32.const 1) (i32.const 0) (i32.const 1) (i32.const 8)))))`

// TestCommand runs a guest that uses its standard streams, twice in one worker.
func TestCommand(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	if engine := must.Get(w.Probe(t.Context()))(t); !strings.HasPrefix(engine, "wasmtime 39") {
		t.Fatal(engine)
	}
	m := module(t, compiled(t, echo))
	for range 2 {
		r := must.Get(w.Run(t.Context(), call(m, `{"a":1}`)))(t)
		if string(r.Stdout.Head) != `{"a":1}` || r.Usage.Fuel == 0 || r.Usage.PeakMemory != 2<<16 {
			t.Errorf("%q %+v", r.Stdout.Head, r)
		}
		if i := r; len(i.Isolation.Namespaces) < 6 || i.Isolation.Rlimits["as"] != 12<<30 {
			t.Errorf("isolation %+v", i.Isolation)
		}
	}
}
