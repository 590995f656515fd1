package approval

import (
	"time"

	"palyra/internal/core/access"
)

// maxCooled bounds the number of denied and expired asks in memory.
const maxCooled = 4096

// coolKey identifies a remembered denial: the requester and the effect of the call. It does not
// include the session, the run or the form of the arguments, so that a client cannot ask again
// by renaming any of them.
type coolKey struct {
	principal, onBehalfOf access.Principal
	// effect is Ask.Resolved, or the call digest of an ask without it.
	effect string
}

// cooldown remembers asks that were denied or expired recently. The desk's lock guards it.
type cooldown struct {
	span time.Duration
	asks map[coolKey]Record
}

func newCooldown(span time.Duration) *cooldown {
	return &cooldown{span: span, asks: map[coolKey]Record{}}
}

// remember stores the denial of a record, whose ask has effect as its Resolved. For a record loaded
// at start, Resolved is lost and the call digest is used.
func (c *cooldown) remember(rec Record, effect string) {
	if len(c.asks) >= maxCooled {
		c.evict(rec.ClosedAt)
	}
	if effect == "" {
		effect = rec.CallDigest
	}
	rec.Request, rec.Prompt = nil, Prompt{}
	c.asks[coolKey{rec.RequestedBy, rec.OnBehalfOf, effect}] = rec
}

// evict removes the entries whose cooldown is over. If none is over, it removes the oldest
// entry.
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

// until returns the time from which a record no longer answers repeated asks.
func (c *cooldown) until(rec *Record) time.Time { return rec.ClosedAt.Add(c.span) }

func (c *cooldown) forget(now time.Time) {
	for key, rec := range c.asks {
		if now.Sub(rec.ClosedAt) >= c.span {
			delete(c.asks, key)
		}
	}
}

// recall returns the record that answers the ask. A record of another policy snapshot does not
// answer. An expired record does not answer an ask of a user, because users ask deliberately; a
// program would ask again and again.
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
