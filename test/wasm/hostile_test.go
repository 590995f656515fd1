//go:build linux && cgo

package wasm

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"palyra/internal/core/must"
	"palyra/internal/core/reason"
	"palyra/internal/core/tool"
	"palyra/internal/exec/wasm/guest"
	wasmmodule "palyra/internal/exec/wasm/module"
)

// command returns a module with a memory and a _start with the given body.
func command(head, body string) string {
	return fmt.Sprintf("(module %s (memory (export \"memory\") 1) (func (export \"_start\") %s))", head, body)
}

const (
	wasi    = `(import "wasi_snapshot_preview1" `
	handles = `(import "palyra:plugins/host-capabilities@0.1.0" `
	write   = wasi + `"fd_write" (func $write (param i32 i32 i32 i32) (result i32)))`
	open    = handles + `"grant_open" (func $open (param i32 i32 i32) (result i32)))`
)

// hostile maps names to modules that fail, each in a different way.
var hostile = map[string]struct {
	wat string
	// fuel and wall replace the defaults.
	fuel uint64
	wall time.Duration
	code reason.Code
	says string
}{
	"infinite loop":  {wat: command("", `(loop $l (br $l))`), code: reason.QuotaExceeded, says: "fuel"},
	"loop on a time": {wat: command("", `(loop $l (br $l))`), fuel: 1 << 50, wall: 200 * time.Millisecond, code: reason.TimedOut, says: "longer than 200ms"},
	"deep recursion": {wat: `(module (memory (export "memory") 1) (func $f (export "_start") (call $f)))`, fuel: 1 << 40, code: reason.QuotaExceeded, says: "stack"},
	"memory bomb": {wat: command("", `(loop $l (br_if $l (i32.ne (memory.grow (i32.const 16)) (i32.const -1)))) unreachable`),
		code: reason.QuotaExceeded, says: "memory"},
	"table bomb": {wat: `(module (memory (export "memory") 1) (table $t (export "table") 1 funcref)
		(func (export "_start") (loop $l (br_if $l (i32.ne (table.grow $t (ref.null func) (i32.const 1000)) (i32.const -1)))) unreachable))`,
		code: reason.QuotaExceeded, says: "table"},
	"bulk memory burner": {wat: `(module (memory (export "memory") 1024) (func (export "_start")
		(loop $l (memory.fill (i32.const 0) (i32.const 1) (i32.const 67108864)) (br $l))))`,
		fuel: 1 << 50, wall: 300 * time.Millisecond, code: reason.TimedOut, says: "longer than"},
	"bulk memory copier": {wat: `(module (memory (export "memory") 1024) (func (export "_start")
		(loop $l (memory.copy (i32.const 0) (i32.const 1) (i32.const 67108863)) (br $l))))`,
		fuel: 1 << 50, wall: 300 * time.Millisecond, code: reason.TimedOut, says: "longer than"},
	"bulk table burner": {wat: `(module (memory (export "memory") 1) (table $t 100000 funcref) (func (export "_start")
		(loop $l (table.fill $t (i32.const 0) (ref.null func) (i32.const 100000)) (br $l))))`,
		fuel: 1 << 50, wall: 300 * time.Millisecond, code: reason.TimedOut, says: "longer than"},
	"question flood": {wat: command(handles+`"log" (func $log (param i32 i32 i32)))`, `(loop $l (call $log (i32.const 0) (i32.const 0) (i32.const 65536)) (br $l))`),
		fuel: 1 << 50, wall: 300 * time.Millisecond, code: reason.TimedOut, says: "longer than"},
	"handle guessing": {wat: command(guesses, guessing), code: reason.ToolFailed, says: "divide"},
	"start function traps": {wat: `(module (memory (export "memory") 1) (func $s unreachable) (start $s) (func (export "_start")))`,
		code: reason.ToolFailed, says: "unreachable"},
	"division by zero":   {wat: command("", `(drop (i32.div_u (i32.const 1) (i32.const 0)))`), code: reason.ToolFailed, says: "trapped"},
	"out of its memory":  {wat: command("", `(drop (i32.load (i32.const 65533)))`), code: reason.ToolFailed, says: "out of bounds"},
	"exit code":          {wat: command(wasi+`"proc_exit" (func $exit (param i32)))`, `(call $exit (i32.const 7))`), code: reason.ToolFailed, says: "code 7"},
	"output flood":       {wat: command(write, flood), fuel: 1 << 40, code: reason.QuotaExceeded, says: "output"},
	"result outside":     {wat: abi(`(i64.const 0x7fffffff00000010)`), code: reason.ToolFailed, says: "outside of the memory"},
	"result too long":    {wat: abi(`(i64.const 0x7fffffff)`), code: reason.QuotaExceeded, says: "output"},
	"alloc outside":      {wat: strings.Replace(abi(`(i64.const 0)`), "(i32.const 1024)", "(i32.const -4)", 1), code: reason.ToolFailed, says: "palyra_alloc"},
	"invalid code":       {wat: "", code: reason.InvalidInput, says: "the module is not valid"},
	"a pointer to wasi":  {wat: command(write, `(if (i32.ne (call $write (i32.const 1) (i32.const -8) (i32.const 1) (i32.const 0)) (i32.const 21)) (then unreachable)) (drop (i32.div_u (i32.const 1) (i32.const 0)))`), code: reason.ToolFailed, says: "divide"},
	"a huge list":        {wat: command(write, `(if (i32.ne (call $write (i32.const 1) (i32.const 0) (i32.const -1) (i32.const 0)) (i32.const 28)) (then (drop (i32.div_u (i32.const 1) (i32.const 0))))) unreachable`), code: reason.ToolFailed, says: "unreachable"},
	"a handle's pointer": {wat: command(open, `(if (i32.ne (call $open (i32.const 1) (i32.const -1) (i32.const -1)) (i32.const -1)) (then (drop (i32.div_u (i32.const 1) (i32.const 0))))) unreachable`), code: reason.ToolFailed, says: "unreachable"},
}

