package ladder

import (
	"context"

	"palyra/internal/core/config"
	"palyra/internal/exec/sandbox"
	"palyra/internal/exec/sandbox/jobobject"
	"palyra/internal/exec/sandbox/places"
)

// Steps returns the only backend of Windows. The settings may still request Tier C, which the
// backend does not provide.
func Steps(p config.ProcessRunner, at places.Places) []sandbox.Step {
	return []sandbox.Step{{Rung: asked(p.Tier, "windows"), Open: func() (sandbox.Backend, error) {
		return jobobject.New(jobobject.Config{Enabled: p.Enabled, RunDir: at.Layers})
	}}}
}

// Settle does nothing, because Windows has no control groups.
func Settle(context.Context) error { return nil }

// Foresee returns nothing, because Settle does nothing.
func Foresee(context.Context) (how string, err error) { return "", nil }
