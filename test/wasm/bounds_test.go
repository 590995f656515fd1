//go:build linux && cgo

package wasm

import (
	"bytes"
	"encoding/binary"
	"math/bits"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"palyra/internal/core/must"
	"palyra/internal/core/needs"
	wasmmodule "palyra/internal/exec/wasm/module"
	"palyra/internal/exec/wasm/wire"
	"palyra/test/wasm/wasmtest"
)

// bounded is a command whose functions have exactly the documented bounds, and the number that it
// writes if the compiler made no mistake. A jump to a wrong target, or a local that shares its
// place, changes the number.
type bounded struct {
	limits wasmmodule.Limits
	// steps is the number of multiplications in the code of one jump target.
	steps int
	data  []byte
}

func newBounded(l wasmmodule.Limits) bounded {
	b := bounded{limits: l, steps: 1, data: make([]byte, 4*(l.Locals+1))}
	for i := range b.data {
		b.data[i] = byte(i*i*131 + i)
	}
	for len(b.jumps()) <= l.BodyBytes {
		b.steps++
	}
	b.steps--
	return b
}

// factor is the constant of one multiplication.
func factor(target, step int) uint32 { return uint32(target)*2_654_435_761 + uint32(step)*40_503 | 1 }

// Instructions with an operand.
func get(local int) []byte { return binary.AppendUvarint([]byte{0x20}, uint64(local)) }
func set(local int) []byte { return binary.AppendUvarint([]byte{0x21}, uint64(local)) }
func number(n uint32) []byte {
	b, rest := []byte{0x41}, int32(n)
	for {
		low := byte(rest) & 0x7f
		rest >>= 7
		if rest == 0 && low&0x40 == 0 || rest == -1 && low&0x40 != 0 {
			return append(b, low)
		}
		b = append(b, low|0x80)
	}
}

// jumps is the body of a function that jumps by its argument to one of the targets and the default.
// Each target computes another result from the argument.
func (b bounded) jumps() []byte {
	targets := b.limits.BranchTargets
	body := slices.Concat([]byte("\x01\x01\x7f"), get(0), set(1), bytes.Repeat([]byte("\x02\x40"), targets+1), get(0), []byte{0x0e})
	body = binary.AppendUvarint(body, uint64(targets))
	for target := range targets + 1 {
		body = binary.AppendUvarint(body, uint64(target))
	}
	for target := range targets + 1 {
		body = append(body, 0x0b)
		for step := range b.steps {
			body = append(body, slices.Concat(get(1), number(factor(target, step)), []byte{0x6c}, get(0), []byte{0x6a}, set(1))...)
		}
		body = append(append(body, get(1)...), 0x0f)
	}
	return append(body, 0x0b)
}

func (b bounded) jump(argument uint32) uint32 {
	x := argument
	for step := range b.steps {
		x = x*factor(int(min(argument, uint32(b.limits.BranchTargets))), step) + argument
	}
	return x
}

// locals is the body of a function that loads every local from memory, calls the first function and
// then combines all of them, so that all have a value across the call.
func (b bounded) locals() []byte {
	body := append(binary.AppendUvarint([]byte{1}, uint64(b.limits.Locals)), 0x7f)
	for local := 1; local <= b.limits.Locals; local++ {
		body = append(body, 0x41, 0, 0x28, 2)
		body = append(binary.AppendUvarint(body, uint64(4*local)), set(local)...)
	}
	body = slices.Concat(body, get(0), []byte{0x10, 1})
	for local := 1; local <= b.limits.Locals; local++ {
		body = append(append(body, get(local)...), 0x6a, 0x41, 1, 0x77)
	}
	return append(body, 0x0b)
}

func (b bounded) combine(argument uint32) uint32 {
	x := b.jump(argument)
	for local := 1; local <= b.limits.Locals; local++ {
		x = bits.RotateLeft32(x+binary.LittleEndian.Uint32(b.data[4*local:]), 1)
	}
	return x
}

