package limit

import (
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"palyra/internal/core/must"
)

const read Class = "read"

func limiter(t *testing.T, l Rates) *Limiter {
	t.Helper()
	return must.Get(NewLimiter(map[Class]Rates{read: l}))(t)
}

// spend requests until refused and returns the number of permitted requests.
func spend(l *Limiter, keys ...string) int {
	for n := 0; ; n++ {
		if ok, _ := l.Allow(read, keys...); !ok {
			return n
		}
	}
}

func TestBurstThenRate(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		l := limiter(t, Rates{Each: Limit{PerSecond: 2, Burst: 3}, Global: Limit{PerSecond: 100, Burst: 100}})
		if n := spend(l, "a"); n != 3 {
			t.Fatalf("served %d at once, want the burst of 3", n)
		}
		ok, wait := l.Allow(read, "a")
		if ok || wait != 500*time.Millisecond {
			t.Fatalf("Allow = %v, %v; want a wait of 500ms", ok, wait)
		}
		time.Sleep(wait - 1)
		if ok, _ := l.Allow(read, "a"); ok {
			t.Error("served before the time that was named")
		}
		time.Sleep(time.Nanosecond)
		if ok, _ := l.Allow(read, "a"); !ok {
			t.Error("not served after the time that was named")
		}
		time.Sleep(time.Hour)
		if n := spend(l, "a"); n != 3 {
			t.Errorf("served %d after an hour, want no more than the burst of 3", n)
		}
	})
}

func TestKeysAndClassesAreIndependent(t *testing.T) {
	t.Parallel()
	lim := Rates{Each: Limit{PerSecond: 1, Burst: 2}, Global: Limit{PerSecond: 100, Burst: 100}}
	l := must.Get(NewLimiter(map[Class]Rates{read: lim, "decide": lim}))(t)
	spend(l, "a")
	if ok, _ := l.Allow(read, "b"); !ok {
		t.Error("one key's requests count against another's")
	}
	if ok, _ := l.Allow("decide", "a"); !ok {
		t.Error("one class's requests count against another's")
	}
}

func TestGlobalBucket(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		l := limiter(t, Rates{Each: Limit{PerSecond: 1, Burst: 2}, Global: Limit{PerSecond: 10, Burst: 5}})
		served := 0
		for i := range 50 {
			if ok, _ := l.Allow(read, fmt.Sprint(i)); ok {
				served++
			}
		}
		if served != 5 {
			t.Errorf("50 keys were served %d times, want the shared burst of 5", served)
		}
		if ok, wait := l.Allow(read, "new"); ok || wait != 100*time.Millisecond {
			t.Errorf("Allow = %v, %v; want a wait of 100ms", ok, wait)
		}
	})
}

// A request counts against both its principal and its address, or against neither.
func TestTwoKeys(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		l := limiter(t, Rates{Each: Limit{PerSecond: 1, Burst: 3}, Global: Limit{PerSecond: 100, Burst: 100}})
		if n := spend(l, "user:a", "192.0.2.1"); n != 3 {
			t.Fatalf("served %d, want 3", n)
		}
		// The address has no tokens left, so user:b must not be charged.
		for range 10 {
			if ok, _ := l.Allow(read, "user:b", "192.0.2.1"); ok {
				t.Fatal("served though the address is used up")
			}
		}
		if n := spend(l, "user:b", "192.0.2.2"); n != 3 {
			t.Errorf("user:b was served %d times, want 3: refusals took tokens", n)
		}
	})
}

// A caller over its own limit must not use up the shared limit.
func TestFloodAffectsOnlyItsKey(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		l := limiter(t, Rates{Each: Limit{PerSecond: 1, Burst: 2}, Global: Limit{PerSecond: 2, Burst: 4}})
		for range 1000 {
			l.Allow(read, "flood")
		}
		if ok, _ := l.Allow(read, "other"); !ok {
			t.Error("refused requests used the shared bucket up")
		}
		if l.Len() != 2 {
			t.Errorf("%d buckets, want 2", l.Len())
		}
	})
}

