package policyadmin

import (
	"context"
	"time"

	"github.com/fsnotify/fsnotify"

	"palyra/internal/call/policy"
)

// Follow reloads as a watcher says.
func (p *Admin) Follow(ctx context.Context, events chan fsnotify.Event, faults chan error, reload chan struct{}) error {
	return p.follow(ctx, &dirChanges{events: events, errors: faults}, reload)
}

// FollowDirectory reloads as a watcher of the policy directory says, which looks
// for another directory when it is told to.
func (p *Admin) FollowDirectory(ctx context.Context, look chan time.Time) error {
	files, err := watchDir(p.Dir())
	if err != nil {
		return err
	}
	defer files.close()
	files.look = look
	return p.follow(ctx, files, nil)
}

// DirectoryChanged is what happens when the directory has changed.
func (p *Admin) DirectoryChanged(ctx context.Context) error { return p.directoryChanged(ctx) }

// Set is the one in force.
func (p *Admin) Set() *policy.Set { return p.use.Engine.Current() }

// Dir is the policy directory.
func (p *Admin) Dir() string { return p.use.Settings.Policy.Dir }
