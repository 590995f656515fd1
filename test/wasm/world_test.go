//go:build linux && cgo

package wasm

import (
	"bytes"
	"crypto/sha256"
	"log/slog"
	"testing"

	"github.com/bytecodealliance/wasmtime-go/v39"

	"palyra/internal/core/limit"
	"palyra/internal/core/must"
	"palyra/internal/exec/sandbox/bubblewrap"
	"palyra/internal/exec/sandbox/jail/jailtest"
	engine "palyra/internal/exec/wasm"
	"palyra/internal/exec/wasm/guest"
	wasmmodule "palyra/internal/exec/wasm/module"
	"palyra/test/wasm/wasmtest"
)

func TestMain(m *testing.M) { wasmtest.Main(m) }

// world is a runner with its own directory.
type world struct {
	*engine.Runner
	tierC *bubblewrap.Runner
	dir   string
	log   *bytes.Buffer
}

func newWorld(t testing.TB) world {
	t.Helper()
	w := world{tierC: wasmtest.TierC(t), dir: jailtest.Dir(t), log: &bytes.Buffer{}}
	w.Runner = must.Get(engine.Open(engine.Config{Sandbox: w.tierC, Worker: wasmtest.Worker, Dir: w.dir, Log: slog.New(slog.NewTextHandler(w.log, nil)), Limits: wasmtest.Limits()}))(t)
	t.Cleanup(w.Close)
	return w
}

// module checks a module, as palyrad does first.
func module(t testing.TB, text []byte) guest.Module {
	t.Helper()
	m := must.Get(wasmmodule.Check(text, wasmmodule.DefaultLimits()))(t)
	return guest.Module{Bytes: text, Digest: sha256.Sum256(text), Kind: m.Kind}
}

func compiled(t testing.TB, wat string) []byte {
	t.Helper()
	return must.Get(wasmtime.Wat2Wasm(wat))(t)
}

// user returns a caller who is responsible for their own calls.
func user(name string) limit.Who { return limit.Who{Owner: name, Principal: name} }

func call(m guest.Module, input string) guest.Call {
	return guest.Call{Caller: user("user:alice"), Module: m, Tool: "test", Input: []byte(input), Limits: wasmtest.Limits()}
}
