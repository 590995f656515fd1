package ladder

import (
	"palyra/internal/config"
	"palyra/internal/sandbox"
	"palyra/internal/sandbox/bubblewrap"
	"palyra/internal/sandbox/places"
	"palyra/internal/sandbox/process"
)

// Steps are the backends of Linux that the settings allow, best first.
func Steps(p config.ProcessRunner, at places.Places) []sandbox.Step {
	tierC := sandbox.Step{Rung: sandbox.Full, Open: func() (sandbox.Backend, error) {
		c := bubblewrap.Config{
			Enabled: p.Enabled, FirstUser: p.UIDBase, Users: p.UIDCount, Prepared: p.Prepared, StrictExec: p.StrictExec,
			LayerDir: at.Layers, QuarantineDir: at.Quarantine,
		}
		c.Outward.Log = at.Log
		return bubblewrap.New(c)
	}}
	tierB := sandbox.Step{Rung: sandbox.UserNamespaces, Open: func() (sandbox.Backend, error) {
		c := process.Config{
			Enabled: p.Enabled, Lowest: Lowest(p), FirstUser: p.UIDBase, Users: p.UIDCount, StrictExec: p.StrictExec,
			LayerDir: at.Layers, QuarantineDir: at.Quarantine,
		}
		c.Outward.Log = at.Log
		return process.New(c)
	}}
	switch {
	case p.Tier == config.TierB:
		return []sandbox.Step{tierB}
	case p.Fallback != config.FallbackNone:
		return []sandbox.Step{tierC, tierB}
	}
	return []sandbox.Step{tierC}
}
