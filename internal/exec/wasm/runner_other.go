//go:build !linux

package wasm

import (
	"context"
	"runtime"

	"palyra/internal/core/reason"
	"palyra/internal/exec/sandbox"
	"palyra/internal/exec/wasm/guest"
)

// Runner is supported only on Linux.
type Runner struct{}

// Open returns an error: Tier A is not supported.
func Open(Config) (*Runner, error) { return nil, missing() }

// Run refuses every call.
func (*Runner) Run(context.Context, guest.Call) (sandbox.Report, error) {
	return sandbox.Report{}, missing()
}

// Prepare refuses every module.
func (*Runner) Prepare(context.Context, guest.Module) error { return missing() }

// Probe returns an error.
func (*Runner) Probe(context.Context) (string, error) { return "", missing() }

// Close does nothing.
func (*Runner) Close() {}

func missing() error {
	return reason.Errorf(reason.PlatformUnknown, "WebAssembly guests require Tier C, which is not available on %s", runtime.GOOS).
		WithRemedy("Run palyrad on Linux.")
}
