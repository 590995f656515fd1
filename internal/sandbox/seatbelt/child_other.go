//go:build !darwin && !linux

package seatbelt

import (
	"context"

	"palyra/internal/reason"
	"palyra/internal/sandbox"
)

// Runner refuses: Seatbelt is a part of macOS.
type Runner struct{}

// New returns a Runner that refuses every run.
func New(Config) (*Runner, error) { return &Runner{}, nil }

// Child refuses.
func Child() error { return refusal() }

func refusal() *reason.Error {
	return reason.Errorf(reason.PlatformUnknown, "Seatbelt is a part of macOS")
}

// Run returns reason.PlatformUnknown.
func (*Runner) Run(context.Context, sandbox.Spec) (sandbox.Report, error) {
	return sandbox.Report{}, refusal()
}

// Probe says that there is nothing here.
func (*Runner) Probe(context.Context) sandbox.Status {
	return sandbox.Status{Problem: refusal().Message, Remedy: refusal().NextStep()}
}

// Examine has nothing to look at.
func (*Runner) Examine(context.Context) []sandbox.Examination { return nil }

// Sweep has nothing to clean.
func (*Runner) Sweep(context.Context) error { return nil }

// Close has nothing to release.
func (*Runner) Close() error { return nil }
