//go:build linux && cgo

package attack

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"log/slog"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/bytecodealliance/wasmtime-go/v39"

	"palyra/internal/core/limit"
	"palyra/internal/core/must"
	"palyra/internal/exec/sandbox/bubblewrap"
	"palyra/internal/exec/sandbox/jail/jailtest"
	engine "palyra/internal/exec/wasm"
	"palyra/internal/exec/wasm/guest"
	"palyra/internal/exec/wasm/module"
	"palyra/internal/exec/wasm/wire"
	"palyra/test/process"
	"palyra/test/wasm/wasmtest"
)

// guests is a sandbox with the real worker and with a misbehaving one.
type guests struct {
	*testing.T
	tierC     *bubblewrap.Runner
	good, bad string
}

// TestGuests tries the operations of a guest without grants, and of a worker that a guest has
// taken over.
func TestGuests(t *testing.T) {
	t.Parallel()
	g := &guests{T: t, tierC: wasmtest.TierC(t)}
	good := jailtest.Dir(t)
	must.Do(t, process.Install(good, engine.Worker))
	g.good = filepath.Join(good, engine.Worker)
	g.bad = must.Get(wasmtest.Build(jailtest.Dir(t), "palyra/test/wasm/bad"))(t)
	g.grants()
	g.clock()
	g.files()
	g.neighbours()
	g.takenOver()
	g.lies()
}

// row tries one row. Both functions report whether the attack succeeded, and what it obtained.
func (g *guests) row(name string, attack, control func(g *guests) (bool, string)) {
	g.Run(name, func(t *testing.T) {
		in := *g
		in.T = t
		got, said := attack(&in)
		without, free := control(&in)
		record(t, name, got, without, fmt.Sprintf("%s; the control: %s", said, free))
	})
}

// open opens a runner with a worker and also returns the runner's directory.
func (g *guests) open(worker string) (r *engine.Runner, dir string) {
	g.Helper()
	dir = jailtest.Dir(g.T)
	r = must.Get(engine.Open(engine.Config{Sandbox: g.tierC, Worker: worker, Dir: dir, Log: slog.New(slog.DiscardHandler), Limits: wasmtest.Limits()}))(g.T)
	g.Cleanup(r.Close)
	return r, dir
}

// call returns a call of alice's for a module in text form.
func (g *guests) call(wat string) guest.Call {
	g.Helper()
	text := must.Get(wasmtime.Wat2Wasm(wat))(g.T)
	m := must.Get(module.Check(text, module.DefaultLimits()))(g.T)
	return guest.Call{
		Caller: limit.Who{Owner: "user:alice", Principal: "user:alice"}, Tool: "attack", Limits: wasmtest.Limits(),
		Module: guest.Module{Bytes: text, Digest: sha256.Sum256(text), Kind: m.Kind},
	}
}

// says returns the result of a call, or the reason for its end.
func says(r *engine.Runner, c guest.Call) string {
	report, err := r.Run(context.Background(), c)
	if err != nil {
		return "refused: " + err.Error()
	}
	return string(report.Stdout.Head)
}

// granting is a host that grants every request.
type granting struct {
	mu    sync.Mutex
	asked []string
}

func (h *granting) Answer(_ context.Context, function string, _ []int32, _, _ []byte) (guest.Answer, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.asked = append(h.asked, function)
	return guest.Answer{Value: 1, Result: []byte(canary)}, nil
}

const handles = `(import "palyra:plugins/host-capabilities@0.1.0" `

// guestSays returns a guest that prints "got" if body leaves a number of 0 or more, and "not"
// otherwise.
func guestSays(body string) string {
	return `(module ` + handles + `"grant_open" (func $open (param i32 i32 i32) (result i32)))` + handles + `"secret_read" (func $secret (param i32) (result i32)))
	(memory (export "memory") 1) (data (i32.const 16) "gotnotname")
	(func (export "palyra_alloc") (param i32) (result i32) (i32.const 1024))
	(func (export "run") (param i32 i32) (result i64)
		(if (i32.ge_s ` + body + ` (i32.const 0)) (then (return (i64.const 0x0000001000000003))))
		(i64.const 0x0000001300000003)))`
}