func TestUnknownClassIsRefused(t *testing.T) {
	t.Parallel()
	l := limiter(t, Rates{Each: Limit{PerSecond: 1, Burst: 2}, Global: Limit{PerSecond: 2, Burst: 4}})
	for name, keys := range map[Class][]string{"unheard": {"a"}, read: nil} {
		if ok, _ := l.Allow(name, keys...); ok {
			t.Errorf("class %q with keys %q was served", name, keys)
		}
	}
	if ok, _ := l.Allow(read, "a", "b", "c"); ok {
		t.Error("three keys were served")
	}
	for _, bad := range []Rates{
		{},
		{Each: Limit{PerSecond: 1, Burst: 1}},
		{Each: Limit{PerSecond: -1, Burst: 1}, Global: Limit{PerSecond: 1, Burst: 1}},
		{Each: Limit{PerSecond: 2, Burst: 2}, Global: Limit{PerSecond: 1, Burst: 2}},
	} {
		if _, err := NewLimiter(map[Class]Rates{read: bad}); err == nil {
			t.Errorf("New takes %+v", bad)
		}
	}
}

// attack uses up a bucket, then sends as many other keys as the shared bucket permits for a
// while. It returns the maximum number of stored buckets, and how often the first key was
// permitted in total.
func attack(l *Limiter, seconds int) (most, served int) {
	served = spend(l, "attacker")
	for range seconds * 10 {
		if ok, _ := l.Allow(read, "attacker"); ok {
			served++
		}
		for i := 0; ; i++ {
			if ok, _ := l.Allow(read, fmt.Sprint(time.Now(), i), fmt.Sprint("address", time.Now(), i)); !ok {
				break
			}
		}
		most = max(most, l.Len())
		time.Sleep(100 * time.Millisecond)
	}
	return most, served
}

// TestEvictionResetsNothing floods the limiter with keys. Memory stays within the bound, the
// flooding key gets no new bucket, and other keys are not refused for lack of room.
func TestEvictionResetsNothing(t *testing.T) {
	t.Parallel()
	lim := Rates{Each: Limit{PerSecond: 0.1, Burst: 5}, Global: Limit{PerSecond: 50, Burst: 100}}
	synctest.Test(t, func(t *testing.T) {
		l := limiter(t, lim)
		most, served := attack(l, 120)
		if bound := capacity(lim); most > bound {
			t.Errorf("%d buckets were held, more than %d", most, bound)
		}
		if allowed := 5 + 12; served > allowed {
			t.Errorf("the flooder was served %d times in 2 minutes, want at most %d", served, allowed)
		}
		time.Sleep(time.Second)
		if ok, _ := l.Allow(read, "newcomer"); !ok {
			t.Error("a new key finds no room")
		}
	})
	// Control: if a table is too small for the shared limit and drops the least recent bucket
	// although it is not full, the flood succeeds.
	synctest.Test(t, func(t *testing.T) {
		l := limiter(t, lim)
		stop := forgetful(l, 8)
		_, served := attack(l, 120)
		stop()
		if served <= 5+12 {
			t.Errorf("the flooder was served %d times though buckets were dropped; the test shows nothing", served)
		}
	})
}

// forgetful makes a limiter drop buckets beyond n whether or not they are full, like a plain
// LRU table.
func forgetful(l *Limiter, n int) (stop func()) {
	done := make(chan struct{})
	var wg sync.WaitGroup
	wg.Go(func() {
		for {
			select {
			case <-done:
				return
			case <-time.After(50 * time.Millisecond):
			}
			c := l.classes[read]
			c.mu.Lock()
			for len(c.byKey) > n {
				c.forget(c.ring.newer)
			}
			c.mu.Unlock()
		}
	})
	return func() { close(done); wg.Wait() }
}

// At its capacity, a class refuses new keys instead of dropping buckets.
func TestHardCapFailsClosed(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		l := limiter(t, Rates{Each: Limit{PerSecond: 1, Burst: 2}, Global: Limit{PerSecond: 1000, Burst: 1000}})
		l.classes[read].capacity = 3
		for i := range 3 {
			l.Allow(read, fmt.Sprint(i))
		}
		if ok, wait := l.Allow(read, "late"); ok || wait != time.Second {
			t.Errorf("Allow = %v, %v; want a refusal until a bucket is full, 1s", ok, wait)
		}
		time.Sleep(time.Second)
		if ok, _ := l.Allow(read, "late"); !ok {
			t.Error("no room though the oldest bucket is full")
		}
	})
}

