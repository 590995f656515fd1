package limit

import (
	"container/heap"
	"errors"
	"hash/maphash"
	"sync"
	"time"
)

// Backoff defines the number of failures that lock a key, and the duration.
type Backoff struct {
	// Free is how many failures lock nothing. The next one locks the key for
	// First, and each further one for twice as long as the one before, up to
	// Longest.
	Free           int
	First, Longest time.Duration
	// Forget is how long after its last failure, or after the end of its lock, a
	// key's failures are forgotten.
	Forget time.Duration
}

// lock is how long the nth failure locks.
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

// How many keys a Lockout keeps by themselves, about 10 MiB, and into how many
// counts all others fall.
const (
	mostLocked  = 1 << 16
	sharedLocks = 1 << 10
)

// Lockout locks keys whose attempts fail: wrong secrets of a token, wrong PINs from an address. Its
// memory is bounded, and reaching the bound unlocks no key: the state of a key is kept until
// Backoff.Forget is over. When the table is full, new keys share counts, many keys one. A key with
// a shared count may be locked because of others, and is never locked for less than its own
// failures require. It is safe for concurrent use.
type Lockout struct {
	backoff Backoff
	most    int
	seed    maphash.Seed
	now     func() time.Time

	mu    sync.Mutex
	byKey map[uint64]*failures
	// next has the same, the one that is forgotten first at the front.
	next forgetting
	// shared counts the failures of keys that found no room. A key is either in
	// byKey or counted here, never both: it gets no count of its own while the
	// one that it shares is remembered.
	shared []failures
}

// failures are the failures of one key, or of many that share a count.
type failures struct {
	key   uint64
	n     int
	until time.Time
	// forgotten is when they no longer count.
	forgotten time.Time
	index     int
}

// NewLockout returns a lockout that knows no key. It refuses a Backoff that would
// lock nothing.
func NewLockout(b Backoff) (*Lockout, error) {
	if b.Free < 0 || b.First <= 0 || b.Longest < b.First || b.Forget <= 0 {
		return nil, errors.New("a lockout needs a positive first lock, a longest one that is not shorter, and a time after which failures are forgotten")
	}
	return &Lockout{
		backoff: b, most: mostLocked, seed: maphash.MakeSeed(), now: time.Now,
		byKey: make(map[uint64]*failures), shared: make([]failures, sharedLocks),
	}, nil
}

// Try begins an attempt of a key, unless the key is locked: then it returns how long
// the lock still lasts, and the attempt must not be looked at. An attempt counts as
// a failure from its beginning, so that many at the same time are no more guesses
// than one after the other; Succeeded takes that back.
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

// Failed counts a failure of a key that did not begin with Try, and returns how
// long the key is locked now; 0 for not at all.
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

// Locked returns how long a key is still locked, 0 when it is not.
func (l *Lockout) Locked(key string) time.Duration {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.known(maphash.String(l.seed, key)).locked(l.now())
}

// Count returns how many keys are locked now. Keys that share a count are one.
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

// Len returns how many keys have a count of their own.
func (l *Lockout) Len() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return len(l.byKey)
}

// known is where a key's failures are counted.
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

// forgetting is a heap of failures by when they are forgotten.
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

// Pop takes the last one away.
func (h *forgetting) Pop() any {
	last := len(*h) - 1
	f := (*h)[last]
	(*h)[last] = nil
	*h = (*h)[:last]
	return f
}
