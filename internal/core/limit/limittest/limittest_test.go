package limittest_test

import (
	"testing"

	"palyra/internal/core/limit"
	"palyra/internal/core/limit/limittest"
)

func TestMemory(t *testing.T) {
	t.Parallel()
	limittest.RunStore(t, func(*testing.T) limit.Store { return &limittest.Memory{} })
}