// grants are WASM-01: without a grant, handles give access to nothing.
func (g *guests) grants() {
	r, _ := g.open(g.good)
	for variant, body := range map[string]string{
		"opens a host":                   `(call $open (i32.const 1) (i32.const 22) (i32.const 4))`,
		"opens a secret":                 `(call $open (i32.const 2) (i32.const 22) (i32.const 4))`,
		"opens storage":                  `(call $open (i32.const 3) (i32.const 22) (i32.const 4))`,
		"opens a channel":                `(call $open (i32.const 4) (i32.const 22) (i32.const 4))`,
		"guesses the handle of a secret": `(call $secret (i32.const 1))`,
	} {
		try := func(host guest.Host) func(g *guests) (bool, string) {
			return func(g *guests) (bool, string) {
				c := g.call(guestSays(body))
				c.Host = host
				said := says(r, c)
				return said == "got", said
			}
		}
		g.row("WASM-01 "+variant, try(nil), try(&granting{}))
	}
}

// eight returns a guest that writes eight bytes, which a WASI function stores at address 64.
func eight(function, types, call string) string {
	return `(module (import "wasi_snapshot_preview1" "` + function + `" (func $get ` + types + `))
	(import "wasi_snapshot_preview1" "fd_write" (func $write (param i32 i32 i32 i32) (result i32)))
	(memory (export "memory") 1)
	(func (export "_start") (drop ` + call + `)
		(i32.store (i32.const 0) (i32.const 64)) (i32.store (i32.const 4) (i32.const 8))
		(drop (call $write (i32.const 1) (i32.const 0) (i32.const 1) (i32.const 8)))))`
}

// clock is WASM-02: a guest without a grant gets neither the time nor randomness.
func (g *guests) clock() {
	r, _ := g.open(g.good)
	read := func(granted bool) func(g *guests) (bool, string) {
		return func(g *guests) (bool, string) {
			c := g.call(eight("clock_time_get", "(param i32 i64 i32) (result i32)", `(call $get (i32.const 0) (i64.const 1) (i32.const 64))`))
			c.Clock = granted
			said := says(r, c)
			if len(said) != 8 {
				return false, said
			}
			at := time.Unix(0, int64(binary.LittleEndian.Uint64([]byte(said))))
			return time.Since(at).Abs() < 24*time.Hour, at.String()
		}
	}
	g.row("WASM-02 reads the clock", read(false), read(true))
	random := func(granted bool) func(g *guests) (bool, string) {
		return func(g *guests) (bool, string) {
			c := g.call(eight("random_get", "(param i32 i32) (result i32)", `(call $get (i32.const 64) (i32.const 8))`))
			c.Random = granted
			one, two := says(r, c), says(r, c)
			return len(one) == 8 && one != two, fmt.Sprintf("%x, %x", one, two)
		}
	}
	g.row("WASM-02 gets randomness", random(false), random(true))
}

// files is WASM-03: files that WASI would open do not exist. The control runs the same guest with
// the engine's own WASI, which has access to the directory.
func (g *guests) files() {
	const opens = `(module
	(import "wasi_snapshot_preview1" "path_open" (func $open (param i32 i32 i32 i32 i32 i64 i64 i32 i32) (result i32)))
	(import "wasi_snapshot_preview1" "fd_read" (func $read (param i32 i32 i32 i32) (result i32)))
	(import "wasi_snapshot_preview1" "fd_write" (func $write (param i32 i32 i32 i32) (result i32)))
	(memory (export "memory") 1) (data (i32.const 16) "canary")
	(func (export "_start")
		(if (i32.eqz (call $open (i32.const 3) (i32.const 0) (i32.const 16) (i32.const 6) (i32.const 0) (i64.const 2) (i64.const 0) (i32.const 0) (i32.const 12)))
			(then (i32.store (i32.const 0) (i32.const 64)) (i32.store (i32.const 4) (i32.const 1000))
				(drop (call $read (i32.load (i32.const 12)) (i32.const 0) (i32.const 1) (i32.const 8)))
				(i32.store (i32.const 4) (i32.load (i32.const 8)))
				(drop (call $write (i32.const 1) (i32.const 0) (i32.const 1) (i32.const 8)))))))`
	dir := jailtest.Dir(g.T)
	must.Do(g.T, os.WriteFile(filepath.Join(dir, "canary"), []byte(canary), 0o644))
	found := func(said string) (bool, string) { return strings.Contains(said, canary), said }
	g.row("WASM-03 opens a file", func(g *guests) (bool, string) {
		r, _ := g.open(g.good)
		return found(says(r, g.call(opens)))
	}, func(g *guests) (bool, string) {
		return found(g.unbounded(opens, 1, func(w *wasmtime.WasiConfig) {
			must.Do(g.T, w.PreopenDir(dir, "/", wasmtime.DIR_READ, wasmtime.FILE_READ))
		}))
	})
}

