package approval

import (
	"time"

	"palyra/internal/core/access"
)

// maxCooled bounds the memory of denied and expired asks.
const maxCooled = 4096

// coolKey is what a no is remembered by: who asked, and what the call comes to.
// Neither session nor run is part of it, nor how the call is spelled, so that a
// client cannot ask again by another name for any of them.
type coolKey struct {
	principal, onBehalfOf access.Principal
	// what is Ask.Resolved, or the call digest of an ask that has none.
	what string
}

// cooldown remembers asks that were denied or expired a moment ago. The
// desk's lock guards it.
type cooldown struct {
	span time.Duration
	asks map[coolKey]Record
}

func newCooldown(span time.Duration) *cooldown {
	return &cooldown{span: span, asks: map[coolKey]Record{}}
}

// remember keeps the no to a record, whose ask resolved to what. A record of
// before the start has lost that, and is known by its call digest.
func (c *cooldown) remember(rec Record, what string) {
	if len(c.asks) >= maxCooled {
		c.evict(rec.ClosedAt)
	}
	if what == "" {
		what = rec.CallDigest
	}
	rec.Request, rec.Prompt = nil, Prompt{}
	c.asks[coolKey{rec.RequestedBy, rec.OnBehalfOf, what}] = rec
}

// evict drops what has cooled down, and one more if that frees nothing.
func (c *cooldown) evict(now time.Time) {
	c.forget(now)
	if len(c.asks) < maxCooled {
		return
	}
	var oldest coolKey
	var at time.Time
	for key, rec := range c.asks {
		if at.IsZero() || rec.ClosedAt.Before(at) {
			oldest, at = key, rec.ClosedAt
		}
	}
	delete(c.asks, oldest)
}

// until is when a record stops answering.
func (c *cooldown) until(rec *Record) time.Time { return rec.ClosedAt.Add(c.span) }

func (c *cooldown) forget(now time.Time) {
	for key, rec := range c.asks {
		if now.Sub(rec.ClosedAt) >= c.span {
			delete(c.asks, key)
		}
	}
}

// recall returns the record that the ask is answered from. A record of another policy answers
// nothing, and one that expired does not hold up a person, who asks once and means it; a program
// would ask again and again.
func (c *cooldown) recall(ask *Ask, now time.Time) (Record, bool) {
	caller := ask.Proposal.Caller
	for _, what := range []string{ask.Resolved, ask.CallDigest} {
		key := coolKey{caller.Principal, caller.OnBehalfOf, what}
		rec, ok := c.asks[key]
		holds := ok && now.Before(c.until(&rec)) && rec.SnapshotDigest == ask.SnapshotDigest
		if holds && rec.State == Expired && caller.Principal.Kind == access.KindUser {
			continue
		}
		if holds {
			return rec, true
		}
		delete(c.asks, key)
	}
	return Record{}, false
}
