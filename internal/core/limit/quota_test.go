package limit_test

import (
	"testing"
	"testing/synctest"
	"time"

	"palyra/internal/core/limit"
	"palyra/internal/core/must"
)

var limits = limit.Quota{PerSecond: 10, Burst: 100, Day: 1000, InFlight: 60, InFlightAll: 90}

func book(t *testing.T, l limit.Quota) *limit.Book {
	t.Helper()
	return must.Get(limit.NewBook(l, nil))(t)
}

func refused(t *testing.T, b *limit.Book, who string, n int64, limit string, after time.Duration) {
	t.Helper()
	_, r := b.Begin(who, n)
	if r == nil || r.Limit != limit || r.RetryAfter != after {
		t.Errorf("%s with %d: %+v, want %s after %s", who, n, r, limit, after)
	}
}

func begin(t *testing.T, b *limit.Book, who string, n int64) func() {
	t.Helper()
	end, r := b.Begin(who, n)
	if r != nil {
		t.Fatalf("%s with %d: %v", who, n, r)
	}
	return end
}

func TestRate(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := book(t, limits)
		b.Charge("a", 150) // work in progress may exceed the quota
		refused(t, b, "a", 10, "rate", 6*time.Second)
		begin(t, b, "b", 10)() // control: another key
		time.Sleep(6 * time.Second)
		begin(t, b, "a", 10)()
		time.Sleep(time.Hour)
		begin(t, b, "a", 60)()
		refused(t, b, "a", 60, "rate", 2*time.Second) // a burst is limited to the saved amount
	})
}

func TestInFlight(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := book(t, limits)
		first := begin(t, b, "a", 50)
		refused(t, b, "a", 11, "in_flight", 0)
		begin(t, b, "b", 40)
		refused(t, b, "b", 1, "in_flight_all", 0)
		first()
		first()
		begin(t, b, "a", 50)
		refused(t, b, "b", 1, "in_flight_all", 0)
	})
}

// TestDailyQuota: the quota covers 24 hours and survives a restart.
func TestDailyQuota(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := book(t, limits)
		began := time.Now()
		b.Charge("a", 600)
		time.Sleep(90 * time.Minute)
		b.Charge("a", 390)
		time.Sleep(time.Hour)
		full := time.Until(time.Unix((limit.HourOf(began)+24)*3600, 0))
		refused(t, b, "a", 20, "day", full)
		kept := b.Changed()
		if len(kept) != 2 || len(b.Changed()) != 0 {
			t.Errorf("changed: %v", kept)
		}
		again := book(t, limits)
		again.Restore(kept)
		refused(t, again, "a", 20, "day", full)
		begin(t, again, "a", 5)()
		begin(t, book(t, limits), "a", 20)() // control: a book without the stored usage
		time.Sleep(full)
		begin(t, b, "a", 20)()
		begin(t, again, "a", 20)()
	})
}

func TestLimitsArePositive(t *testing.T) {
	t.Parallel()
	if _, err := limit.NewBook(limit.Quota{PerSecond: 1, Burst: 1, Day: 1, InFlight: 1}, nil); err == nil {
		t.Error("a quota of zero was accepted")
	}
}
