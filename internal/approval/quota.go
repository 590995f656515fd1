package approval

import (
	"fmt"
	"time"

	"palyra/internal/access"
	"palyra/internal/reason"
)

const (
	// rateWindow is the window of Limits.CreatedPerMinute.
	rateWindow = time.Minute
	// maxRuns bounds the runs whose rate is remembered; beyond it new runs may
	// not ask until older ones are forgotten.
	maxRuns = 1 << 16
	// maxCooled bounds the memory of denied and expired asks.
	maxCooled = 4096
)

// runKey is whose rate and pending records are counted together. Runs are
// counted within a principal, so that no one can spend another's allowance.
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

// quota counts pending and recently created records. The desk's lock guards
// it.
type quota struct {
	limits    Limits
	perRun    map[runKey]int
	principal map[access.Principal]int
	created   map[runKey][]time.Time
}

func newQuota(l Limits) *quota {
	return &quota{limits: l, perRun: map[runKey]int{}, principal: map[access.Principal]int{}, created: map[runKey][]time.Time{}}
}

// take counts one more pending record, or says which limit is reached.
func (q *quota) take(run runKey, now time.Time) error {
	recent := fresh(q.created[run], now)
	switch {
	case q.perRun[run] >= q.limits.PendingPerRun:
		return limitError("the run has %d approvals waiting, the most it may have", q.limits.PendingPerRun)
	case q.principal[run.principal] >= q.limits.PendingPerPrincipal:
		return limitError("%s has %d approvals waiting, the most it may have", run.principal, q.limits.PendingPerPrincipal)
	case len(recent) >= q.limits.CreatedPerMinute:
		return limitError("the run asked for %d approvals within a minute, the most it may", q.limits.CreatedPerMinute).
			WithField("retry_after", recent[0].Add(rateWindow).Sub(now).String())
	case len(recent) == 0 && !q.room(now):
		return limitError("too many runs ask for approvals")
	}
	q.add(run)
	q.created[run] = append(recent, now)
	return nil
}

// room makes sure that one more run can be remembered.
func (q *quota) room(now time.Time) bool {
	if len(q.created) < maxRuns {
		return true
	}
	for run, times := range q.created {
		if len(fresh(times, now)) == 0 {
			delete(q.created, run)
		}
	}
	return len(q.created) < maxRuns
}

func (q *quota) add(run runKey) {
	q.perRun[run]++
	q.principal[run.principal]++
}

// drop counts one pending record less.
func (q *quota) drop(run runKey) {
	decrement(q.perRun, run)
	decrement(q.principal, run.principal)
}

func decrement[K comparable](counts map[K]int, key K) {
	if counts[key]--; counts[key] <= 0 {
		delete(counts, key)
	}
}

// forget drops runs that created nothing within the window.
func (q *quota) forget(now time.Time) {
	for run, times := range q.created {
		if len(fresh(times, now)) == 0 {
			delete(q.created, run)
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

// cooldown remembers asks that were denied or expired a moment ago. The
// desk's lock guards it.
type cooldown struct {
	span time.Duration
	asks map[callKey]Record
}

func newCooldown(span time.Duration) *cooldown {
	return &cooldown{span: span, asks: map[callKey]Record{}}
}

func (c *cooldown) remember(rec Record) {
	if len(c.asks) >= maxCooled {
		c.evict(rec.ClosedAt)
	}
	rec.Request, rec.Prompt = nil, Prompt{}
	c.asks[keyOfRecord(rec).anySession()] = rec
}

// evict drops what has cooled down, and one more if that frees nothing.
func (c *cooldown) evict(now time.Time) {
	c.forget(now)
	if len(c.asks) < maxCooled {
		return
	}
	var oldest callKey
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

// recall returns the record that an identical ask is answered from.
func (c *cooldown) recall(key callKey, now time.Time) (Record, bool) {
	key = key.anySession()
	rec, ok := c.asks[key]
	if ok && now.Sub(rec.ClosedAt) >= c.span {
		delete(c.asks, key)
		return Record{}, false
	}
	return rec, ok
}
