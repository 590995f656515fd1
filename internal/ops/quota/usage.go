// Package quota bounds what principals leave behind, and keeps what they left
// over a restart.
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
	// quotaPeriod is how often what was left behind is kept for the next start.
	quotaPeriod = 10 * time.Second
	// quotaHours is how many hours are kept.
	quotaHours = 25
)

// Store keeps the sums of the day.
type Store interface {
	// Usage returns the sums of the hours from one on.
	Usage(ctx context.Context, from int64) ([]limit.Usage, error)
	// PutUsage keeps sums, and forgets those of hours before from.
	PutUsage(ctx context.Context, list []limit.Usage, from int64) error
}

// Quotas bound what principals leave behind. The store tells what it wrote,
// whoever asked for it and by which way; calls and runs are refused by it.
type Quotas struct {
	// Refused is told of every principal that is refused.
	Refused func(principal string)

	book *limit.Book
	log  *slog.Logger
}

var _ call.Quota = (*Quotas)(nil)

// New returns quotas that count from nothing.
func New(c config.Quotas, log *slog.Logger) (*Quotas, error) {
	book, err := limit.NewBook(limit.Quota{
		PerSecond: c.BytesPerSecond, Burst: c.BurstBytes, Day: c.DayBytes, InFlight: c.InFlightBytes, InFlightAll: c.InFlightTotalBytes,
	}, nil)
	return &Quotas{book: book, log: log}, err
}

// payer is whose bytes they are. An operator at a terminal is counted apart from
// clients with the same credential: these shall not use up what he needs to stop
// them.
func payer(principal string, p access.Precedence) string {
	if p >= access.PrecedenceOperator {
		return principal + " at a terminal"
	}
	return principal
}

// Wrote is told of everything that the store wrote, and of who caused it.
func (q *Quotas) Wrote(actor string, p access.Precedence, bytes int64) {
	if actor != "" && actor != journal.Daemon {
		q.book.Charge(payer(actor, p), bytes)
	}
}

// quotaKeys are the settings behind the limits.
var quotaKeys = map[string]string{
	"rate": "quotas.burst_bytes", "day": "quotas.day_bytes", "in_flight": "quotas.in_flight_bytes", "in_flight_all": "quotas.in_flight_total_bytes",
}

// Begin counts an input in. Refusals of one principal become one event a minute.
func (q *Quotas) Begin(c access.Caller, p access.Precedence, n int64) (func(), error) {
	end, refused := q.book.Begin(payer(c.Principal.String(), p), n)
	if refused == nil {
		return end, nil
	}
	q.Refused(c.Principal.String())
	return nil, quotaError(c.Principal, refused)
}

// Admit is Begin for what is kept at once.
func (q *Quotas) Admit(c access.Caller, n int64) error {
	end, err := q.Begin(c, access.PrecedenceNone, n)
	if err == nil {
		end()
	}
	return err
}

func quotaError(who access.Principal, r *limit.Refusal) *reason.Error {
	what := map[string]string{
		"rate":          "%s brought and left behind more than %d bytes in a short time",
		"day":           "%s left behind as much as it may within a day: %d bytes",
		"in_flight":     "the calls of %s that have not ended have as much input as they may: %d bytes",
		"in_flight_all": "with the call of %s, the calls that have not ended would have more input than they may: %d bytes",
	}[r.Limit]
	e := reason.Errorf(reason.QuotaExceeded, "%s", fmt.Sprintf(what, who, r.Most)).WithField("quota", r.Limit)
	if r.RetryAfter == 0 {
		return e.WithRemedy("Wait until some calls have ended, or ask the operator to raise %s.", quotaKeys[r.Limit])
	}
	return e.WithField("retry_after", r.RetryAfter.String()).
		WithRemedy("Try again in %s, or ask the operator to raise %s.", r.RetryAfter.Round(time.Second), quotaKeys[r.Limit])
}

// Restore takes up the sums of the day.
func (q *Quotas) Restore(ctx context.Context, db Store) error {
	kept, err := db.Usage(ctx, limit.HourOf(time.Now())-quotaHours)
	q.book.Restore(kept)
	return err
}

// Run keeps the sums of the day for the next start.
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
				q.log.WarnContext(ctx, "what quotas count was not kept for the next start", slog.String("error", err.Error()))
			}
		}
	}
	return nil
}
