//go:build linux && cgo

package wasm

import (
	"bytes"
	"crypto/sha256"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/bytecodealliance/wasmtime-go/v39"

	"palyra/internal/must"
	"palyra/internal/sandbox/bubblewrap"
	engine "palyra/internal/sandbox/wasm"
	"palyra/internal/wasm/structure"
)

var program string

func TestMain(m *testing.M) {
	os.Exit(func() int {
		dir, err := os.MkdirTemp("", "palyra-wasm")
		if err != nil {
			panic(err)
		}
		defer os.RemoveAll(dir)
		if err := os.Chmod(dir, 0o755); err != nil {
			panic(err)
		}
		program = filepath.Join(dir, "palyra-wasm")
		cmd := exec.Command("go", "build", "-o", program, "palyra/cmd/palyra-wasm")
		cmd.Env = append(os.Environ(), "CGO_ENABLED=1")
		if out, err := cmd.CombinedOutput(); err != nil {
			panic(string(out))
		}
		return m.Run()
	}())
}

// world is a runner with a directory of its own.
type world struct {
	*engine.Runner
	tierC *bubblewrap.Runner
	dir   string
	log   *bytes.Buffer
}

func dirOf(t testing.TB) string {
	t.Helper()
	return must.Get(filepath.EvalSymlinks(t.TempDir()))(t)
}

func newWorld(t testing.TB) world {
	t.Helper()
	tierC := must.Get(bubblewrap.New(bubblewrap.Config{Enabled: true, LayerDir: dirOf(t), QuarantineDir: dirOf(t)}))(t)
	t.Cleanup(func() { must.Check(t, tierC.Close()) })
	w := world{tierC: tierC, dir: dirOf(t), log: &bytes.Buffer{}}
	w.Runner = must.Get(engine.Open(engine.Config{Sandbox: tierC, Worker: program, Dir: w.dir, Log: slog.New(slog.NewTextHandler(w.log, nil))}))(t)
	t.Cleanup(w.Close)
	return w
}

// module checks bytes, as palyrad does first.
func module(t testing.TB, text []byte) engine.Module {
	t.Helper()
	m := must.Get(structure.Check(text, structure.DefaultLimits()))(t)
	return engine.Module{Bytes: text, Digest: sha256.Sum256(text), Kind: m.Kind}
}

func compiled(t testing.TB, wat string) []byte {
	t.Helper()
	return must.Get(wasmtime.Wat2Wasm(wat))(t)
}

func call(m engine.Module, input string) engine.Call {
	return engine.Call{Owner: "user:alice", Module: m, Tool: "test", Input: []byte(input), Limits: engine.Default()}
}
