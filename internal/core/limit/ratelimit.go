// Package limit limits the resources that callers take: requests, with token buckets; bytes, with
// quotas (Book); and places, which a Queue assigns in turn to waiting requests. It is a leaf, and
// handles keys, not principals.
//
// Requests are counted in token buckets: one per class and key, and one per class that all keys
// share. Callers without a credential have separate buckets, so that a flood of their requests
// takes no tokens from members.
//
// Memory is bounded, and the bound cannot be used to get a fresh bucket: a bucket is removed only
// when it is full, which equals a fresh one. Such a bucket is always available because the shared
// bucket limits how many keys can be served within the refill time of any bucket (see capacity).
// Refused requests take no tokens from any bucket and leave no state, so a flooding caller harms
// only itself.
//
// In addition, a Lockout locks keys whose attempts fail.
//
// Places are assigned to owners in turn, and among an owner's principals in turn, so that more
// agents give an owner no more turns. An owner may fill at most as much of the queue as it leaves
// free. A fixed part for each owner was rejected: it is either too small for one owner or too large
// for all.
package limit

import (
	"fmt"
	"hash/maphash"
	"math"
	"sync"
	"time"
)

// Class is a kind of request, with limits of its own.
type Class string

// Limit is a token bucket: PerSecond tokens flow in, up to Burst. A request
// takes one.
type Limit struct {
	PerSecond float64
	Burst     int
}

// Rates are the limits of the buckets of a class.
type Rates struct {
	// Each applies to every key separately.
	Each Limit
	// Global is shared by all keys of the class.
	Global Limit
}

// KeysPerRequest is the maximum number of keys that a request counts against: its principal and
// its address.
const KeysPerRequest = 2

// mostKeys limits the memory of a class regardless of the limits: about 40 MiB. A class that
// reaches it refuses new keys instead of removing old ones.
const mostKeys = 1 << 18

// Limiter holds the buckets of all classes. It is safe for concurrent use.
type Limiter struct {
	// classes are for members, strangers for callers without a credential.
	classes, strangers map[Class]*class
	seed               maphash.Seed

	watching sync.Mutex
	lockouts map[Class]*Lockout
}

// Watch adds a lockout of a class to the counts of Locked. Call it before serving.
func (l *Limiter) Watch(of Class, lockout *Lockout) {
	l.watching.Lock()
	defer l.watching.Unlock()
	if l.lockouts == nil {
		l.lockouts = make(map[Class]*Lockout)
	}
	l.lockouts[of] = lockout
}

// Locked returns the number of keys that are locked out now, for each class with a lockout.
func (l *Limiter) Locked() map[Class]int {
	l.watching.Lock()
	defer l.watching.Unlock()
	all := make(map[Class]int, len(l.lockouts))
	for of, lockout := range l.lockouts {
		all[of] = lockout.Count()
	}
	return all
}

// NewLimiter returns a limiter for the given classes. It returns an error unless every limit is
// positive and each shared bucket is at least as large as a single one.
func NewLimiter(limits map[Class]Rates) (*Limiter, error) {
	l := &Limiter{classes: make(map[Class]*class, len(limits)), strangers: make(map[Class]*class, len(limits)), seed: maphash.MakeSeed()}
	now := time.Now()
	for name, lim := range limits {
		if !lim.Each.valid() || !lim.Global.valid() {
			return nil, fmt.Errorf("rate limits of class %q: rate and burst must be positive", name)
		}
		if lim.Global.Burst < lim.Each.Burst || lim.Global.PerSecond < lim.Each.PerSecond {
			return nil, fmt.Errorf("rate limits of class %q: the shared bucket is smaller than a single one", name)
		}
		l.classes[name], l.strangers[name] = newClass(lim, now), newClass(lim, now)
	}
	return l, nil
}

func newClass(lim Rates, now time.Time) *class {
	c := &class{
		limits:   lim,
		capacity: capacity(lim),
		global:   bucket{tokens: float64(lim.Global.Burst), at: now},
		byKey:    make(map[uint64]*bucket),
	}
	c.ring.newer, c.ring.older = &c.ring, &c.ring
	return c
}

func (l Limit) valid() bool {
	return l.PerSecond > 0 && !math.IsInf(l.PerSecond, 0) && l.Burst >= 1
}

// Allow takes one token from the bucket of each key and one from the shared bucket of the
// class. If one of them is empty, it takes none, and retryAfter is the time until all have a
// token. It refuses more than KeysPerRequest keys, no key, and an unknown class, with a
// retryAfter of 0.
func (l *Limiter) Allow(name Class, keys ...string) (ok bool, retryAfter time.Duration) {
	return l.allow(l.classes[name], keys)
}

// AllowStranger is Allow for a caller without a credential; the buckets are separate.
func (l *Limiter) AllowStranger(name Class, keys ...string) (ok bool, retryAfter time.Duration) {
	return l.allow(l.strangers[name], keys)
}

