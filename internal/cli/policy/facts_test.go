package policy

import (
	"maps"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"

	"palyra/internal/call/policy"
	"palyra/internal/call/policy/policytests"
	"palyra/internal/cli/calls/ask"
	"palyra/internal/core/tool"
)

// TestFactTypes: every fact that the CLI accepts is a fact of policy.
func TestFactTypes(t *testing.T) {
	t.Parallel()
	values := map[ask.JSONType]string{"string": "x", "boolean": "true", "integer": "3", "array": "x"}
	for _, path := range slices.Sorted(maps.Keys(factTypes())) {
		text, err := factsFrom([]string{path + "=" + values[factTypes()[path].Type]})
		if err != nil {
			t.Errorf("%s: %v", path, err)
			continue
		}
		r := policy.Request{Capabilities: []tool.Capability{}}
		before := r
		if err := policytests.ReplaceFacts(&r, text); err != nil || cmp.Equal(before, r) {
			t.Errorf("%s: %v changed nothing: %v", path, string(text), err)
		}
	}
}
