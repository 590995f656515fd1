package needs

import (
	"testing"
	"time"
)

// recorder is a testing.TB that records how the test ended.
type recorder struct {
	testing.TB
	skipped, failed bool
}

func (r *recorder) Helper()               {}
func (r *recorder) Skip(...any)           { r.skipped = true }
func (r *recorder) Skipf(string, ...any)  { r.skipped = true }
func (r *recorder) Fatalf(string, ...any) { r.failed = true }

// TestPrograms: a missing program fails a test, except in a run that starts none.
func TestPrograms(t *testing.T) {
	t.Parallel()
	r := &recorder{TB: t}
	if Programs(r, "no-such-program"); r.skipped != testing.Short() || !r.skipped && !r.failed {
		t.Errorf("skipped %v, failed %v", r.skipped, r.failed)
	}
}

// TestTime: a long test runs where the variable is set, and is skipped elsewhere.
//
// Not parallel: it sets a variable of the process.
func TestTime(t *testing.T) {
	for value, want := range map[string]bool{"": false, "1": !testing.Short()} {
		t.Setenv(longVariable, value)
		r := &recorder{TB: t}
		if Time(r, time.Hour); r.skipped == want || Long(time.Hour) != want {
			t.Errorf("%q: skipped %v", value, r.skipped)
		}
	}
}
