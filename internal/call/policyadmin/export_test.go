package policyadmin

import (
	"context"
	"time"

	"github.com/fsnotify/fsnotify"

	"palyra/internal/call/policy"
)

// Follow reloads on the events of a watcher.
func (w *Watcher) Follow(ctx context.Context, events chan fsnotify.Event, faults chan error, reload chan struct{}) error {
	return w.follow(ctx, &dirChanges{events: events, errors: faults}, reload)
}

// FollowDirectory reloads on the events of a watcher of the policy directory. The watcher checks
// for another directory when look receives.
func (w *Watcher) FollowDirectory(ctx context.Context, look chan time.Time) error {
	files, err := watchDir(w.loader.Dir())
	if err != nil {
		return err
	}
	defer files.close()
	files.look = look
	return w.follow(ctx, files, nil)
}

// DirectoryChanged handles a change of the directory.
func (l *Loader) DirectoryChanged(ctx context.Context) error { return l.directoryChanged(ctx) }

// Set returns the set in force.
func (a *Active) Set() *policy.Set { return a.engine.Current() }

// Dir returns the policy directory.
func (l *Loader) Dir() string { return l.settings.Policy.Dir }
