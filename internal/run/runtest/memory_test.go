package runtest_test

import (
	"testing"
	"time"

	"palyra/internal/run"
	"palyra/internal/run/runtest"
)

func TestMemory(t *testing.T) {
	t.Parallel()
	runtest.RunStore(t, func(_ *testing.T, now func() time.Time) run.Store {
		m := runtest.NewMemory()
		m.Now = now
		return m
	})
}
