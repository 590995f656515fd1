//go:build !linux

package wasm

import (
	"context"
	"runtime"

	"palyra/internal/core/reason"
	"palyra/internal/exec/wasm/guest"
)

// Runner is there on Linux alone.
type Runner struct{}

// Open says that there is no Tier A here.
func Open(Config) (*Runner, error) { return nil, missing() }

// Run refuses every call.
func (*Runner) Run(context.Context, guest.Call) (guest.Report, error) {
	return guest.Report{}, missing()
}

// Prepare refuses every module.
func (*Runner) Prepare(context.Context, guest.Module) error { return missing() }

// Probe finds nothing.
func (*Runner) Probe(context.Context) (string, error) { return "", missing() }

// Close has nothing to end.
func (*Runner) Close() {}

func missing() error {
	return reason.Errorf(reason.PlatformUnknown, "WebAssembly guests need Tier C, which %s does not have", runtime.GOOS).
		WithRemedy("Run palyrad on Linux.")
}
