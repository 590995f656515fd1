package policyadmin

import (
	"context"
	"time"

	"github.com/fsnotify/fsnotify"

	"palyra/internal/call/policy"
)

// Follow reloads on the events of a watcher.
func (p *Admin) Follow(ctx context.Context, events chan fsnotify.Event, faults chan error, reload chan struct{}) error {
	return p.follow(ctx, &dirChanges{events: events, errors: faults}, reload)
}

// FollowDirectory reloads on the events of a watcher of the policy directory. The watcher checks
// for another directory when look receives.
func (p *Admin) FollowDirectory(ctx context.Context, look chan time.Time) error {
	files, err := watchDir(p.Dir())
	if err != nil {
		return err
	}
	defer files.close()
	files.look = look
	return p.follow(ctx, files, nil)
}

// DirectoryChanged handles a change of the directory.
func (p *Admin) DirectoryChanged(ctx context.Context) error { return p.directoryChanged(ctx) }

// Set returns the set in force.
func (p *Admin) Set() *policy.Set { return p.use.Engine.Current() }

// Dir returns the policy directory.
func (p *Admin) Dir() string { return p.use.Settings.Policy.Dir }
