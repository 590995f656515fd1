package ladder

import (
	"context"

	"palyra/internal/core/config"
	"palyra/internal/exec/sandbox"
	"palyra/internal/exec/sandbox/places"
	"palyra/internal/exec/sandbox/seatbelt"
)

// Steps returns the only backend of macOS.
func Steps(p config.ProcessRunner, at places.Places) []sandbox.Step {
	return []sandbox.Step{{Rung: sandbox.Seatbelt, Open: func() (sandbox.Backend, error) {
		return seatbelt.New(seatbelt.Config{Enabled: p.Enabled, RunDir: at.Layers})
	}}}
}

// Settle does nothing, because macOS has no control groups.
func Settle(context.Context) error { return nil }

// Foresee returns nothing, because Settle does nothing.
func Foresee(context.Context) (how string, err error) { return "", nil }
