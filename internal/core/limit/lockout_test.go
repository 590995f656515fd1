package limit

import (
	"fmt"
	"hash/maphash"
	"math/rand/v2"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"palyra/internal/core/must"
)

var backoff = Backoff{Free: 2, First: time.Second, Longest: 10 * time.Second, Forget: time.Minute}

func lockout(t *testing.T) *Lockout {
	t.Helper()
	return must.Get(NewLockout(backoff))(t)
}

// small returns a lockout with room for few keys and few shared counts.
func small(t *testing.T, most, shared int) *Lockout {
	t.Helper()
	l := lockout(t)
	l.most, l.shared = most, make([]failures, shared)
	return l
}

func TestBackoffDoubles(t *testing.T) {
	t.Parallel()
	want := []time.Duration{0, 0, time.Second, 2 * time.Second, 4 * time.Second, 8 * time.Second, 10 * time.Second, 10 * time.Second}
	synctest.Test(t, func(t *testing.T) {
		l := lockout(t)
		for i, lock := range want {
			if ok, wait := l.Try("pin"); !ok || wait != 0 {
				t.Fatalf("attempt %d: %v, %v; want it to begin", i+1, ok, wait)
			}
			if got := l.Locked("pin"); got != lock {
				t.Errorf("after %d failures the key is locked for %v, want %v", i+1, got, lock)
			}
			if lock == 0 {
				continue
			}
			time.Sleep(lock - 1)
			if ok, wait := l.Try("pin"); ok || wait != 1 {
				t.Errorf("within the lock: %v, %v; want a refusal for 1ns", ok, wait)
			}
			time.Sleep(time.Nanosecond)
		}
	})
	if got := (Backoff{First: 1, Longest: 1<<63 - 1, Forget: 1}).lock(1000); got != 1<<63-1 {
		t.Errorf("the 1000th lock is %v long, want the longest", got)
	}
}

func TestLockoutsAreIndependentAndExpire(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		l := lockout(t)
		for range 3 {
			l.Failed("a")
		}
		if l.Locked("a") == 0 || l.Locked("b") != 0 || l.Count() != 1 {
			t.Errorf("a is locked for %v, b for %v, %d in all; want a alone", l.Locked("a"), l.Locked("b"), l.Count())
		}
		l.Succeeded("a")
		if l.Locked("a") != 0 || l.Len() != 0 {
			t.Errorf("after a success, a is locked for %v and %d keys are kept", l.Locked("a"), l.Len())
		}
		l.Failed("a")
		l.Failed("a")
		time.Sleep(backoff.Forget - 1)
		if lock := l.Failed("a"); lock != time.Second {
			t.Errorf("the third failure locks for %v, want 1s: the first two are not forgotten yet", lock)
		}
		time.Sleep(time.Second + backoff.Forget)
		if lock := l.Failed("a"); lock != 0 || l.Len() != 1 {
			t.Errorf("a failure after all was forgotten locks for %v, with %d keys kept; want 0 and 1", lock, l.Len())
		}
	})
}

func TestBadBackoff(t *testing.T) {
	t.Parallel()
	for _, bad := range []Backoff{
		{}, {Free: -1, First: 1, Longest: 1, Forget: 1}, {First: 2, Longest: 1, Forget: 1}, {First: 1, Longest: 1},
	} {
		if _, err := NewLockout(bad); err == nil {
			t.Errorf("NewLockout takes %+v", bad)
		}
	}
}

// TestGuessesAtOnce: concurrent attempts permit no more guesses than sequential ones. Control:
// an implementation that checks first and counts afterwards.
func TestGuessesAtOnce(t *testing.T) {
	t.Parallel()
	guesses := func(begin func(*Lockout) bool) int64 {
		var looked atomic.Int64
		synctest.Test(t, func(t *testing.T) {
			l := lockout(t)
			var all sync.WaitGroup
			for range 100 {
				all.Go(func() {
					if begin(l) {
						looked.Add(1)
					}
				})
			}
			all.Wait()
		})
		return looked.Load()
	}
	if n := guesses(func(l *Lockout) bool { ok, _ := l.Try("pin"); return ok }); n != int64(backoff.Free)+1 {
		t.Errorf("%d of 100 guesses at once were looked at, want %d", n, backoff.Free+1)
	}
	control := guesses(func(l *Lockout) bool {
		locked := l.Locked("pin") > 0
		time.Sleep(time.Millisecond) // while the secret is compared
		l.Failed("pin")
		return !locked
	})
	if control != 100 {
		t.Errorf("the control looked at %d guesses of 100; the test shows nothing", control)
	}
}

