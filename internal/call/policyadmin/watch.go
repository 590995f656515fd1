package policyadmin

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/fsnotify/fsnotify"

	"palyra/internal/evidence/journal"
)

// Watcher reloads when the directory or the members change.
type Watcher struct {
	active *Active
	loader *Loader
	log    *slog.Logger
	// changed is signalled when members changed.
	changed chan struct{}
}

// Watch reloads when the directory changes, when members change, and when reload receives. Several
// changes at once cause one reload.
func (w *Watcher) Watch(ctx context.Context, reload <-chan struct{}) error {
	files, err := watchDir(w.loader.settings.Policy.Dir)
	if err != nil {
		w.log.WarnContext(ctx, "the policy directory is not watched; use `palyra policy reload`", slog.String("error", err.Error()))
	}
	defer files.close()
	// Changes between the start and this point have not been detected.
	if d := w.loader.Directory(); d.Present && !d.InForce && !w.active.Current().Activated {
		report(ctx, w.log, w.loader.directoryChanged(ctx))
	}
	return w.follow(ctx, files, reload)
}

// follow reloads until ctx ends. An error of the watcher, such as an overflow, may hide changes, so
// it also causes a reload.
func (w *Watcher) follow(ctx context.Context, files *dirChanges, reload <-chan struct{}) error {
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-w.changed:
			report(ctx, w.log, w.active.Rebuild(ctx, journal.Daemon))
			continue
		case <-reload:
			report(ctx, w.log, w.loader.signalled(ctx))
			continue
		case err := <-files.errors:
			w.missed(ctx, err)
		case <-files.events:
		case <-files.look:
			if !files.moved() {
				continue
			}
		}
		if !w.settle(ctx, files) {
			return nil
		}
		report(ctx, w.log, w.loader.directoryChanged(ctx))
	}
}

// report logs why a set did not load.
func report(ctx context.Context, log *slog.Logger, err error) {
	if err != nil {
		log.ErrorContext(ctx, "policy did not load; the running set stays", slog.String("error", err.Error()))
	}
}

func (w *Watcher) missed(ctx context.Context, err error) {
	w.log.WarnContext(ctx, "watching the policy directory failed; it is read again", slog.String("error", err.Error()))
}

// settle waits until the directory has been unchanged for a moment, because editors write a file in
// several steps.
func (w *Watcher) settle(ctx context.Context, files *dirChanges) bool {
	const quiet = 100 * time.Millisecond
	timer := time.NewTimer(quiet)
	defer timer.Stop()
	for {
		select {
		case <-ctx.Done():
			return false
		case <-files.events:
			timer.Reset(quiet)
		case err := <-files.errors:
			w.missed(ctx, err)
			timer.Reset(quiet)
		case <-timer.C:
			// The directory that is read next is the one that is watched from now on.
			files.moved()
			return true
		}
	}
}

// lookEvery is the interval of checks whether the directory appeared, disappeared or was replaced.
// A watcher detects only changes within an open directory.
const lookEvery = 2 * time.Second

// dirChanges are the events of a watcher of a directory and its tests. Both channels MUST be read,
// because the watcher blocks until they are.
type dirChanges struct {
	events <-chan fsnotify.Event
	errors <-chan error
	// look receives when moved must be called.
	look <-chan time.Time

	watcher *fsnotify.Watcher
	ticker  *time.Ticker
	places  []place
}

// place is a directory that is watched while it exists.
type place struct {
	path string
	// was is the directory at the last check, nil if it did not exist.
	was os.FileInfo
}

// watchDir watches a directory, which need not exist yet. For "" it watches no directory.
func watchDir(dir string) (*dirChanges, error) {
	if dir == "" {
		return &dirChanges{}, nil
	}
	w, err := fsnotify.NewWatcher()
	if err != nil {
		return &dirChanges{}, fmt.Errorf("watching %s: %w", dir, err)
	}
	d := &dirChanges{
		events: w.Events, errors: w.Errors, watcher: w, ticker: time.NewTicker(lookEvery),
		places: []place{{path: dir}, {path: filepath.Join(dir, testsDir)}},
	}
	d.look = d.ticker.C
	d.moved()
	return d, nil
}

func (d *dirChanges) close() {
	if d.watcher != nil {
		d.ticker.Stop()
		_ = d.watcher.Close()
	}
}

// moved watches the directories that now exist, and reports whether they differ from the last
// check. A directory that cannot be watched is checked again.
func (d *dirChanges) moved() bool {
	changed := false
	for i := range d.places {
		at := &d.places[i]
		is, err := os.Stat(at.path)
		if err != nil || !is.IsDir() {
			is = nil
		}
		same := is == at.was || is != nil && at.was != nil && os.SameFile(is, at.was)
		if same && (is == nil || slices.Contains(d.watcher.WatchList(), at.path)) {
			continue
		}
		_ = d.watcher.Remove(at.path)
		if is != nil && d.watcher.Add(at.path) != nil {
			is = nil
		}
		changed = changed || !same || is != nil
		at.was = is
	}
	return changed
}
