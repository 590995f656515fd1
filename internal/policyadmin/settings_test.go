package policyadmin

import (
	"testing"

	"palyra/internal/config"
)

// Policies and past snapshots compare with "none", whatever the configuration
// calls the network of the host.
func TestSnapshotKeepsTheWordNone(t *testing.T) {
	cfg := config.Default()
	cfg.ProcessRunner.EgressEnforcementMode = config.EgressUnrestricted
	if mode := snapshot(cfg, nil).ProcessRunner.EgressMode; mode != "none" {
		t.Errorf("the snapshot says %q", mode)
	}
}
