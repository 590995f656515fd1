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

// quota counts pending and recently created records. The desk's lock guards it.
type quota struct {
	limits    Limits
	perRun    map[runKey]int
	principal map[access.Principal]int
	created   map[runKey][]time.Time
	// perPrincipal holds the same records by requester, over all runs and sessions: client-chosen names
	// must not extend the limit.
	perPrincipal map[access.Principal][]time.Time
}

func newQuota(l Limits) *quota {
	return &quota{limits: l, perRun: map[runKey]int{}, principal: map[access.Principal]int{}, created: map[runKey][]time.Time{}, perPrincipal: map[access.Principal][]time.Time{}}
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
	if len(q.created) < maxRuns {
		return true
	}
	forget(q.created, now)
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

// forget removes runs and principals that created nothing within the window.
func (q *quota) forget(now time.Time) {
	forget(q.created, now)
	forget(q.perPrincipal, now)
}

func forget[K comparable](created map[K][]time.Time, now time.Time) {
	for key, times := range created {
		if len(fresh(times, now)) == 0 {
			delete(created, key)
		}
	}
}

// recall counts a record that was created before the start. Records come newest first; the
// window needs the oldest first.
func (q *quota) recall(rec Record) {
	run := runOf(rec)
	q.created[run] = append([]time.Time{rec.CreatedAt}, q.created[run]...)
	q.perPrincipal[run.principal] = append([]time.Time{rec.CreatedAt}, q.perPrincipal[run.principal]...)
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

// Limits are the desk's limits. A zero field means its default.
type Limits struct {
	// Timeout is how long a record waits if the ask sets no timeout (10 min); TimeoutMin (30 s)
	// and TimeoutMax (24 h) clamp the timeout of an ask.
	Timeout, TimeoutMin, TimeoutMax time.Duration
	// UseWithin is how long an allowed record may be consumed (5 min).
	UseWithin time.Duration
	// Claim is how long an answer is reserved for the call that received it before a repeated
	// identical call may have it (30 s).
	Claim time.Duration
	// Cooldown is how long a denied or expired ask is answered from memory (60 s); negative
	// disables it.
	Cooldown time.Duration
	// PendingPerRun (50) and PendingPerPrincipal (200) cap pending records; CreatedPerMinute
	// (20) caps new records per run, CreatedPerPrincipal (60) per principal over all its runs,
	// in the same time.
	PendingPerRun, PendingPerPrincipal, CreatedPerMinute, CreatedPerPrincipal int
	// GrantTTLMin (1 min), GrantTTLMax (7 d) and SessionGrant (8 h) bound the lifetime of
	// grants; SessionIdle (8 h) ends a session.
	GrantTTLMin, GrantTTLMax, SessionGrant, SessionIdle time.Duration
}

// DefaultLimits returns the default limits.
func DefaultLimits() Limits {
	return Limits{
		Timeout: 10 * time.Minute, TimeoutMin: 30 * time.Second, TimeoutMax: 24 * time.Hour,
		UseWithin: 5 * time.Minute, Claim: 30 * time.Second, Cooldown: time.Minute,
		PendingPerRun: 50, PendingPerPrincipal: 200, CreatedPerMinute: 20, CreatedPerPrincipal: 60,
		GrantTTLMin: time.Minute, GrantTTLMax: 7 * 24 * time.Hour,
		SessionGrant: 8 * time.Hour, SessionIdle: 8 * time.Hour,
	}
}

func (l Limits) withDefaults() Limits {
	def := DefaultLimits()
	for field, value := range map[*time.Duration]time.Duration{
		&l.Timeout: def.Timeout, &l.TimeoutMin: def.TimeoutMin, &l.TimeoutMax: def.TimeoutMax,
		&l.UseWithin: def.UseWithin, &l.Claim: def.Claim, &l.Cooldown: def.Cooldown,
		&l.GrantTTLMin: def.GrantTTLMin, &l.GrantTTLMax: def.GrantTTLMax,
		&l.SessionGrant: def.SessionGrant, &l.SessionIdle: def.SessionIdle,
	} {
		if *field < 0 && field != &l.Cooldown || *field == 0 {
			*field = value
		}
	}
	for field, value := range map[*int]int{
		&l.PendingPerRun: def.PendingPerRun, &l.PendingPerPrincipal: def.PendingPerPrincipal,
		&l.CreatedPerMinute: def.CreatedPerMinute, &l.CreatedPerPrincipal: def.CreatedPerPrincipal,
	} {
		if *field <= 0 {
			*field = value
		}
	}
	return l
}
