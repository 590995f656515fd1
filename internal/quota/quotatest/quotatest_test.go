package quotatest_test

import (
	"testing"

	"palyra/internal/quota"
	"palyra/internal/quota/quotatest"
)

func TestMemory(t *testing.T) {
	t.Parallel()
	quotatest.RunStore(t, func(*testing.T) quota.Store { return &quotatest.Memory{} })
}