// TestMillionKeys: a million failing keys do not exceed the memory bound. A key that was locked
// before stays locked, and new keys are still counted. Control: dropping the oldest key when
// there is no room, like a plain LRU table.
func TestMillionKeys(t *testing.T) {
	t.Parallel()
	run := func(t *testing.T, flood int, before func(l *Lockout, key string)) (l *Lockout, most int) {
		l = lockout(t)
		for range 6 {
			before(l, "attacker")
			l.Failed("attacker")
		}
		for i := range flood {
			key := fmt.Sprint(i)
			before(l, key)
			l.Failed(key)
			most = max(most, len(l.byKey)+len(l.shared), len(l.next)+len(l.shared))
		}
		return l, most
	}
	synctest.Test(t, func(t *testing.T) {
		l, most := run(t, 1_000_000, func(*Lockout, string) {})
		if bound := mostLocked + sharedLocks; most > bound {
			t.Errorf("%d counts were kept, more than %d", most, bound)
		}
		if got := l.Locked("attacker"); got != 8*time.Second {
			t.Errorf("after the flood the locked key is locked for %v, want 8s", got)
		}
		for range 3 {
			l.Failed("newcomer")
		}
		if l.Locked("newcomer") == 0 {
			t.Error("a key that found no room fails without being locked")
		}
		time.Sleep(backoff.Longest + backoff.Forget)
		if ok, _ := l.Try("newcomer"); !ok || l.Len() != 1 || l.Count() != 0 {
			t.Errorf("when all is forgotten: Try = %v, %d keys are kept, %d locked", ok, l.Len(), l.Count())
		}
	})
	synctest.Test(t, func(t *testing.T) {
		if l, _ := run(t, 2*mostLocked, leastRecent()); l.Locked("attacker") == 8*time.Second {
			t.Error("the key stays locked though keys are dropped; the test shows nothing")
		}
	})
}

// leastRecent makes room before each failure by dropping the oldest key.
func leastRecent() func(l *Lockout, key string) {
	var order []uint64
	return func(l *Lockout, key string) {
		hash := maphash.String(l.seed, key)
		if l.byKey[hash] != nil {
			return
		}
		if len(l.byKey) == l.most {
			l.forget(l.byKey[order[0]])
			order = order[1:]
		}
		order = append(order, hash)
	}
}

// unbounded is a model of Lockout without a bound on the number of keys.
type unbounded map[string]*failures

func (u unbounded) failed(key string, now time.Time) {
	f := u[key]
	if f == nil || !f.forgotten.After(now) {
		f = new(failures)
		u[key] = f
	}
	f.n++
	f.until = now.Add(backoff.lock(f.n))
	f.forgotten = f.until.Add(backoff.Forget)
}

func (u unbounded) locked(key string, now time.Time) time.Duration {
	if f := u[key]; f != nil {
		return f.locked(now)
	}
	return 0
}

// play applies steps to l and to the model, two bytes for each step: the operation and the key.
// It returns an error if the two differ. If exact is false, l may lock for longer than the
// model. before runs before each failure.
func play(l *Lockout, steps []byte, exact bool, before func(*Lockout, string)) error {
	model, now := unbounded{}, time.Now()
	l.now = func() time.Time { return now }
	for i := 0; i+1 < len(steps); i += 2 {
		key := fmt.Sprint(steps[i+1] % 8)
		switch step := steps[i]; step % 8 {
		case 0, 1, 2:
			before(l, key)
			l.Failed(key)
			model.failed(key, now)
		case 3, 4:
			before(l, key)
			if ok, _ := l.Try(key); ok {
				if model.locked(key, now) > 0 {
					return fmt.Errorf("step %d: Try begins an attempt of %s, which is locked", i/2, key)
				}
				model.failed(key, now)
			}
		case 5:
			l.Succeeded(key)
			delete(model, key)
		default:
			now = now.Add(time.Duration(step/8) * 2 * time.Second)
		}
		for k := range 8 {
			key := fmt.Sprint(k)
			got, want := l.Locked(key), model.locked(key, now)
			if got < want || exact && got != want {
				return fmt.Errorf("step %d: %s is locked for %v, want %v", i/2, key, got, want)
			}
		}
		if len(l.byKey) > l.most || len(l.next) != len(l.byKey) {
			return fmt.Errorf("step %d: %d keys and %d in order are kept, want at most %d", i/2, len(l.byKey), len(l.next), l.most)
		}
	}
	return nil
}