// guesses are the functions that take a handle. guessing tries the first thousand handles and
// some unusual ones with each function. A successful call ends in unreachable; if all return
// -1, the guest ends in a division by zero.
const (
	guesses = handles + `"secret_read" (func $secret (param i32) (result i32)))` + handles + `"http_request" (func $http (param i32 i32 i32) (result i32)))` +
		handles + `"storage_get" (func $get (param i32 i32 i32) (result i32)))` + handles + `"channel_send" (func $send (param i32 i32 i32) (result i32)))` +
		handles + `"grant_name" (func $name (param i32) (result i32)))` + handles + `"grant_at" (func $at (param i32 i32) (result i32)))`
	guessing = `(local $h i32) (local $n i32)
		(loop $l
			(local.set $h (i32.mul (local.get $n) (select (i32.const 1) (i32.const 1664525) (i32.lt_u (local.get $n) (i32.const 1000)))))
			(if (i32.ne (i32.const -1) (call $secret (local.get $h))) (then unreachable))
			(if (i32.ne (i32.const -1) (call $http (local.get $h) (i32.const 0) (i32.const 2))) (then unreachable))
			(if (i32.ne (i32.const -1) (call $get (local.get $h) (i32.const 0) (i32.const 2))) (then unreachable))
			(if (i32.ne (i32.const -1) (call $send (local.get $h) (i32.const 0) (i32.const 2))) (then unreachable))
			(if (i32.ne (i32.const -1) (call $name (local.get $h))) (then unreachable))
			(if (i32.ne (i32.const -1) (call $at (i32.rem_u (local.get $n) (i32.const 6)) (local.get $h))) (then unreachable))
			(br_if $l (i32.lt_u (local.tee $n (i32.add (local.get $n) (i32.const 1))) (i32.const 1100))))
		(drop (i32.div_u (i32.const 1) (i32.const 0)))`
)

