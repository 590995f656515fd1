package registry

import (
	"context"
	"log/slog"
	"sync"

	"palyra/internal/core/event"
)

// damages records tampered packages and rows in the journal and the log, each of them once.
type damages struct {
	store Store
	log   *slog.Logger
	mu    sync.Mutex
	// reported holds the damages that the journal already has.
	reported map[string]bool
}

// report records a damage in the journal and the log. A failure to write the journal is only
// logged, because the caller returns the error of the damage itself.
func (d *damages) report(ctx context.Context, one damagePayload, subject string) {
	if err := d.record(ctx, one, subject); err != nil {
		d.log.ErrorContext(ctx, "recording a damaged skill in the journal failed", slog.Any("error", err))
	}
}

// record records a damage in the journal once.
func (d *damages) record(ctx context.Context, one damagePayload, subject string) error {
	d.mu.Lock()
	reported := d.reported[subject+one.What]
	d.reported[subject+one.What] = true
	d.mu.Unlock()
	if reported {
		return nil
	}
	d.log.WarnContext(ctx, "a skill, its package or its publisher was changed outside of palyrad, and does not run", slog.String("skill", subject), slog.String("problem", one.What))
	var before damagePayload
	if _, found, err := lastEvent(ctx, d.store, &before, subject, event.SkillTampered); err != nil || found && before == one {
		return err
	}
	e, err := event.DraftOf(event.SkillTampered, "service:palyrad", subject, one)
	if err != nil {
		return err
	}
	return d.store.ChangeSkills(context.WithoutCancel(ctx), Change{Events: []event.Draft{e}})
}
