package quotatest_test

import (
	"testing"

	"palyra/internal/core/limit"
	"palyra/internal/core/limit/quotatest"
)

func TestMemory(t *testing.T) {
	t.Parallel()
	quotatest.RunStore(t, func(*testing.T) limit.Store { return &quotatest.Memory{} })
}
