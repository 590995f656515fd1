package sandbox

import (
	"testing"

	"palyra/internal/core/must"
	"palyra/internal/core/reason"
)

func TestLimits(t *testing.T) {
	t.Parallel()
	l := Limits{Output: 5}.OrDefault()
	if l.Output != 5 || l.Wall == 0 || l.Processes != 1024 || l.Memory != 2<<30 {
		t.Errorf("limits = %+v", l)
	}
	must.Check(t, (Limits{}).Check())
	for _, bad := range []Limits{{Wall: -1}, {Memory: 1}, {Processes: 2}, {OpenFiles: 3}, {Output: -5}, {Tmp: 1}} {
		if reason.Of(bad.Check()) != reason.InvalidInput {
			t.Errorf("%+v is accepted", bad)
		}
	}
}
