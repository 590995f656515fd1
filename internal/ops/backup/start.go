package backup

import (
	"context"
	"fmt"
	"time"

	"palyra/internal/call/approval"
	"palyra/internal/core/event"
	"palyra/internal/core/reason"
	"palyra/internal/core/text"
	"palyra/internal/evidence/journal"
)

// Parts are the components that the first start of a restored gateway changes.
type Parts struct {
	StateDir  string
	Journal   *journal.Log
	Approvals approval.Store
	// EndLogins ends all login sessions and returns their number.
	EndLogins func(ctx context.Context, why string) (int, error)
	// Now is the clock, which must not be before the newest event.
	Now func() time.Time
}

// Start prepares a restored gateway: it freezes the gateway, ends earlier approvals, grants and
// logins, journals that, and signs a checkpoint. Without a mark it does nothing. If it is
// interrupted, the next start completes it. started is false if there was nothing to do.
func Start(ctx context.Context, p Parts) (r journal.Restored, started bool, err error) {
	return start(ctx, p, func(string) {})
}

// start calls reached at each step.
func start(ctx context.Context, p Parts, reached func(string)) (r journal.Restored, started bool, err error) {
	mark, waits, err := ReadMark(p.StateDir)
	if err != nil || !waits {
		return r, false, err
	}
	if r, err = p.end(ctx, mark); err != nil {
		return r, false, fmt.Errorf("starting from a backup: %w", err)
	}
	reached("ended")
	if _, err := p.Journal.Checkpoints.Write(ctx); err != nil {
		return r, false, fmt.Errorf("signing the start from a backup: %w", err)
	}
	reached("signed")
	return r, true, RemoveMark(p.StateDir)
}

// end writes all changes in one unit, unless an interrupted start already wrote them.
func (p Parts) end(ctx context.Context, mark Mark) (journal.Restored, error) {
	r := mark.Restored
	if head := p.Journal.Head().Seq; head < r.Backup.Size {
		return r, reason.Errorf(reason.VerificationFailed, "the journal has %s, but the backup had %d", text.Plural(head, "event"), r.Backup.Size)
	}
	done, err := p.Journal.List(ctx, journal.Filter{Code: string(event.Restored), Subject: mark.ID, Limit: 1})
	if err != nil {
		return r, err
	}
	if len(done) > 0 {
		return journal.ParseRestored(&done[0])
	}
	why := Why(r.MadeAt)
	// Logins end in a separate unit, because ending them again changes nothing.
	if r.Ended.Logins, err = p.EndLogins(ctx, why); err != nil {
		return r, err
	}
	_, err = approval.EndRestored(ctx, p.Approvals, approval.Restored{
		Note: why, At: p.Now(),
		Event: func(n approval.RestoredEnds) (event.Draft, error) {
			r.Ended.Grants, r.Ended.Cancelled, r.Ended.Revoked = n.Grants, n.Cancelled, n.Revoked
			return event.DraftOf(event.Restored, journal.Daemon, mark.ID, r)
		},
	})
	return r, err
}
