package run

import (
	"context"
	"fmt"
	"log/slog"

	"palyra/internal/evidence/journal"
)

// CloseInterrupted ends the runs that were active when the gateway stopped and returns their
// number. It is called at the start, before any run is admitted and after call.CloseAmbiguous, so
// that the end of a run is its last event.
func CloseInterrupted(ctx context.Context, store Store, log *slog.Logger) (int, error) {
	closed := 0
	f := Filter{States: []State{Running}, PageSize: maxPage}
	for {
		page, next, err := store.List(ctx, f)
		if err != nil {
			return closed, fmt.Errorf("listing active runs: %w", err)
		}
		for _, record := range page {
			if err := closeInterrupted(ctx, store, log, record); err != nil {
				return closed, fmt.Errorf("closing run %s: %w", record.ID, err)
			}
			closed++
		}
		if f.PageToken = next; next == "" {
			return closed, nil
		}
	}
}

func closeInterrupted(ctx context.Context, store Store, log *slog.Logger, record Record) error {
	var err error
	if record.Usage, err = usageOf(ctx, store, log, record); err != nil {
		return err
	}
	record = interrupted().apply(record)
	w, err := finishedWrite(record)
	if err != nil {
		return err
	}
	_, err = store.End(ctx, record, w)
	return err
}

// usageOf computes the usage of a run from its events, as far as they are readable.
func usageOf(ctx context.Context, store Store, log *slog.Logger, record Record) (Usage, error) {
	counted := newMapper(record)
	for after := int64(0); ; {
		page, err := store.Events(ctx, journal.Filter{Run: record.ID, After: after, Limit: replayPage})
		if err != nil {
			return Usage{}, err
		}
		for _, e := range page {
			if _, err := counted.next(e); err != nil {
				// An unreadable event must not prevent the start.
				log.ErrorContext(ctx, "reading an event of an interrupted run failed", slog.String("run", record.ID), slog.Any("error", err))
			}
			after = e.Seq
		}
		if len(page) < replayPage {
			return counted.usage, nil
		}
	}
}
