package policyadmin

import (
	"slices"
	"testing"

	"palyra/internal/core/access"
	"palyra/internal/core/config"
)

// Policies and past snapshots compare with "none", whatever the configuration
// calls the network of the host.
func TestSnapshotKeepsTheWordNone(t *testing.T) {
	t.Parallel()
	cfg := config.Default()
	cfg.ProcessRunner.EgressEnforcementMode = config.EgressUnrestricted
	if mode := snapshot(cfg, nil).ProcessRunner.EgressMode; mode != "none" {
		t.Errorf("the snapshot says %q", mode)
	}
}

// TestSurfacesOfThisGateway: nobody waits for a vote that cannot come. A console that is
// switched off has none, and a chat only where deciding there is switched on.
func TestSurfacesOfThisGateway(t *testing.T) {
	t.Parallel()
	cfg := config.Default()
	has := func(s access.Surface) bool { return slices.Contains(surfaces(cfg), s) }
	if !has(access.SurfaceConsole) || !has(access.SurfaceTUI) || has(access.SurfaceSlack) {
		t.Errorf("by default: %v", surfaces(cfg))
	}
	cfg.Listen.Console = ""
	cfg.Notify = []config.Notify{{Decide: true}}
	if has(access.SurfaceConsole) || !has(access.SurfaceSlack) {
		t.Errorf("without a console, with a chat: %v", surfaces(cfg))
	}
}