const flood = `(i32.store (i32.const 4) (i32.const 65536)) (loop $l (drop (call $write (i32.const 2) (i32.const 0) (i32.const 1) (i32.const 16))) (br $l))`

// abi returns a module of the palyra ABI whose run returns value.
func abi(value string) string {
	return `(module (memory (export "memory") 1) (func (export "palyra_alloc") (param i32) (result i32) (i32.const 1024))
		(func (export "run") (param i32 i32) (result i64) ` + value + `))`
}

// invalid returns a command with a valid structure and invalid code: it adds without operands.
func invalid(t *testing.T) []byte {
	t.Helper()
	good := compiled(t, command("", "(drop (i32.add (i32.const 1) (i32.const 2)))"))
	bad := strings.Replace(string(good), "\x41\x01\x41\x02\x6a\x1a", "\x6a\x6a\x6a\x6a\x6a\x1a", 1)
	if bad == string(good) {
		t.Fatal("the code to change was not found")
	}
	return []byte(bad)
}

// TestHostile: each module ends with its expected error, and afterwards a valid guest runs.
func TestHostile(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	well := module(t, compiled(t, echo))
	for name, c := range hostile {
		t.Run(name, func(t *testing.T) {
			text := invalid
			if c.wat != "" {
				text = func(t *testing.T) []byte { return compiled(t, c.wat) }
			}
			order := call(module(t, text(t)), `{}`)
			if c.fuel > 0 {
				order.Limits.Fuel = c.fuel
			}
			if c.wall > 0 {
				order.Limits.Wall = c.wall
			}
			r, err := w.Run(t.Context(), order)
			if reason.Of(err) != c.code || !strings.Contains(err.Error(), c.says) {
				t.Errorf("%v (%s), want %q (%s); it logged %.100q", err, reason.Of(err), c.says, c.code, r.Stderr.Head)
			}
			if r.Usage.PeakMemory > order.Limits.MemoryBytes {
				t.Errorf("it got %d bytes of memory, and may have %d", r.Usage.PeakMemory, order.Limits.MemoryBytes)
			}
			after := must.Get(w.Run(t.Context(), call(well, "well")))(t)
			if string(after.Stdout.Head) != "well" {
				t.Errorf("afterwards: %q", after.Stdout.Head)
			}
		})
	}
}

// TestRefusedBeforeTheEngine: modules with other proposals or other imports are refused because
// of their structure.
func TestRefusedBeforeTheEngine(t *testing.T) {
	t.Parallel()
	imports := strings.Repeat(wasi+`"sched_yield" (func (result i32)))`, 1001)
	for name, c := range map[string]struct{ wat, says string }{
		"threads":             {`(module (memory (export "memory") 1 1 shared) (func (export "_start")))`, "threads"},
		"memory64":            {`(module (memory (export "memory") i64 1) (func (export "_start")))`, "memory64"},
		"tail call":           {command("", "return_call 0"), "tail calls"},
		"SIMD":                {command("", "(drop (v128.const i32x4 0 0 0 0))"), "SIMD"},
		"several memories":    {`(module (memory (export "memory") 1) (memory 1) (func (export "_start")))`, "several memories"},
		"garbage collection":  {`(module (type (struct)) (memory (export "memory") 1) (func (export "_start")))`, "garbage"},
		"exceptions":          {`(module (tag) (memory (export "memory") 1) (func (export "_start")))`, "exceptions"},
		"function references": {`(module (type $t (func)) (memory (export "memory") 1) (func (export "_start") (call_ref $t (ref.null $t))))`, "not allowed"},
		"relaxed SIMD":        {command("", "(drop (i8x16.relaxed_swizzle (v128.const i32x4 0 0 0 0) (v128.const i32x4 0 0 0 0)))"), "SIMD"},
		"multi-value":         {`(module (memory (export "memory") 1) (func (result i32 i32) (i32.const 1) (i32.const 2)) (func (export "_start")))`, "multi-value"},
		"component model":     {`(component)`, "component model"},
		"page sizes":          {`(module (memory (export "memory") 1 (pagesize 1)) (func (export "_start")))`, "not allowed"},
		"wide arithmetic":     {command("", "(i64.add128 (i64.const 0) (i64.const 0) (i64.const 0) (i64.const 0)) drop drop"), "is unknown"},
		"continuations":       {`(module (type $f (func)) (type $c (cont $f)) (memory (export "memory") 1) (func (export "_start")))`, ""},
		"huge imports":        {command(imports, ""), "1001 imports"},
		"unknown module":      {command(`(import "env" "system" (func))`, ""), `from "env"`},
		"unknown function":    {command(wasi+`"exec" (func))`, ""), "no such function"},
		"imported memory":     {`(module ` + wasi + `"memory" (memory 1)) (func (export "_start")))`, "not a function"},
	} {
		t.Run(name, func(t *testing.T) {
			if _, err := wasmmodule.Check(compiled(t, c.wat), wasmmodule.DefaultLimits()); err == nil || !strings.Contains(err.Error(), c.says) {
				t.Errorf("%v, want %q", err, c.says)
			}
		})
	}
}

