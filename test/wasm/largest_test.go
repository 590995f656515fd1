//go:build linux && cgo

package wasm

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"log/slog"
	"slices"
	"strings"
	"testing"
	"time"

	"palyra/internal/core/must"
	"palyra/internal/core/reason"
	"palyra/internal/exec/sandbox/jail/jailtest"
	engine "palyra/internal/exec/wasm"
	"palyra/internal/exec/wasm/guest"
	wasmmodule "palyra/internal/exec/wasm/module"
	"palyra/test/wasm/wasmtest"
)

// sized returns b with a length prefix.
func sized(b []byte) []byte { return append(binary.AppendUvarint(nil, uint64(len(b))), b...) }

// largest returns a command of exactly size bytes, with functions of the maximum size. They
// consist of the instructions that cost a compiler most: loads, stores, branches and calls. Its
// _start calls the first function, which returns at once, like the others.
func largest(size int, l wasmmodule.Limits) []byte {
	// local 0 is i32, local 1 is i64: each piece loads, adds, multiplies, stores, branches and
	// calls
	piece := []byte("\x20\x00\x28\x02\x04\x41\x03\x6a\x22\x00\x20\x01\x42\x07\x7e\x22\x01\x37\x03\x08\x20\x00\x04\x40\x20\x01\xa7\x21\x00\x05\x10\x01\x0b\x02\x40\x20\x00\x0d\x00\x20\x01\x20\x00\xad\x7c\x21\x01\x0b")
	body := func(room int) []byte {
		const head, foot = "\x02\x01\x7f\x01\x7e\x41\x00\x45\x04\x40\x0f\x0b", "\x0b"
		pieces := (room - len(head) - len(foot)) / len(piece)
		return slices.Concat([]byte(head), bytes.Repeat(piece, pieces), []byte(foot))
	}
	section := func(id byte, b []byte) []byte { return append([]byte{id}, sized(b)...) }
	head := slices.Concat([]byte("\x00asm\x01\x00\x00\x00"), section(1, []byte("\x01\x60\x00\x00")))
	middle := slices.Concat(section(5, []byte("\x01\x00\x02")), section(7, []byte("\x02\x06memory\x02\x00\x06_start\x00\x00")))
	largestBody := sized(body(l.BodyBytes))
	bodies := bytes.Repeat(largestBody, (size-500)/len(largestBody))
	functions := len(bodies)/len(largestBody) + 1
	bodies = append(bodies, sized(body(size-500-len(bodies)))...)
	count := binary.AppendUvarint(nil, uint64(functions))
	m := slices.Concat(head, section(3, append(slices.Clone(count), make([]byte, functions)...)), middle, section(10, append(count, bodies...)))
	// a custom section fills the rest: its id, a size of two bytes, and a name
	rest := size - len(m) - 3
	return append(m, section(0, append([]byte("\x03pad"), make([]byte, rest-4)...))...)
}

// padded returns a module of exactly size bytes: b and a custom section.
func padded(b []byte, size int) []byte {
	const name = "\x04rest"
	rest := size - len(b) - 1
	rest -= len(binary.AppendUvarint(nil, uint64(rest)))
	return slices.Concat(b, []byte{0}, sized(append([]byte(name), make([]byte, rest-len(name))...)))
}

// TestLargestModule: a module with the maximum default size, and with functions of the maximum
// size, compiles and runs within the limits of workers. A quarter of it is the code that costs a
// compiler most; four times as much costs more processor time than a compiler has.
func TestLargestModule(t *testing.T) {
	t.Parallel()
	l := wasmmodule.DefaultLimits()
	text := padded(largest(l.ModuleBytes/4, l), l.ModuleBytes)
	if len(text) != l.ModuleBytes {
		t.Fatalf("it has %d bytes", len(text))
	}
	m := must.Get(wasmmodule.Check(text, l))(t)
	w := newWorld(t)
	module := guest.Module{Bytes: text, Digest: sha256.Sum256(text), Kind: m.Kind}
	began := time.Now()
	must.Do(t, w.Prepare(t.Context(), module))
	t.Logf("compiled in %s: %d functions, %d bytes of code", time.Since(began), m.Functions, m.CodeBytes)
	must.Get(w.Run(t.Context(), call(module, "")))(t)
}

// TestCompilerTime: a compiler that uses all of its processor time is ended, with the limit in the
// error, which names what to do. It is not started again for the same module. Control:
// TestLargestModule compiles a module within the usual limit.
func TestCompilerTime(t *testing.T) {
	t.Parallel()
	l := wasmmodule.DefaultLimits()
	text := largest(l.ModuleBytes, l)
	m := must.Get(wasmmodule.Check(text, l))(t)
	tierC := &counting{Runner: wasmtest.TierC(t), started: map[string]int{}, hold: make(chan struct{})}
	close(tierC.hold)
	r := must.Get(engine.Open(engine.Config{
		Sandbox: tierC, Worker: wasmtest.Worker, Dir: jailtest.Dir(t), Log: slog.New(slog.DiscardHandler), CompileCPU: time.Second,
	}))(t)
	defer r.Close()
	slow := guest.Module{Bytes: text, Digest: sha256.Sum256(text), Kind: m.Kind}
	for range 2 {
		_, err := r.Run(t.Context(), call(slow, ""))
		var known *reason.Error
		if !errors.As(err, &known) || known.Code != reason.QuotaExceeded || !strings.Contains(known.Message, "more than 1s of processor time") || known.Remedy == "" {
			t.Errorf("%+v", err)
		}
	}
	if n := tierC.count("compile"); n != 1 {
		t.Errorf("%d compilers were started", n)
	}
}
