package limit

import (
	"container/heap"
	"errors"
	"hash/maphash"
	"sync"
	"time"
)

// Backoff defines the number of failures that lock a key, and the duration of the lock.
type Backoff struct {
	// Free is the number of failures that do not lock a key. The next failure locks it for First,
	// and each further one for twice as long as the previous lock, up to Longest.
	Free           int
	First, Longest time.Duration
	// Forget is the time after the last failure, or after the end of the lock, until the failures
	// of a key are forgotten.
	Forget time.Duration
}

// lock returns the duration of the lock after the nth failure.
func (b Backoff) lock(n int) time.Duration {
	if n <= b.Free {
		return 0
	}
	d := b.First
	for range n - b.Free - 1 {
		if d > b.Longest/2 {
			return b.Longest
		}
		d *= 2
	}
	return min(d, b.Longest)
}

// The maximum number of keys with their own count, about 10 MiB, and the number of shared
// counts for all other keys.
const (
	mostLocked  = 1 << 16
	sharedLocks = 1 << 10
)

// Lockout locks keys whose attempts fail: wrong secrets of a token, wrong PINs from an address.
// Its memory is bounded, and reaching the bound unlocks no key: the state of a key is kept
// until Backoff.Forget is over. When the table is full, new keys share counts with other keys.
// A key with a shared count may be locked because of others, but never for less than its own
// failures require. It is safe for concurrent use.
type Lockout struct {
	backoff Backoff
	most    int
	seed    maphash.Seed
	now     func() time.Time

	mu    sync.Mutex
	byKey map[uint64]*failures
	// next has the failures of byKey, with the first ones to be forgotten at the front.
	next forgetting
	// shared counts the failures of keys for which byKey has no room. A key has either its own or
	// a shared count: it gets no count of its own until its shared count is forgotten.
	shared []failures
}

// failures are the failures of one key, or of many keys that share a count.
type failures struct {
	key   uint64
	n     int
	until time.Time
	// forgotten is the time after which the failures no longer count.
	forgotten time.Time
	index     int
}

// NewLockout returns a lockout without failures. It returns an error for a Backoff that would
// never lock.
func NewLockout(b Backoff) (*Lockout, error) {
	if b.Free < 0 || b.First <= 0 || b.Longest < b.First || b.Forget <= 0 {
		return nil, errors.New("a lockout needs a positive first lock, a longest one that is not shorter, and a time after which failures are forgotten")
	}
	return &Lockout{
		backoff: b, most: mostLocked, seed: maphash.MakeSeed(), now: time.Now,
		byKey: make(map[uint64]*failures), shared: make([]failures, sharedLocks),
	}, nil
}

// Try begins an attempt of a key. If the key is locked, it returns false and the remaining time
// of the lock, and the caller MUST NOT evaluate the attempt. An attempt counts as a failure
// from its start, so that concurrent attempts permit no more guesses than sequential ones.
// Succeeded clears the failures of the key.
func (l *Lockout) Try(key string) (ok bool, retryAfter time.Duration) {
	l.mu.Lock()
	defer l.mu.Unlock()
	hash, now := maphash.String(l.seed, key), l.now()
	if wait := l.known(hash).locked(now); wait > 0 {
		return false, wait
	}
	l.failed(hash, now)
	return true, 0
}

// Failed counts a failure of a key that did not begin with Try. It returns how long the key is
// locked now, 0 if it is not.
func (l *Lockout) Failed(key string) time.Duration {
	l.mu.Lock()
	defer l.mu.Unlock()
	hash, now := maphash.String(l.seed, key), l.now()
	l.failed(hash, now)
	return l.known(hash).locked(now)
}

// Succeeded clears the failures of a key, and ends its lock. It cannot clear a shared count: there,
// a success counts like a failure.
func (l *Lockout) Succeeded(key string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if f := l.byKey[maphash.String(l.seed, key)]; f != nil {
		l.forget(f)
	}
}

// Locked returns how long a key is still locked, 0 if it is not.
func (l *Lockout) Locked(key string) time.Duration {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.known(maphash.String(l.seed, key)).locked(l.now())
}

// Count returns the number of keys that are locked now. Keys with a shared count are counted as
// one.
func (l *Lockout) Count() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	count, now := 0, l.now()
	for _, f := range l.byKey {
		if f.locked(now) > 0 {
			count++
		}
	}
	for i := range l.shared {
		if l.shared[i].locked(now) > 0 {
			count++
		}
	}
	return count
}

// Len returns the number of keys with their own count.
func (l *Lockout) Len() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return len(l.byKey)
}

// known returns the count of a key.
func (l *Lockout) known(hash uint64) *failures {
	if f := l.byKey[hash]; f != nil {
		return f
	}
	return &l.shared[hash%uint64(len(l.shared))]
}

// failed counts a failure. A lock never gets shorter.
func (l *Lockout) failed(hash uint64, now time.Time) {
	for len(l.next) > 0 && !l.next[0].forgotten.After(now) {
		l.forget(l.next[0])
	}
	f := l.known(hash)
	if !f.forgotten.After(now) { // an unused shared count
		*f = failures{}
		if len(l.byKey) < l.most {
			f = &failures{key: hash}
			l.byKey[hash] = f
			heap.Push(&l.next, f)
		}
	}
	f.n++
	f.until = now.Add(l.backoff.lock(f.n))
	f.forgotten = f.until.Add(l.backoff.Forget)
	if l.byKey[hash] == f {
		heap.Fix(&l.next, f.index)
	}
}

func (l *Lockout) forget(f *failures) {
	heap.Remove(&l.next, f.index)
	delete(l.byKey, f.key)
}

func (f *failures) locked(now time.Time) time.Duration { return max(f.until.Sub(now), 0) }

// forgetting is a heap of failures, ordered by the time at which they are forgotten.
type forgetting []*failures

func (h forgetting) Len() int           { return len(h) }
func (h forgetting) Less(i, j int) bool { return h[i].forgotten.Before(h[j].forgotten) }

func (h forgetting) Swap(i, j int) {
	h[i], h[j] = h[j], h[i]
	h[i].index, h[j].index = i, j
}

// Push adds a *failures at the end.
func (h *forgetting) Push(x any) {
	f, _ := x.(*failures)
	f.index = len(*h)
	*h = append(*h, f)
}

// Pop removes and returns the last element.
func (h *forgetting) Pop() any {
	last := len(*h) - 1
	f := (*h)[last]
	(*h)[last] = nil
	*h = (*h)[:last]
	return f
}
