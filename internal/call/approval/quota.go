package approval

import (
	"fmt"
	"time"

	"palyra/internal/core/access"
	"palyra/internal/core/reason"
	"palyra/internal/core/text"
)

const (
	// rateWindow is the window of Limits.CreatedPerMinute and
	// Limits.CreatedPerPrincipal.
	rateWindow = time.Minute
	// maxRuns bounds the runs whose rate is remembered; beyond it new runs may
	// not ask until older ones are forgotten.
	maxRuns = 1 << 16
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
	// made are the same records by who asked, whatever run or session the
	// client named: names cost nothing.
	made map[access.Principal][]time.Time
}

func newQuota(l Limits) *quota {
	return &quota{limits: l, perRun: map[runKey]int{}, principal: map[access.Principal]int{}, created: map[runKey][]time.Time{}, made: map[access.Principal][]time.Time{}}
}

// take counts one more pending record, or says which limit is reached.
func (q *quota) take(run runKey, now time.Time) error {
	recent, made := fresh(q.created[run], now), fresh(q.made[run.principal], now)
	switch {
	case q.perRun[run] >= q.limits.PendingPerRun:
		return limitError("the run has %s waiting, the most it may have", text.Plural(q.limits.PendingPerRun, "approval"))
	case q.principal[run.principal] >= q.limits.PendingPerPrincipal:
		return limitError("%s has %s waiting, the most it may have", run.principal, text.Plural(q.limits.PendingPerPrincipal, "approval"))
	case len(recent) >= q.limits.CreatedPerMinute:
		return limitError("the run asked for %d approvals within a minute, the most it may", q.limits.CreatedPerMinute).
			WithField("retry_after", recent[0].Add(rateWindow).Sub(now).String())
	case len(made) >= q.limits.CreatedPerPrincipal:
		return limitError("%s asked for %d approvals within a minute, the most it may", run.principal, q.limits.CreatedPerPrincipal).
			WithField("retry_after", made[0].Add(rateWindow).Sub(now).String())
	case len(recent) == 0 && !q.hasCapacity(now):
		return limitError("too many runs ask for approvals")
	}
	q.add(run)
	q.created[run], q.made[run.principal] = append(recent, now), append(made, now)
	return nil
}

// hasCapacity makes sure that one more run can be remembered.
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

// forget drops runs and principals that created nothing within the window.
func (q *quota) forget(now time.Time) {
	forget(q.created, now)
	forget(q.made, now)
}

func forget[K comparable](created map[K][]time.Time, now time.Time) {
	for key, times := range created {
		if len(fresh(times, now)) == 0 {
			delete(created, key)
		}
	}
}

// recall counts a record that was created before the start. Records come newest
// first; the window wants the oldest first.
func (q *quota) recall(rec Record) {
	run := runOf(rec)
	q.created[run] = append([]time.Time{rec.CreatedAt}, q.created[run]...)
	q.made[run.principal] = append([]time.Time{rec.CreatedAt}, q.made[run.principal]...)
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
