package must

import (
	"testing"
	"time"
)

// Patience is how long a test waits for a condition. A wait ends when its condition holds, so
// Patience only determines when a test gives up. It suits a load of 20 on two cores, where a
// second of work takes half a minute.
const Patience = 2 * time.Minute

// The pause between two checks doubles from firstPause to longestPause: most conditions hold soon,
// and a check may itself delay the condition.
const firstPause, longestPause = time.Millisecond, 64 * time.Millisecond

// Eventually polls ok until it returns true, and ends the test if that takes longer than
// Patience. The string that ok returns describes the current state, for the failure message.
func Eventually(t testing.TB, what string, ok func() (bool, string)) {
	t.Helper()
	last := ""
	if !Wait(func() (done bool) { done, last = ok(); return done }) {
		t.Fatalf("not within %v: %s; last seen: %s", Patience, what, last)
	}
}

// Wait polls ok until it returns true, and reports whether that happened within Patience. It is
// for code without a testing.TB; tests call Eventually.
func Wait(ok func() bool) bool {
	timeout := time.NewTimer(Patience)
	defer timeout.Stop()
	for pause := firstPause; !ok(); pause = min(2*pause, longestPause) {
		select {
		case <-timeout.C:
			return ok()
		case <-time.After(pause):
		}
	}
	return true
}

// Receive returns the next value of a channel, and ends the test if none arrives within Patience.
func Receive[T any](t testing.TB, what string, from <-chan T) (v T) {
	t.Helper()
	select {
	case v = <-from:
	case <-time.After(Patience):
		t.Fatalf("not within %v: %s", Patience, what)
	}
	return v
}
