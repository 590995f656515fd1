package approval

import (
	"fmt"
	"time"

	"palyra/internal/core/access"
	"palyra/internal/core/reason"
	"palyra/internal/core/text"
)

const (
	// rateWindow is the window of Limits.CreatedPerMinute and Limits.CreatedPerPrincipal.
	rateWindow = time.Minute
	// maxRuns bounds the runs whose rate is remembered. Beyond it, new runs may not ask until
	// older runs are removed.
	maxRuns = 1 << 16
)

// runKey groups rates and pending records. Runs are counted per principal, so that no principal
// can use the allowance of another.
type runKey struct {
	principal    access.Principal
	session, run string
}

func runOf(r Record) runKey {
	k := runKey{principal: r.RequestedBy, run: r.Run}
	if r.Run == "" {
		k.session = r.Session
	}
	return k
}

// quota counts pending and recently created records. The lock of requestsInMemory guards it.
type quota struct {
	limits    Limits
	perRun    map[runKey]int
	principal map[access.Principal]int
	created   map[runKey][]time.Time
	// perPrincipal holds the same records by requester, over all runs and sessions: client-chosen names
	// must not extend the limit.
	perPrincipal map[access.Principal][]time.Time
}

// take counts one more pending record, or returns an error with the reached limit.
func (q *quota) take(run runKey, now time.Time) error {
	recent, perPrincipal := fresh(q.created[run], now), fresh(q.perPrincipal[run.principal], now)
	switch {
	case q.perRun[run] >= q.limits.PendingPerRun:
		return limitError("the run has %s waiting, the maximum", text.Plural(q.limits.PendingPerRun, "approval"))
	case q.principal[run.principal] >= q.limits.PendingPerPrincipal:
		return limitError("%s has %s waiting, the maximum", run.principal, text.Plural(q.limits.PendingPerPrincipal, "approval"))
	case len(recent) >= q.limits.CreatedPerMinute:
		return limitError("the run requested %d approvals within a minute, the maximum", q.limits.CreatedPerMinute).
			WithField("retry_after", recent[0].Add(rateWindow).Sub(now).String())
	case len(perPrincipal) >= q.limits.CreatedPerPrincipal:
		return limitError("%s requested %d approvals within a minute, the maximum", run.principal, q.limits.CreatedPerPrincipal).
			WithField("retry_after", perPrincipal[0].Add(rateWindow).Sub(now).String())
	case len(recent) == 0 && !q.hasCapacity(now):
		return limitError("too many runs request approvals")
	}
	q.add(run)
	q.created[run], q.perPrincipal[run.principal] = append(recent, now), append(perPrincipal, now)
	return nil
}

// hasCapacity ensures that one more run can be remembered.
func (q *quota) hasCapacity(now time.Time) bool {
	if len(q.created) >= maxRuns {
		forget(q.created, now)
	}
	return len(q.created) < maxRuns
}

func (q *quota) add(run runKey) {
	q.perRun[run]++
	q.principal[run.principal]++
}

// drop removes one pending record from the counts.
func (q *quota) drop(run runKey) {
	decrement(q.perRun, run)
	decrement(q.principal, run.principal)
}

func decrement[K comparable](counts map[K]int, key K) {
	if counts[key]--; counts[key] <= 0 {
		delete(counts, key)
	}
}

func forget[K comparable](created map[K][]time.Time, now time.Time) {
	for key, times := range created {
		if len(fresh(times, now)) == 0 {
			delete(created, key)
		}
	}
}

func fresh(times []time.Time, now time.Time) []time.Time {
	for i, at := range times {
		if now.Sub(at) < rateWindow {
			return times[i:]
		}
	}
	return nil
}

func limitError(format string, args ...any) *reason.Error {
	return reason.Errorf(reason.ApprovalLimit, "%s", fmt.Sprintf(format, args...))
}

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

// cooldown remembers asks that were denied or expired recently. The lock of requestsInMemory guards it.
type cooldown struct {
	span time.Duration
	asks map[coolKey]Record
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

// evict removes the entries whose cooldown is over, or else the oldest entry.
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
		holds := ok && now.Before(rec.ClosedAt.Add(c.span)) && rec.SnapshotDigest == ask.SnapshotDigest
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