// unbounded runs a guest in this process with the engine's own WASI, as many times in one
// instance.
func (g *guests) unbounded(wat string, times int, give func(*wasmtime.WasiConfig)) string {
	g.Helper()
	out := filepath.Join(jailtest.Dir(g.T), "out")
	e := wasmtime.NewEngine()
	m := must.Get(wasmtime.NewModule(e, must.Get(wasmtime.Wat2Wasm(wat))(g.T)))(g.T)
	l, store, w := wasmtime.NewLinker(e), wasmtime.NewStore(e), wasmtime.NewWasiConfig()
	must.Do(g.T, l.DefineWasi())
	must.Do(g.T, w.SetStdoutFile(out))
	give(w)
	store.SetWasi(w)
	i := must.Get(l.Instantiate(store, m))(g.T)
	for range times {
		must.Get(i.GetFunc(store, "_start").Call(store))(g.T)
	}
	return string(must.Get(os.ReadFile(out))(g.T))
}

// neighbours is WASM-04: a call cannot find the data of an earlier one.
func (g *guests) neighbours() {
	// The guest prints the data that an earlier call left; "0" means none.
	const leaves = `(module
	(import "wasi_snapshot_preview1" "fd_write" (func $write (param i32 i32 i32 i32) (result i32)))
	(memory (export "memory") 1) (data (i32.const 64) "0")
	(func (export "_start")
		(i32.store (i32.const 0) (i32.const 64)) (i32.store (i32.const 4) (i32.const 1))
		(drop (call $write (i32.const 1) (i32.const 0) (i32.const 1) (i32.const 8)))
		(i32.store8 (i32.const 64) (i32.const 49))))`
	left := func(said string) (bool, string) { return strings.Contains(said, "1"), said }
	g.row("WASM-04 finds the memory of another call", func(g *guests) (bool, string) {
		r, _ := g.open(g.good)
		c := g.call(leaves)
		first, second := says(r, c), says(r, c) // both run in one worker
		c.Caller = limit.Who{Owner: "user:bob", Principal: "user:bob"}
		if first != "0" {
			g.Errorf("the first call: %s", first)
		}
		return left(first + second + says(r, c))
	}, func(g *guests) (bool, string) { return left(g.unbounded(leaves, 2, func(*wasmtime.WasiConfig) {})) })
	second := func(owner string) func(g *guests) (bool, string) {
		return func(g *guests) (bool, string) {
			r, _ := g.open(g.badAs("calls:"))
			c := g.call(leaves)
			says(r, c)
			c.Caller = limit.Who{Owner: owner, Principal: owner}
			said := says(r, c)
			return said == "calls: 2", said
		}
	}
	g.row("WASM-04 finds the worker of another principal", second("user:bob"), second("user:alice"))
}

// badAs returns a worker that misbehaves in the given way.
func (g *guests) badAs(way string) string {
	g.Helper()
	worker := filepath.Join(jailtest.Dir(g.T), engine.Worker)
	// A process that is forked meanwhile would hold the file open for writing, and execve(2) would
	// fail (ETXTBSY).
	syscall.ForkLock.RLock()
	defer syscall.ForkLock.RUnlock()
	must.Do(g.T, os.WriteFile(worker, append(bytes.Clone(must.Get(os.ReadFile(g.bad))(g.T)), []byte(" "+way)...), 0o755))
	return worker
}

// nothing is an empty guest.
const nothing = `(module (memory (export "memory") 1) (func (export "_start")))`