// TestSameFuel: the same module and input use the same fuel in 100 runs, also when it reads
// the clock and randomness without a grant.
func TestSameFuel(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	m := module(t, compiled(t, command(wasi+`"random_get" (func $random (param i32 i32) (result i32)))`+wasi+`"clock_time_get" (func $clock (param i32 i64 i32) (result i32)))`+write, `
		(drop (call $random (i32.const 64) (i32.const 1)))
		(drop (call $clock (i32.const 0) (i64.const 0) (i32.const 72)))
		(loop $l (i32.store8 (i32.const 64) (i32.sub (i32.load8_u (i32.const 64)) (i32.const 1))) (br_if $l (i32.load8_u (i32.const 64))))
		(i32.store (i32.const 0) (i32.const 72)) (i32.store (i32.const 4) (i32.const 8))
		(drop (call $write (i32.const 1) (i32.const 0) (i32.const 1) (i32.const 16)))`)))
	first := must.Get(w.Run(t.Context(), call(m, "")))(t)
	for range 100 {
		if r := must.Get(w.Run(t.Context(), call(m, "")))(t); r.Usage.Fuel != first.Usage.Fuel || string(r.Stdout.Head) != string(first.Stdout.Head) {
			t.Fatalf("%d and %x, first %d and %x", r.Usage.Fuel, r.Stdout.Head, first.Usage.Fuel, first.Stdout.Head)
		}
	}
	other := call(m, "")
	other.Seed = [32]byte{1}
	if r := must.Get(w.Run(t.Context(), other))(t); r.Usage.Fuel == first.Usage.Fuel {
		t.Error("another seed gives the same randomness")
	}
	real := call(m, "")
	real.Clock, real.Random = true, true
	if r := must.Get(w.Run(t.Context(), real))(t); string(r.Stdout.Head) == string(first.Stdout.Head) || !slices.Equal(r.Grants, []tool.GrantUse{{Kind: "clock", Name: "clock", Uses: 1}, {Kind: "random", Name: "random", Uses: 1}}) {
		t.Errorf("with grants: %x, %+v", r.Stdout.Head, r)
	}
}

// answering is a host that records the requests.
type answering struct {
	mu    sync.Mutex
	asked []string
	do    func(function string, numbers []int32, first, second []byte) (guest.Answer, error)
}

func (a *answering) Answer(_ context.Context, function string, numbers []int32, first, second []byte) (guest.Answer, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.asked = append(a.asked, fmt.Sprint(function, numbers, string(first), string(second)))
	return a.do(function, numbers, first, second)
}

