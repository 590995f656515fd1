package hook

import (
	"slices"
	"testing"

	"palyra/internal/tool"
)

// TestAgentsAreKnownToPolicies: policies may name every agent as a server, and no other.
func TestAgentsAreKnownToPolicies(t *testing.T) {
	var names []string
	for _, a := range Agents {
		names = append(names, a.Name)
	}
	if !slices.Equal(names, tool.HookedAgents) {
		t.Errorf("the table has %q, and policies know %q", names, tool.HookedAgents)
	}
}
