//go:build !linux

package process

import (
	"context"

	"palyra/internal/reason"
	"palyra/internal/sandbox"
)

// Runner refuses: Landlock and seccomp are Linux's.
type Runner struct{}

// New returns a Runner that refuses every run.
func New(Config) (*Runner, error) { return &Runner{}, nil }

// Run returns reason.PlatformUnknown.
func (*Runner) Run(context.Context, sandbox.Spec) (sandbox.Report, error) {
	return sandbox.Report{}, reason.Errorf(reason.PlatformUnknown, "programs run in Tier B on Linux only")
}

// Probe returns a Status that is not available.
func (*Runner) Probe(context.Context) sandbox.Status {
	return sandbox.Status{Problem: "programs run in Tier B on Linux only", Remedy: reason.Lookup(reason.PlatformUnknown).Remedy}
}

// Examine has nothing to look at.
func (*Runner) Examine(context.Context) []sandbox.Examination { return nil }

// Sweep has nothing to clean.
func (*Runner) Sweep(context.Context) error { return nil }

// Close has nothing to release.
func (*Runner) Close() error { return nil }