// TestHandles: a guest's request reaches its host unchanged, and so does the host's answer.
// Without a host nothing is granted.
func TestHandles(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	m := module(t, compiled(t, `(module `+open+handles+`"storage_put" (func $put (param i32 i32 i32 i32 i32) (result i32)))`+handles+`"result_read" (func $result (param i32 i32) (result i32)))
		(memory (export "memory") 1) (data (i32.const 16) "notebookkeyvalue")
		(func (export "palyra_alloc") (param i32) (result i32) (i32.const 1024))
		(func (export "run") (param i32 i32) (result i64)
			(if (i32.ne (call $open (i32.const 3) (i32.const 16) (i32.const 8)) (i32.const 5)) (then (return (i64.const 0x0000001000000003))))
			(drop (call $put (i32.const 5) (i32.const 24) (i32.const 3) (i32.const 27) (i32.const 5)))
			(i64.or (i64.const 0x0000080000000000) (i64.extend_i32_u (call $result (i32.const 2048) (i32.const 100)))) ))`))
	host := &answering{do: func(function string, _ []int32, _, _ []byte) (guest.Answer, error) {
		if function == "grant_open" {
			return guest.Answer{Value: 5}, nil
		}
		return guest.Answer{Value: 6, Result: []byte("stored")}, nil
	}}
	order := call(m, "x")
	order.Host = host
	r := must.Get(w.Run(t.Context(), order))(t)
	if string(r.Stdout.Head) != "stored" || strings.Join(host.asked, "; ") != "grant_open[3]notebook; storage_put[5]keyvalue" {
		t.Errorf("%q after %q", r.Stdout.Head, host.asked)
	}
	order.Host = nil
	if r := must.Get(w.Run(t.Context(), order))(t); string(r.Stdout.Head) != "not" {
		t.Errorf("without a host: %q", r.Stdout.Head)
	}
	// If a host ends the call, the worker ends; the next call has another worker.
	order.Host = &answering{do: func(string, []int32, []byte, []byte) (guest.Answer, error) {
		return guest.Answer{}, reason.Errorf(reason.BudgetExceeded, "enough")
	}}
	if _, err := w.Run(t.Context(), order); reason.Of(err) != reason.BudgetExceeded {
		t.Errorf("a host that refuses: %v", err)
	}
	order.Host = host
	if r := must.Get(w.Run(t.Context(), order))(t); string(r.Stdout.Head) != "stored" {
		t.Errorf("afterwards: %q", r.Stdout.Head)
	}
}

// TestManyAtOnce: concurrent calls of several principals, more than the number of workers, all
// succeed.
func TestManyAtOnce(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	m := module(t, compiled(t, echo))
	var group sync.WaitGroup
	for i := range 24 {
		group.Go(func() {
			order := call(m, fmt.Sprint("input ", i))
			order.Caller = user(fmt.Sprint("user:", i%3))
			r, err := w.Run(t.Context(), order)
			if err != nil || string(r.Stdout.Head) != fmt.Sprint("input ", i) {
				t.Errorf("%d: %q, %v", i, r.Stdout.Head, err)
			}
		})
	}
	group.Wait()
}

// TestCancelled: a call whose caller disconnects ends at once, together with its worker.
func TestCancelled(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	m := module(t, compiled(t, command("", `(loop $l (br $l))`)))
	order := call(m, "")
	order.Limits.Fuel = 1 << 60
	ctx, cancel := context.WithCancel(t.Context())
	host := time.AfterFunc(100*time.Millisecond, cancel)
	defer host.Stop()
	began := time.Now() // the guest has enough fuel to loop for years
	if _, err := w.Run(ctx, order); reason.Of(err) != reason.Cancelled || time.Since(began) > must.Patience {
		t.Errorf("%v after %s", err, time.Since(began))
	}
}
