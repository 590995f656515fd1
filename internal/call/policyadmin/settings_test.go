package policyadmin

import (
	"slices"
	"testing"

	"palyra/internal/core/access"
	"palyra/internal/core/config"
)

// Policies and earlier snapshots compare with "none", independent of the name that the
// configuration uses for the network of the host.
func TestSnapshotStoresNetworkAsNone(t *testing.T) {
	t.Parallel()
	cfg := config.Default()
	cfg.ProcessRunner.EgressEnforcementMode = config.EgressUnrestricted
	if mode := snapshot(cfg, nil).ProcessRunner.EgressMode; mode != "none" {
		t.Errorf("the snapshot says %q", mode)
	}
}

// TestSurfacesOfThisGateway: no call waits for a vote from an unavailable surface. A disabled
// console is not a surface, and a chat is one only if answers from it are enabled.
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