func (l *Limiter) allow(c *class, keys []string) (ok bool, retryAfter time.Duration) {
	if c == nil || len(keys) == 0 || len(keys) > KeysPerRequest {
		return false, 0
	}
	// Keys are external and may be long. A hash bounds their size, and its secret seed prevents a
	// caller from targeting another caller's bucket.
	hashes := make([]uint64, 0, KeysPerRequest)
	for _, key := range keys {
		hashes = append(hashes, maphash.String(l.seed, key))
	}
	return c.allow(hashes, time.Now())
}

// Refusals counts the refused requests of a class.
type Refusals struct {
	// Count is the number of refusals since the start.
	Count uint64
	// Last is the time of the last refusal; zero without one.
	Last time.Time
}

// Refused returns the refusals of every class.
func (l *Limiter) Refused() map[Class]Refusals {
	all := make(map[Class]Refusals, len(l.classes))
	for _, of := range []map[Class]*class{l.classes, l.strangers} {
		for name, c := range of {
			c.mu.Lock()
			r := all[name]
			r.Count += c.refused.Count
			if c.refused.Last.After(r.Last) {
				r.Last = c.refused.Last
			}
			all[name] = r
			c.mu.Unlock()
		}
	}
	return all
}

// Len returns the number of keys' buckets in all classes.
func (l *Limiter) Len() int {
	n := 0
	for _, of := range []map[Class]*class{l.classes, l.strangers} {
		for _, c := range of {
			c.mu.Lock()
			n += len(c.byKey)
			c.mu.Unlock()
		}
	}
	return n
}

// class holds the buckets of one class.
type class struct {
	limits   Rates
	capacity int

	mu      sync.Mutex
	refused Refusals
	global  bucket
	byKey   map[uint64]*bucket
	// ring links the buckets in the order in which they were last served:
	// ring.older is the latest, ring.newer the earliest.
	ring bucket
}

// capacity returns how many buckets a class holds. A bucket that was not served for
// Burst/PerSecond seconds is full. Within that time, the shared bucket admits at most its burst
// and its inflow, and each request counts against at most KeysPerRequest keys. With room for
// the keys of one more request, the least recently served buckets are full.
func capacity(l Rates) int {
	refill := float64(l.Each.Burst) / l.Each.PerSecond
	requests := float64(l.Global.Burst) + math.Ceil(l.Global.PerSecond*refill)
	return int(min(KeysPerRequest*(requests+1), mostKeys))
}

// bucket holds the number of tokens at a time.
type bucket struct {
	key          uint64
	tokens       float64
	at           time.Time
	newer, older *bucket
}

// level returns the number of tokens at now.
func (b *bucket) level(l Limit, now time.Time) float64 {
	return min(b.tokens+now.Sub(b.at).Seconds()*l.PerSecond, float64(l.Burst))
}

// wait returns the time until there are want tokens, 0 if there are enough.
func (b *bucket) wait(l Limit, want float64, now time.Time) time.Duration {
	missing := want - b.level(l, now)
	if missing <= 0 {
		return 0
	}
	// Round up, so that a wait of the returned time is sufficient.
	seconds := min(math.Ceil(missing/l.PerSecond*1e9), float64(math.MaxInt64/2))
	return time.Duration(seconds)
}

func (b *bucket) take(l Limit, now time.Time) {
	b.tokens, b.at = b.level(l, now)-1, now
}

func (c *class) allow(keys []uint64, now time.Time) (bool, time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if wait := c.take(keys, now); wait > 0 {
		c.refused.Count++
		c.refused.Last = now
		return false, wait
	}
	return true, 0
}

// take serves the keys, or returns how long the request has to wait.
func (c *class) take(keys []uint64, now time.Time) time.Duration {
	wait := c.global.wait(c.limits.Global, 1, now)
	fresh := 0
	for _, key := range keys {
		if b := c.byKey[key]; b != nil {
			wait = max(wait, b.wait(c.limits.Each, 1, now))
		} else {
			fresh++
		}
	}
	if wait > 0 {
		return wait
	}
	if wait := c.makeRoom(fresh, now); wait > 0 {
		return wait
	}
	c.global.take(c.limits.Global, now)
	for _, key := range keys {
		c.serve(key, now)
	}
	return 0
}

// makeRoom removes the least recently served buckets until n more fit. It keeps a bucket that
// is not full, and returns the time until that bucket is full.
func (c *class) makeRoom(n int, now time.Time) time.Duration {
	for len(c.byKey)+n > c.capacity {
		oldest := c.ring.newer
		if wait := oldest.wait(c.limits.Each, float64(c.limits.Each.Burst), now); wait > 0 {
			return wait
		}
		c.forget(oldest)
	}
	return 0
}

func (c *class) serve(key uint64, now time.Time) {
	b := c.byKey[key]
	if b == nil {
		b = &bucket{key: key, tokens: float64(c.limits.Each.Burst), at: now}
		c.byKey[key] = b
	} else {
		b.unlink()
	}
	b.take(c.limits.Each, now)
	b.newer, b.older = &c.ring, c.ring.older
	b.newer.older, b.older.newer = b, b
}

func (c *class) forget(b *bucket) {
	b.unlink()
	delete(c.byKey, b.key)
}

func (b *bucket) unlink() {
	b.newer.older, b.older.newer = b.older, b.newer
	b.newer, b.older = nil, nil
}