const (
	combined = 77
	result   = 50_000
)

// start calls both functions and writes one number to standard output.
func (b bounded) start() []byte {
	return slices.Concat([]byte("\x01\x02\x7f\x03\x40"),
		get(1), number(31), []byte{0x6c}, get(0), []byte{0x10, 1, 0x6a}, set(1),
		get(0), number(1), []byte{0x6a}, set(0), get(0), number(uint32(b.limits.BranchTargets+3)), []byte{0x49, 0x0d, 0, 0x0b},
		get(1), number(combined), []byte{0x10, 2, 0x6a}, set(1),
		number(result), get(1), []byte{0x36, 2, 0},
		number(result+8), number(result), []byte{0x36, 2, 0}, number(result+12), number(4), []byte{0x36, 2, 0},
		number(1), number(result+8), number(1), number(result+16), []byte{0x10, 0, 0x1a, 0x0b})
}

func (b bounded) want() []byte {
	x := uint32(0)
	for i := range uint32(b.limits.BranchTargets + 3) {
		x = x*31 + b.jump(i)
	}
	return binary.LittleEndian.AppendUint32(nil, x+b.combine(combined))
}

// filled returns a body of exactly size bytes: it starts with instructions that do nothing.
func filled(body []byte, size int) []byte {
	at := 3 // after one group of locals
	for body[at-1] != 0x7f {
		at++
	}
	return slices.Concat(body[:at], bytes.Repeat([]byte{0x01}, size-len(body)), body[at:])
}

// text returns the module, with bodies of that many bytes.
func (b bounded) text(body int) []byte {
	section := func(id byte, parts ...[]byte) []byte { return append([]byte{id}, sized(slices.Concat(parts...))...) }
	return slices.Concat([]byte("\x00asm\x01\x00\x00\x00"),
		section(1, []byte("\x03\x60\x00\x00\x60\x01\x7f\x01\x7f\x60\x04\x7f\x7f\x7f\x7f\x01\x7f")),
		section(2, []byte{1}, sized([]byte(wasmmodule.WASI)), sized([]byte("fd_write")), []byte{0, 2}),
		section(3, []byte{3, 1, 1, 0}),
		section(5, []byte{1, 0, 1}),
		section(7, []byte{2}, sized([]byte("memory")), []byte{2, 0}, sized([]byte("_start")), []byte{0, 3}),
		section(10, []byte{3}, sized(filled(b.jumps(), body)), sized(filled(b.locals(), body)), sized(b.start())),
		section(11, []byte{1, 0, 0x41, 0, 0x0b}, sized(b.data)))
}

// TestBounds runs a module at exactly the documented bounds of jump targets, locals and body size,
// and checks its result. Control: one more of each is refused before an engine reads it.
func TestBounds(t *testing.T) {
	t.Parallel()
	l := wasmmodule.DefaultLimits()
	b := newBounded(l)
	w := newWorld(t)
	got := must.Get(w.Run(t.Context(), call(module(t, b.text(l.BodyBytes)), "")))(t)
	if want := b.want(); !bytes.Equal(got.Stdout.Head, want) {
		t.Errorf("%x, want %x", got.Stdout.Head, want)
	}
	targets, locals := newBounded(l), newBounded(l)
	targets.limits.BranchTargets++
	targets.steps--
	locals.limits.Locals++
	locals.data = make([]byte, len(locals.data)+4)
	for name, text := range map[string][]byte{"targets": targets.text(l.BodyBytes), "locals": locals.text(l.BodyBytes), "body": b.text(l.BodyBytes + 1)} {
		if _, err := wasmmodule.Check(text, l); err == nil {
			t.Errorf("one more of %s is allowed", name)
		}
	}
}

