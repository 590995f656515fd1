package ladder

import (
	"palyra/internal/config"
	"palyra/internal/sandbox"
	"palyra/internal/sandbox/jobobject"
	"palyra/internal/sandbox/places"
)

// Steps is the one backend of Windows.
func Steps(p config.ProcessRunner, at places.Places) []sandbox.Step {
	return []sandbox.Step{{Rung: sandbox.JobObject, Open: func() (sandbox.Backend, error) {
		return jobobject.New(jobobject.Config{Enabled: p.Enabled, RunDir: at.Layers})
	}}}
}
