package daemon

import (
	"fmt"

	"palyra/internal/config"
	"palyra/internal/sandbox"
	"palyra/internal/sandbox/bubblewrap"
	sandboxdisk "palyra/internal/sandbox/disk"
	"palyra/internal/sandbox/origin"
	"palyra/internal/sandbox/process"
)

// mark names this daemon beside others, dead ones included.
func mark() string { return origin.Mark() }

// sweepPlaces removes the directories of daemons that were killed.
func sweepPlaces(stateDir string) error {
	if err := sandboxdisk.Sweep(layersDir(stateDir)); err != nil {
		return fmt.Errorf("removing what earlier runs left: %w", err)
	}
	return nil
}

// ladder are the backends of Linux that the settings allow, best first.
func ladder(cfg *config.Config, at places) []step {
	p := cfg.ProcessRunner
	tierC := step{sandbox.Full, func() (backend, error) {
		c := bubblewrap.Config{
			Enabled: p.Enabled, FirstUser: p.UIDBase, Users: p.UIDCount, Prepared: p.Prepared, StrictExec: p.StrictExec,
			LayerDir: at.layers, QuarantineDir: at.quarantine,
		}
		c.Outward.Log = at.log
		return bubblewrap.New(c)
	}}
	tierB := step{sandbox.UserNamespaces, func() (backend, error) {
		c := process.Config{
			Enabled: p.Enabled, Lowest: lowest(p), FirstUser: p.UIDBase, Users: p.UIDCount, StrictExec: p.StrictExec,
			LayerDir: at.layers, QuarantineDir: at.quarantine,
		}
		c.Outward.Log = at.log
		return process.New(c)
	}}
	switch {
	case p.Tier == config.TierB:
		return []step{tierB}
	case p.Fallback != config.FallbackNone:
		return []step{tierC, tierB}
	}
	return []step{tierC}
}