// emulated starts a program of arm64, with one end of a connection as its standard input.
func emulated(t *testing.T, worker, word string) *net.UnixConn {
	t.Helper()
	pair := must.Get(unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0))(t)
	ours, theirs := os.NewFile(uintptr(pair[0]), "ours"), os.NewFile(uintptr(pair[1]), "theirs")
	defer ours.Close()
	defer theirs.Close()
	cmd := exec.Command("qemu-aarch64-static", "-L", "/usr/aarch64-linux-gnu", worker, word) // it ends with its connection
	cmd.Stdin, cmd.Stderr = theirs, os.Stderr
	must.Do(t, cmd.Start())
	conn, _ := must.Get(net.FileConn(ours))(t).(*net.UnixConn)
	t.Cleanup(func() {
		_ = conn.Close()
		if err := cmd.Wait(); err != nil {
			t.Errorf("the worker ended: %v", err)
		}
	})
	must.Do(t, conn.SetDeadline(time.Now().Add(5*time.Minute)))
	must.Get(wire.As[wire.Greeting](must.Get(wire.Read(conn, 0))(t), wire.Ready))(t)
	return conn
}

// TestBoundsOnARM64 is TestBounds with the worker of arm64 in an emulator, because that
// architecture has its own code generator. Control: the number of a module that differs in one
// constant is another one.
func TestBoundsOnARM64(t *testing.T) {
	t.Parallel()
	needs.Time(t, 30*time.Second)
	needs.Programs(t, "qemu-aarch64-static", "aarch64-linux-gnu-gcc")
	worker := filepath.Join(t.TempDir(), "palyra-wasm")
	build := exec.CommandContext(t.Context(), "go", "build", "-trimpath", "-o", worker, "palyra/cmd/palyra-wasm")
	build.Env = append(os.Environ(), "GOARCH=arm64", "CGO_ENABLED=1", "CC=aarch64-linux-gnu-gcc")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	l := wasmmodule.DefaultLimits()
	b := newBounded(l)
	if got, want := emulate(t, worker, b.text(l.BodyBytes)), b.want(); !bytes.Equal(got, want) {
		t.Errorf("%x, want %x", got, want)
	}
	control := newBounded(l)
	control.data[len(control.data)-1]++
	if got := emulate(t, worker, control.text(l.BodyBytes)); bytes.Equal(got, b.want()) || !bytes.Equal(got, control.want()) {
		t.Errorf("the control writes %x", got)
	}
}

// emulate compiles and runs a module of a command in emulated workers, and returns its result.
func emulate(t *testing.T, worker string, text []byte) []byte {
	t.Helper()
	compiler := emulated(t, worker, "compile")
	must.Do(t, wire.Write(compiler, wire.Compile, wire.Features{}, text))
	code := must.Get(wire.Read(compiler, wire.MaxBody))(t)
	must.Get(wire.As[wire.Trouble](code, wire.Compiled))(t)

	file := must.Get(os.CreateTemp(t.TempDir(), "code"))(t)
	defer file.Close()
	must.Get(file.Write(code.Body))(t)
	runner := emulated(t, worker, "run")
	var frame bytes.Buffer
	must.Do(t, wire.Write(&frame, wire.Load, wire.Features{}))
	if n, _, err := runner.WriteMsgUnix(frame.Bytes(), unix.UnixRights(int(file.Fd())), nil); err != nil || n != frame.Len() {
		t.Fatal(n, err)
	}
	must.Get(wire.As[wire.Trouble](must.Get(wire.Read(runner, 0))(t), wire.Loaded))(t)
	limits := wasmtest.Limits()
	must.Do(t, wire.Write(runner, wire.Call, wire.Order{
		Tool: "test", Fuel: limits.Fuel, MemoryBytes: limits.MemoryBytes, TableElements: limits.TableElements, Output: limits.Output,
		WallMillis: time.Minute.Milliseconds(), Seed: make([]byte, 32),
	}))
	f := must.Get(wire.Read(runner, 2*limits.Output))(t)
	end := must.Get(wire.As[wire.End](f, wire.Done))(t)
	if end.Outcome != wire.Finished {
		t.Fatalf("%s: %s %s", end.Outcome, end.Problem, f.Body)
	}
	return f.Body[:end.Result]
}
