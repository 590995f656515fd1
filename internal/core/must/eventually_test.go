package must

import (
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// recorder is a testing.TB that records the message of a failed test.
type recorder struct {
	testing.TB
	failure string
}

func (r *recorder) Helper() {}

func (r *recorder) Fatalf(format string, args ...any) { r.failure = fmt.Sprintf(format, args...) }

// TestEventually: a wait ends with its condition, and only after Patience without it.
func TestEventually(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct{ holds, least, most time.Duration }{
		"at once":    {0, 0, 0},
		"soon":       {time.Second, time.Second, time.Second + longestPause},
		"at the end": {Patience, Patience, Patience},
		"never":      {Patience + 1, Patience, Patience},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				began, r := time.Now(), &recorder{TB: t}
				Eventually(r, "a state", func() (bool, string) {
					took := time.Since(began)
					return took >= c.holds, took.String()
				})
				if took := time.Since(began); took < c.least || took > c.most {
					t.Errorf("it took %v, want from %v to %v", took, c.least, c.most)
				}
				if failed := c.holds > Patience; failed != strings.HasPrefix(r.failure, "not within 2m0s: a state; last seen: 2m0s") {
					t.Errorf("the failure is %q", r.failure)
				}
			})
		})
	}
}

// TestWait: the outcome is whether the condition held in time.
func TestWait(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		began := time.Now()
		if !Wait(func() bool { return time.Since(began) > time.Minute }) {
			t.Error("a condition that holds after a minute is missed")
		}
		if Wait(func() bool { return false }) {
			t.Error("a condition that never holds is reported")
		}
	})
}
