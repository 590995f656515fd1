package approvaltest

import (
	"testing"

	"palyra/internal/core/event"
)

func TestMemory(t *testing.T) {
	t.Parallel()
	RunStore(t, func(*testing.T) Fixture {
		m := NewMemory()
		return Fixture{Store: m, Events: func() []event.Code {
			var codes []event.Code
			for _, d := range m.Events() {
				codes = append(codes, d.Code)
			}
			return codes
		}}
	})
}