func TestConcurrentUse(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		l := limiter(t, Rates{Each: Limit{PerSecond: 1, Burst: 50}, Global: Limit{PerSecond: 1000, Burst: 1000}})
		var served atomic.Int64
		var wg sync.WaitGroup
		for range 16 {
			wg.Go(func() {
				for range 100 {
					if ok, _ := l.Allow(read, "a", "b"); ok {
						served.Add(1)
					}
				}
			})
		}
		wg.Wait()
		if served.Load() != 50 {
			t.Errorf("served %d at once, want the burst of 50", served.Load())
		}
	})
}

// TestRefusalsAreCounted: refusals are counted by class, with the time of the last one.
func TestRefusalsAreCounted(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		lim := Rates{Each: Limit{PerSecond: 1, Burst: 2}, Global: Limit{PerSecond: 100, Burst: 100}}
		l := must.Get(NewLimiter(map[Class]Rates{read: lim, "decide": lim}))(t)
		if all := l.Refused(); len(all) != 2 || all[read] != (Refusals{}) {
			t.Errorf("before any request: %v", all)
		}
		for range 5 {
			l.Allow(read, "a")
		}
		at := time.Now()
		time.Sleep(time.Hour)
		l.Allow(read, "a")
		if all := l.Refused(); all[read] != (Refusals{Count: 3, Last: at}) || all["decide"] != (Refusals{}) {
			t.Errorf("after 5 requests of which 2 were served: %v", all)
		}
	})
}

// TestCheckDoesNotAllocate: a permitted request of known keys does not allocate, and neither
// does a refused request with any keys.
//
// Not parallel: it counts the allocations of the process.
func TestCheckDoesNotAllocate(t *testing.T) {
	l := limiter(t, Rates{Each: Limit{PerSecond: 1e-6, Burst: 1e4}, Global: Limit{PerSecond: 1e6, Burst: 1e6}})
	principal, address := "user:alice", "192.0.2.1"
	l.Allow(read, principal, address)
	if n := testing.AllocsPerRun(1000, func() { l.Allow(read, principal, address) }); n != 0 {
		t.Errorf("a request that is let through allocates %v times, want 0", n)
	}
	spend(l, principal, address)
	if n := testing.AllocsPerRun(1000, func() { l.Allow(read, principal, "192.0.2.2") }); n != 0 {
		t.Errorf("a request that is refused allocates %v times, want 0", n)
	}
	lock := lockout(t)
	if n := testing.AllocsPerRun(1000, func() { lock.Locked(address) }); n != 0 {
		t.Errorf("looking for a lock allocates %v times, want 0", n)
	}
}

func BenchmarkAllow(b *testing.B) {
	l := must.Get(NewLimiter(map[Class]Rates{read: {Each: Limit{PerSecond: 1e6, Burst: 1e6}, Global: Limit{PerSecond: 1e6, Burst: 1e6}}}))(b)
	b.ReportAllocs()
	for b.Loop() {
		l.Allow(read, "user:alice", "127.0.0.1")
	}
}

func BenchmarkTry(b *testing.B) {
	l := must.Get(NewLockout(backoff))(b)
	b.ReportAllocs()
	for b.Loop() {
		l.Try("token:1")
		l.Succeeded("token:1")
	}
}

// TestUnauthenticatedClientsHaveOwnBuckets: unauthenticated clients do not consume the limits of
// members, nor vice versa. The refusals of both are counted.
func TestUnauthenticatedClientsHaveOwnBuckets(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		l := limiter(t, Rates{Each: Limit{PerSecond: 1, Burst: 2}, Global: Limit{PerSecond: 1, Burst: 10}})
		strangers := 0
		for n := range 100 {
			if ok, _ := l.AllowStranger(read, fmt.Sprintf("192.0.2.%d", n)); ok {
				strangers++
			}
		}
		if strangers != 10 {
			t.Errorf("%d strangers were served, want the shared burst of 10", strangers)
		}
		if n := spend(l, "192.0.2.1"); n != 2 {
			t.Errorf("a member was served %d times beside the flood, want its burst of 2", n)
		}
		if r := l.Refused()[read]; r.Count != 91 || l.Len() != 11 {
			t.Errorf("%d refusals and %d buckets", r.Count, l.Len())
		}
		if ok, _ := l.AllowStranger("other", "x"); ok {
			t.Error("a class that is not there serves strangers")
		}
	})
}
