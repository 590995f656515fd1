package watch

import (
	"context"
	"log/slog"
	"path/filepath"
	"time"

	"github.com/fsnotify/fsnotify"
)

// lookEvery is the interval of checks independent of change notifications. quiet is how long a
// directory must be unchanged before a check, because editors write in steps.
const (
	lookEvery = 30 * time.Second
	quiet     = 100 * time.Millisecond
)

// Run checks the files when the system reports a change in their directories, and periodically,
// until ctx ends.
func (w *Watcher) Run(ctx context.Context) error {
	files, err := fsnotify.NewWatcher()
	if err != nil {
		w.log.WarnContext(ctx, "files of agents are checked only periodically", slog.String("error", err.Error()))
		return w.run(ctx, nil, nil, func() {})
	}
	defer func() { _ = files.Close() }()
	return w.run(ctx, files.Events, files.Errors, func() {
		for _, i := range w.all() {
			for _, e := range i.Entries {
				// A missing directory is noticed by the next check.
				_ = files.Add(filepath.Dir(e.Path))
			}
		}
	})
}

func (w *Watcher) run(ctx context.Context, events <-chan fsnotify.Event, errs <-chan error, watch func()) error {
	every := time.NewTicker(lookEvery)
	defer every.Stop()
	settled := time.NewTimer(0)
	defer settled.Stop()
	watch()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-w.again:
			watch()
			settled.Reset(quiet) // earlier changes were not reported
		case <-events:
			settled.Reset(quiet)
		case err := <-errs:
			w.log.WarnContext(ctx, "watching files of agents failed; they are checked now", slog.String("error", err.Error()))
			settled.Reset(quiet)
		case <-every.C:
			watch()
			w.report(ctx)
		case <-settled.C:
			w.report(ctx)
		}
	}
}

func (w *Watcher) report(ctx context.Context) {
	if err := w.look(ctx); err != nil && ctx.Err() == nil {
		w.log.ErrorContext(ctx, "checking the hooks that were installed into agents", slog.String("error", err.Error()))
	}
}
