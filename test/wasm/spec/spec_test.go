//go:build linux

package spec

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"

	"palyra/internal/core/limit"
	"palyra/internal/core/must"
	"palyra/internal/core/reason"
	engine "palyra/internal/exec/wasm"
	"palyra/internal/exec/wasm/guest"
	"palyra/internal/exec/wasm/module"
	"palyra/internal/exec/wasm/wire"
	"palyra/test/wasm/wasmtest"
)

func TestMain(m *testing.M) { wasmtest.Main(m) }

// limits returns the limits of skills, with all features that a manifest may request.
func limits() module.Limits {
	l := module.DefaultLimits()
	l.SIMD, l.MultiValue = true, true
	return l
}

func moduleOf(text []byte) guest.Module {
	return guest.Module{Bytes: text, Digest: sha256.Sum256(text), Kind: module.ABI, Features: wire.Features{SIMD: true, MultiValue: true}}
}

// tally counts the results of the modules and assertions of all scripts.
type tally struct {
	mu sync.Mutex
	n  map[string]int
}

func (y *tally) add(what string, n int) {
	y.mu.Lock()
	defer y.mu.Unlock()
	y.n[what] += n
}

// wants compares the counts with the numbers of this version's tests, so that none is skipped
// unnoticed.
func (y *tally) wants(t *testing.T, want map[string]int) {
	t.Helper()
	t.Log(y.n)
	if fmt.Sprint(y.n) != fmt.Sprint(want) {
		t.Errorf("counted %v, want %v", y.n, want)
	}
}

// TestValid: each module of WebAssembly 2.0 runs, and each of its assertions holds.
func TestValid(t *testing.T) {
	t.Parallel()
	r, y := wasmtest.Runner(t), &tally{n: map[string]int{}}
	t.Run("scripts", func(t *testing.T) {
		for _, s := range must.Get(scripts("v2"))(t) {
			t.Run(s.name, func(t *testing.T) {
				t.Parallel()
				for _, m := range s.subjects() {
					y.run(t, r, m)
				}
			})
		}
	})
	y.wants(t, map[string]int{
		"modules": 1506, "results": 45013, "traps": 1534, "assertions of a host's references": 213,
		"modules that trap": 27, "modules of several": 99, "modules too large": 1,
	})
}

func (y *tally) run(t *testing.T, r *engine.Runner, m *subject) {
	t.Helper()
	d, err := drive(must.Get(m.script.read(m.file))(t), m.asserted)
	if errors.Is(err, errElsewhere) || m.shared {
		y.add("modules of several", 1)
		return
	}
	if _, err := module.Check(d.bytes, limits()); err != nil {
		if reason.Of(err) != reason.InputTooLarge {
			t.Errorf("%s:%d is refused: %v", m.script.name, m.line, err)
		}
		y.add("modules too large", 1)
		return
	}
	order := guest.Call{Caller: limit.Who{Owner: "user:" + m.script.name, Principal: "user:" + m.script.name}, Module: moduleOf(d.bytes), Tool: "spec", Limits: wasmtest.Limits()}
	order.Limits.Fuel, order.Limits.TableElements = 1<<40, selected
	got, err := r.Run(t.Context(), order)
	switch {
	case m.traps:
		if reason.Of(err) != reason.ToolFailed {
			t.Errorf("%s:%d is instantiated: %v", m.script.name, m.line, err)
		}
		y.add("modules that trap", 1)
		return
	case err != nil:
		t.Errorf("%s:%d: %v", m.script.name, m.line, err)
	case len(got.Stdout.Head) > 0:
		c := d.asserted[len(got.Stdout.Head)-1]
		t.Errorf("%s:%d: %s of %s(%s) is not %s", m.script.name, c.Line, c.Type, c.Action.Field, texts(c.Action.Args), texts(c.Expected))
	}
	y.add("modules", 1)
	y.add("results", len(d.asserted)-len(d.traps))
	y.add("traps", len(d.traps))
	y.add("assertions of a host's references", d.left)
	for i, c := range d.traps {
		order.Limits.TableElements = selected + int64(i) + 1
		_, err := r.Run(t.Context(), order)
		if want := ending(c); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s:%d: %s(%s) ends with %v, want %q", m.script.name, c.Line, c.Action.Field, texts(c.Action.Args), err, want)
		}
	}
}

func texts(values []value) string {
	var list []string
	for _, v := range values {
		list = append(list, fmt.Sprintf("%s %s", v.Type, v.Text))
	}
	return strings.Join(list, ", ")
}

// ending returns palyrad's message for a trap; some scripts also name the element.
func ending(c command) string {
	if c.Type == "assert_exhaustion" {
		return "stack"
	}
	return strings.TrimRight(c.Text, " 0123456789")
}

// TestInvalid: malformed and invalid modules are refused, either by the check of their
// structure or by the engine's compiler. The engine receives all malformed modules and one in
// ten of those with a valid structure, because each one takes a process.
func TestInvalid(t *testing.T) {
	t.Parallel()
	r, y := wasmtest.Runner(t), &tally{n: map[string]int{}}
	t.Run("scripts", func(t *testing.T) {
		for _, s := range must.Get(scripts("v2"))(t) {
			t.Run(s.name, func(t *testing.T) {
				t.Parallel()
				n := 0
				for _, c := range s.Commands {
					if (c.Type == "assert_invalid" || c.Type == "assert_malformed") && c.ModuleType == "binary" {
						y.refuse(t, r, s, c, n%10 > 0)
						n++
					}
				}
			})
		}
	})
	y.wants(t, map[string]int{"by structure": 779, "by the engine": 278, "left": 1808})
}

func (y *tally) refuse(t *testing.T, r *engine.Runner, s *script, c command, skip bool) {
	t.Helper()
	text := must.Get(s.read(c.Filename))(t)
	if _, err := module.Check(text, limits()); err != nil && !ofAGuest(err) {
		y.add("by structure", 1)
		return
	}
	if skip && c.Type == "assert_invalid" {
		y.add("left", 1)
		return
	}
	if err := r.Prepare(t.Context(), moduleOf(text)); reason.Of(err) != reason.InvalidInput {
		t.Errorf("%s:%d (%s) is compiled: %v", s.name, c.Line, c.Text, err)
	}
	y.add("by the engine", 1)
}

// ofAGuest reports whether a refusal is about a requirement of guests that a plain module does
// not have.
func ofAGuest(err error) bool {
	for _, text := range []string{"neither a command", "does not export its memory", "are available", "is not a function; a guest"} {
		if strings.Contains(err.Error(), text) {
			return true
		}
	}
	return false
}