func keep(*Lockout, string) {}

func random(r *rand.Rand) []byte {
	steps := make([]byte, 400)
	for i := range steps {
		steps[i] = byte(r.Uint32())
	}
	return steps
}

// TestLockoutIsNoLaxerThanTheModel: with room for all keys, a Lockout locks as long as one
// without bounds, and with room for few keys never for less. Control: dropping keys to make
// room.
func TestLockoutIsNoLaxerThanTheModel(t *testing.T) {
	t.Parallel()
	r := rand.New(rand.NewPCG(13, 5))
	caught := 0
	for range 100 {
		steps := random(r)
		if err := play(lockout(t), steps, true, keep); err != nil {
			t.Errorf("with room for all: %v", err)
		}
		if err := play(small(t, 3, 2), steps, false, keep); err != nil {
			t.Errorf("with room for 3: %v", err)
		}
		if play(small(t, 3, 2), steps, false, dropAny) != nil {
			caught++
		}
	}
	if caught == 0 {
		t.Error("dropping keys is never noticed; the test shows nothing")
	}
}

// dropAny makes room for a new key by dropping the key that would expire first.
func dropAny(l *Lockout, key string) {
	if len(l.next) == l.most && l.byKey[maphash.String(l.seed, key)] == nil {
		l.forget(l.next[0])
	}
}

func FuzzLockout(f *testing.F) {
	r := rand.New(rand.NewPCG(1, 2))
	for range 8 {
		f.Add(random(r))
	}
	f.Fuzz(func(t *testing.T, steps []byte) {
		if len(steps) > 4096 {
			t.Skip("long enough")
		}
		if err := play(lockout(t), steps, true, keep); err != nil {
			t.Errorf("with room for all: %v", err)
		}
		if err := play(small(t, 3, 2), steps, false, keep); err != nil {
			t.Errorf("with room for 3: %v", err)
		}
	})
}

func TestLockoutInConcurrentUse(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		l := small(t, 8, 2)
		var all sync.WaitGroup
		for i := range 16 {
			all.Go(func() {
				for n := range 100 {
					key := fmt.Sprint((i + n) % 12)
					if ok, _ := l.Try(key); ok && n%5 == 0 {
						l.Succeeded(key)
					}
					l.Locked(key)
					l.Count()
				}
			})
		}
		all.Wait()
		if len(l.byKey) != len(l.next) || len(l.byKey) > 8 {
			t.Errorf("%d keys are kept and %d are in order, want at most 8", len(l.byKey), len(l.next))
		}
	})
}

// TestLockedCount: the number of locked keys of a class is reported, and a flood of other keys
// unlocks none.
func TestLockedCount(t *testing.T) {
	t.Parallel()
	l := must.Get(NewLimiter(map[Class]Rates{}))(t)
	lockout := must.Get(NewLockout(Backoff{Free: 1, First: time.Hour, Longest: time.Hour, Forget: time.Hour}))(t)
	l.Watch("login", lockout)
	if got := l.Locked(); len(got) != 1 || got["login"] != 0 {
		t.Errorf("before a failure: %v", got)
	}
	lockout.Failed("eve")
	lockout.Failed("eve")
	lockout.Failed("once")
	if got := l.Locked()["login"]; got != 1 {
		t.Errorf("%d keys are locked", got)
	}
	for i := range 2 * mostLocked {
		lockout.Failed("flood" + strconv.Itoa(i))
	}
	if lockout.Locked("eve") == 0 || l.Locked()["login"] < 1 {
		t.Error("a flood freed a key")
	}
}
