// Package quota limits the stored data of principals, and keeps their usage over a restart.
//
// The store counts the data, because a caller's data is created in many ways, each of which is
// a unit with an actor. The store never refuses a unit, because the unit may belong to a call
// that has run. Instead, the next input is refused. The sums of the day are stored every ten
// seconds instead of with each unit, so that a commit writes no further page.
package quota

import (
	"context"
	"fmt"
	"log/slog"
	"time"

	"palyra/internal/call"
	"palyra/internal/core/access"
	"palyra/internal/core/config"
	"palyra/internal/core/limit"
	"palyra/internal/core/reason"
	"palyra/internal/evidence/journal"
)

const (
	// quotaPeriod is the interval at which the usage is stored for the next start.
	quotaPeriod = 10 * time.Second
	// quotaHours is how many hours are stored.
	quotaHours = 25
)

// Store stores the sums of the day.
type Store interface {
	// Usage returns the sums since an hour.
	Usage(ctx context.Context, from int64) ([]limit.Usage, error)
	// PutUsage stores sums, and deletes sums of hours before from.
	PutUsage(ctx context.Context, list []limit.Usage, from int64) error
}

// Quotas limit the stored data of principals. The store reports its writes with the principal that
// caused them, for all surfaces; new calls and runs are refused above the limit.
type Quotas struct {
	// Refused is called for every refused principal.
	Refused func(principal string)

	book *limit.Book
	log  *slog.Logger
}

var _ call.Quota = (*Quotas)(nil)

// New returns quotas without usage.
func New(c config.Quotas, log *slog.Logger) (*Quotas, error) {
	book, err := limit.NewBook(limit.Quota{
		PerSecond: c.BytesPerSecond, Burst: c.BurstBytes, Day: c.DayBytes, InFlight: c.InFlightBytes, InFlightAll: c.InFlightTotalBytes,
	}, nil)
	return &Quotas{book: book, log: log}, err
}

// payer returns the account of a write. An operator at a terminal has a separate account,
// because clients with the same credential must not exhaust the quota that is needed to stop
// them.
func payer(principal string, p access.Precedence) string {
	if p >= access.PrecedenceOperator {
		return principal + " at a terminal"
	}
	return principal
}

// Wrote must be called for every write of the store, with the principal that caused it.
func (q *Quotas) Wrote(actor string, p access.Precedence, bytes int64) {
	if actor != "" && actor != journal.Daemon {
		q.book.Charge(payer(actor, p), bytes)
	}
}

// quotaKeys are the settings of the limits.
var quotaKeys = map[string]string{
	"rate": "quotas.burst_bytes", "day": "quotas.day_bytes", "in_flight": "quotas.in_flight_bytes", "in_flight_all": "quotas.in_flight_total_bytes",
}

// Begin counts an input. Refusals of one principal are combined into one event per minute.
func (q *Quotas) Begin(c access.Caller, p access.Precedence, n int64) (func(), error) {
	end, refused := q.book.Begin(payer(c.Principal.String(), p), n)
	if refused == nil {
		return end, nil
	}
	q.Refused(c.Principal.String())
	return nil, quotaError(c.Principal, refused)
}

// Admit is Begin for data that is stored at once.
func (q *Quotas) Admit(c access.Caller, n int64) error {
	end, err := q.Begin(c, access.PrecedenceNone, n)
	if err == nil {
		end()
	}
	return err
}

func quotaError(who access.Principal, r *limit.Refusal) *reason.Error {
	what := map[string]string{
		"rate":          "%s sent and stored more than %d bytes in a short time",
		"day":           "%s has reached its daily storage quota of %d bytes",
		"in_flight":     "the active calls of %s have reached the input limit of %d bytes",
		"in_flight_all": "with the call of %s, all active calls would exceed the input limit of %d bytes",
	}[r.Limit]
	e := reason.Errorf(reason.QuotaExceeded, "%s", fmt.Sprintf(what, who, r.Most)).WithField("quota", r.Limit)
	if r.RetryAfter == 0 {
		return e.WithRemedy("Wait until some calls have ended, or ask the operator to raise %s.", quotaKeys[r.Limit])
	}
	return e.WithField("retry_after", r.RetryAfter.String()).
		WithRemedy("Try again in %s, or ask the operator to raise %s.", r.RetryAfter.Round(time.Second), quotaKeys[r.Limit])
}

// Restore loads the sums of the day.
func (q *Quotas) Restore(ctx context.Context, db Store) error {
	kept, err := db.Usage(ctx, limit.HourOf(time.Now())-quotaHours)
	q.book.Restore(kept)
	return err
}

// Run stores the sums of the day for the next start.
func (q *Quotas) Run(ctx context.Context, db Store) error {
	tick := time.NewTicker(quotaPeriod)
	defer tick.Stop()
	for ctx.Err() == nil {
		select {
		case <-ctx.Done():
		case <-tick.C:
		}
		if changed := q.book.Changed(); len(changed) > 0 {
			if err := db.PutUsage(context.WithoutCancel(ctx), changed, limit.HourOf(time.Now())-quotaHours); err != nil {
				q.book.Unkept(changed)
				q.log.WarnContext(ctx, "storing the usage of quotas for the next start failed", slog.String("error", err.Error()))
			}
		}
	}
	return nil
}
