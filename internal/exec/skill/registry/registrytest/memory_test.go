package registrytest_test

import (
	"testing"

	"palyra/internal/exec/skill/registry"
	"palyra/internal/exec/skill/registry/registrytest"
)

func TestMemory(t *testing.T) {
	t.Parallel()
	registrytest.RunStore(t, func(*testing.T) registry.Store { return &registrytest.Memory{} })
}
