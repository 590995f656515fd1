package api

import (
	"slices"
	"testing"

	"palyra/internal/exec/sandbox"
)

// TestSandboxMessage: the status lists the layers that programs have, and those that are
// missing.
func TestSandboxMessage(t *testing.T) {
	t.Parallel()
	s := sandboxMessage(sandbox.Status{
		Available: true, Tier: sandbox.TierB, Rung: sandbox.UserNamespaces, Limits: "rlimit", Requested: []string{"a", "b"}, Layers: []string{"a"}, LandlockABI: 4,
	}, 2)
	if s.GetTier() != "b" || s.GetRung() != "user_namespaces" || !slices.Equal(s.GetMissingLayers(), []string{"b"}) || s.GetLandlockAbi() != 4 || s.GetPrepared() != 2 {
		t.Errorf("status %v", s)
	}
}
