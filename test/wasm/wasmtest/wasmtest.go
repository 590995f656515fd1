//go:build linux

// Package wasmtest has the real WASM worker and a real sandbox for tests of guests.
package wasmtest

import (
	"fmt"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"palyra/internal/config"
	"palyra/internal/must"
	"palyra/internal/sandbox/bubblewrap"
	"palyra/internal/sandbox/jail/jailtest"
	"palyra/internal/sandbox/wasm"
	"palyra/internal/wasm/guest"
)

// Worker is the worker's program, which Main builds.
var Worker string

// Main builds the worker, runs a package's tests, and ends the process with their code.
func Main(m *testing.M) {
	code, err := run(m)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		code = 1
	}
	os.Exit(code)
}

func run(m *testing.M) (code int, err error) {
	dir, err := os.MkdirTemp("", "palyra-wasm")
	if err != nil {
		return 1, err
	}
	defer os.RemoveAll(dir)
	if Worker, err = Build(dir, "palyra/cmd/palyra-wasm", "1"); err != nil {
		return 1, err
	}
	return m.Run(), nil
}

// Build builds a program, with cgo or without, into a directory under the worker's name.
func Build(dir, program, cgo string) (path string, err error) {
	path = filepath.Join(dir, wasm.Worker)
	cmd := exec.Command("go", "build", "-trimpath", "-o", path, program)
	cmd.Env = append(os.Environ(), "CGO_ENABLED="+cgo)
	if out, err := cmd.CombinedOutput(); err != nil {
		return "", fmt.Errorf("building %s: %w\n%s", program, err, out)
	}
	return path, nil
}

// TierC is the sandbox of workers.
func TierC(t testing.TB) *bubblewrap.Runner {
	t.Helper()
	r := must.Get(bubblewrap.New(bubblewrap.Config{Enabled: true, LayerDir: jailtest.Dir(t), QuarantineDir: jailtest.Dir(t)}))(t)
	t.Cleanup(func() { must.Check(t, r.Close()) })
	return r
}

// Runner runs guests in real workers, with a directory of its own.
func Runner(t testing.TB) *wasm.Runner {
	t.Helper()
	r := must.Get(wasm.Open(wasm.Config{Sandbox: TierC(t), Worker: Worker, Dir: jailtest.Dir(t), Log: slog.New(slog.DiscardHandler)}))(t)
	t.Cleanup(r.Close)
	return r
}

// Limits are those of the settings as delivered.
func Limits() guest.Limits {
	c := config.Default().WASM
	return guest.Limits{
		Fuel: uint64(c.FuelBudget), MemoryBytes: c.MaxMemoryBytes, TableElements: c.MaxTableElements, Wall: c.TimeLimit(), Output: int(c.MaxOutputBytes),
	}
}