// takenOver are WASM-05: the worker runs in its own sandbox. The control runs the same worker
// outside of it.
func (g *guests) takenOver() {
	dir := jailtest.Dir(g.T)
	file, written := filepath.Join(dir, "canary"), filepath.Join(dir, "written")
	must.Do(g.T, os.WriteFile(file, []byte(canary), 0o644))
	must.Do(g.T, os.WriteFile(written, nil, 0o666))
	l := must.Get(net.Listen("tcp", "127.0.0.1:0"))(g.T)
	g.Cleanup(func() { l.Close() })
	go func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			_, _ = conn.Write([]byte(canary))
			conn.Close()
		}
	}()
	// The attack replaces the compiled code that palyrad stores for a module.
	good, code := g.open(g.good)
	says(good, g.call(nothing))
	kept := must.Get(filepath.Glob(filepath.Join(code, "code", "*.code")))(g.T)
	if len(kept) != 1 {
		g.Fatalf("kept: %q", kept)
	}
	for variant, c := range map[string]struct{ way, mark string }{
		"reaches a host":      {"dial:" + l.Addr().String(), canary},
		"reads a file":        {"read:" + file, canary},
		"writes a file":       {"write:" + written, "written by a worker"},
		"reads compiled code": {"read:" + kept[0], string(must.Get(os.ReadFile(kept[0]))(g.T)[:64])},
	} {
		got := func(said string) (bool, string) {
			return strings.Contains(said, c.mark), strings.ToValidUTF8(said[:min(len(said), 200)], "?")
		}
		g.row("WASM-05 "+variant, func(g *guests) (bool, string) {
			r, _ := g.open(g.badAs(c.way))
			said := says(r, g.call(nothing))
			if text := must.Get(os.ReadFile(written))(g.T); len(text) > 0 {
				g.Errorf("it wrote %s", text)
			}
			return got(said)
		}, func(g *guests) (bool, string) {
			said := g.outside(g.badAs(c.way))
			must.Do(g.T, os.Truncate(written, 0))
			return got(said)
		})
	}
}

// outside runs a worker without a sandbox, as palyrad's user.
func (g *guests) outside(worker string) string {
	g.Helper()
	pair := must.Get(syscall.Socketpair(syscall.AF_UNIX, syscall.SOCK_STREAM|syscall.SOCK_CLOEXEC, 0))(g.T)
	mine, its := os.NewFile(uintptr(pair[0]), "mine"), os.NewFile(uintptr(pair[1]), "its")
	defer mine.Close()
	cmd := exec.CommandContext(g.Context(), worker)
	cmd.Stdin = its
	must.Do(g.T, cmd.Start())
	its.Close()
	defer func() { _ = cmd.Process.Kill(); _ = cmd.Wait() }()
	read := func(want wire.Kind) []byte {
		f := must.Get(wire.Read(mine, wire.MaxBody))(g.T)
		if f.Kind != want {
			g.Fatalf("a frame of kind %d", f.Kind)
		}
		return f.Body
	}
	read(wire.Ready)
	must.Do(g.T, wire.Write(mine, wire.Load, struct{}{}))
	read(wire.Loaded)
	must.Do(g.T, wire.Write(mine, wire.Call, wire.Order{}))
	return string(read(wire.Done))
}

// lies is WASM-06: the reports of a worker are checked against its possible actions. In the
// controls, a worker reports possible actions and is accepted.
func (g *guests) lies() {
	fuel := func(way string) func(g *guests) (bool, string) {
		return func(g *guests) (bool, string) {
			r, _ := g.open(g.badAs(way))
			report, err := r.Run(context.Background(), g.call(nothing))
			return err == nil && report.Usage.Fuel > 0, fmt.Sprintf("fuel %d, %v", report.Usage.Fuel, err)
		}
	}
	g.row("WASM-06 says that it used more fuel than there was", fuel("fuel"), fuel("honest"))
	asks := func(way string) func(g *guests) (bool, string) {
		return func(g *guests) (bool, string) {
			r, _ := g.open(g.badAs(way))
			host, c := &granting{}, g.call(nothing)
			c.Host, c.Limits.Wall = host, 500*time.Millisecond
			said := says(r, c)
			host.mu.Lock()
			defer host.mu.Unlock()
			return len(host.asked) > 0, fmt.Sprintf("%q, %s", host.asked, said)
		}
	}
	g.row("WASM-06 asks for what is no function", asks("question"), asks("known"))
}
