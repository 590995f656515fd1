//go:build linux

// Package wasmtest provides the real WASM worker and a real sandbox for tests of guests.
package wasmtest

import (
	"fmt"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"palyra/internal/core/config"
	"palyra/internal/core/must"
	"palyra/internal/exec/sandbox/bubblewrap"
	"palyra/internal/exec/sandbox/jail/jailtest"
	"palyra/internal/exec/wasm"
	"palyra/internal/exec/wasm/guest"
	"palyra/test/process"
)

// Worker is the path of the worker, which Main installs.
var Worker string

// Main installs the worker, runs a package's tests, and exits with their code.
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
	if err := process.Install(dir, wasm.Worker); err != nil {
		return 1, err
	}
	Worker = filepath.Join(dir, wasm.Worker)
	return m.Run(), nil
}

// Build builds a program that replaces the worker, under its name.
func Build(dir, program string) (path string, err error) {
	path = filepath.Join(dir, wasm.Worker)
	cmd := exec.Command("go", "build", "-trimpath", "-o", path, program)
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := cmd.CombinedOutput(); err != nil {
		return "", fmt.Errorf("building %s: %w\n%s", program, err, out)
	}
	return path, nil
}

// TierC returns the sandbox of workers.
func TierC(t testing.TB) *bubblewrap.Runner {
	t.Helper()
	r := must.Get(bubblewrap.New(bubblewrap.Config{Enabled: true, LayerDir: jailtest.Dir(t), QuarantineDir: jailtest.Dir(t)}))(t)
	t.Cleanup(func() { must.Check(t, r.Close()) })
	return r
}

// Runner returns a runner of guests in real workers, with its own directory.
func Runner(t testing.TB) *wasm.Runner {
	t.Helper()
	r := must.Get(wasm.Open(wasm.Config{Sandbox: TierC(t), Worker: Worker, Dir: jailtest.Dir(t), Log: slog.New(slog.DiscardHandler)}))(t)
	t.Cleanup(r.Close)
	return r
}

// Limits returns the default limits.
func Limits() guest.Limits {
	c := config.Default().WASM
	return guest.Limits{
		Fuel: uint64(c.FuelBudget), MemoryBytes: c.MaxMemoryBytes, TableElements: c.MaxTableElements, Wall: c.TimeLimit(), Output: int(c.MaxOutputBytes),
	}
}
