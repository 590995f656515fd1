package ladder

import (
	"context"

	"palyra/internal/core/config"
	"palyra/internal/exec/sandbox"
	"palyra/internal/exec/sandbox/jobobject"
	"palyra/internal/exec/sandbox/places"
)

// Steps is the one backend of Windows. It does not reach Tier C, which can be
// asked for all the same.
func Steps(p config.ProcessRunner, at places.Places) []sandbox.Step {
	return []sandbox.Step{{Rung: asked(p.Tier, "windows"), Open: func() (sandbox.Backend, error) {
		return jobobject.New(jobobject.Config{Enabled: p.Enabled, RunDir: at.Layers})
	}}}
}

// Settle does nothing: there are no control groups here.
func Settle(context.Context) error { return nil }

// Foresee says nothing, as Settle does nothing.
func Foresee(context.Context) (how string, err error) { return "", nil }
