package policyadmintest_test

import (
	"context"
	"testing"

	"palyra/internal/call/policyadmin/policyadmintest"
	"palyra/internal/core/event"
)

func TestMemory(t *testing.T) {
	t.Parallel()
	policyadmintest.RunStore(t, func(*testing.T) policyadmintest.Fixture {
		m := policyadmintest.NewMemory()
		return policyadmintest.Journaled(m, m.Events, func(_ context.Context, d event.Draft) error {
			m.Lock()
			defer m.Unlock()
			_, err := m.Write([]event.Draft{d}, nil)
			return err
		})
	})
}
