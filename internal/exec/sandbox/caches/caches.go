// Package caches keeps the directories of build tools that runs of one workspace
// share, and empties those that have grown too large.
package caches

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"sync"
	"time"

	"palyra/internal/core/config"
	"palyra/internal/core/reason"
	"palyra/internal/exec/sandbox"
	"palyra/internal/exec/workspace/overlay"
)

// checkEvery is how often the sizes of caches are looked at.
const checkEvery = 10 * time.Minute

// environment points a tool to its cache inside.
func environment(name string) []string {
	at := sandbox.CacheMount + "/" + name
	switch name {
	case "go":
		return []string{"GOCACHE=" + at + "/build", "GOMODCACHE=" + at + "/mod"}
	case "npm":
		return []string{"npm_config_cache=" + at}
	case "pip":
		return []string{"PIP_CACHE_DIR=" + at}
	case "cargo":
		return []string{"CARGO_HOME=" + at}
	}
	return nil
}

// Caches are the directories of build tools that runs of one workspace share.
type Caches struct {
	dir   string
	names []string
	limit int64
	log   *slog.Logger

	mu sync.Mutex
	// uses counts the runs that see the caches of a workspace, which are not
	// emptied meanwhile.
	uses map[string]int
}

// New returns the caches below dir that the settings ask for.
func New(dir string, p config.ProcessRunner, log *slog.Logger) *Caches {
	return &Caches{
		dir: dir, names: p.Caches, limit: p.CacheLimitBytes,
		log: log, uses: make(map[string]int),
	}
}

// Open returns the caches of a workspace, made if need be, and a function that
// ends their use.
func (c *Caches) Open(workspace string) ([]sandbox.Cache, func(), error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	var list []sandbox.Cache
	for _, name := range c.names {
		dir := filepath.Join(c.dir, workspace, name)
		if err := os.MkdirAll(dir, 0o700); err != nil {
			return nil, nil, reason.Errorf(reason.SpawnFailed, "making the cache of %s: %w", name, err).
				WithRemedy("Let the user that palyrad runs as write to %s.", c.dir)
		}
		list = append(list, sandbox.Cache{Name: name, Dir: dir, Env: environment(name)})
	}
	c.uses[workspace]++
	return list, func() { c.done(workspace) }, nil
}

func (c *Caches) done(workspace string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.uses[workspace]--; c.uses[workspace] == 0 {
		delete(c.uses, workspace)
	}
}

// Run measures the caches every ten minutes and empties those that have grown
// beyond the limit, until ctx ends. Calls do not wait for it.
func (c *Caches) Run(ctx context.Context) error {
	if len(c.names) == 0 {
		return nil
	}
	for {
		if err := c.sweep(); err != nil {
			c.log.WarnContext(ctx, "looking at the caches of programs failed", slog.String("error", err.Error()))
		}
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(checkEvery):
		}
	}
}

func (c *Caches) sweep() error {
	workspaces, err := os.ReadDir(c.dir)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("reading the caches: %w", err)
	}
	var errs []error
	for _, w := range workspaces {
		// What a program made impossible to measure counts as too much: else it
		// would never be emptied again.
		size, err := c.size(w.Name())
		if err != nil || size > c.limit {
			err = c.empty(w.Name(), size)
		}
		errs = append(errs, err)
	}
	return errors.Join(errs...)
}

// size is that of a workspace's caches in bytes. What a run removes meanwhile
// does not count.
func (c *Caches) size(workspace string) (int64, error) {
	var total int64
	err := filepath.WalkDir(filepath.Join(c.dir, workspace), func(_ string, entry fs.DirEntry, err error) error {
		if errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		if err != nil {
			return err
		}
		info, err := entry.Info()
		if err == nil && info.Mode().IsRegular() {
			total += info.Size()
		}
		return nil
	})
	if err != nil {
		return 0, fmt.Errorf("measuring the caches of %s: %w", workspace, err)
	}
	return total, nil
}

// oldDir is the directory beside the caches of a workspace where they go to
// be removed.
const oldDir = ".old"

// empty removes the contents of a workspace's caches, unless a run uses them:
// those are left for the next round. The cache directories themselves stay, since
// a prepared sandbox may have them mounted.
func (c *Caches) empty(workspace string, size int64) error {
	root, err := os.OpenRoot(filepath.Join(c.dir, workspace))
	if err != nil {
		return fmt.Errorf("emptying the caches of %s: %w", workspace, err)
	}
	defer root.Close()
	moved, err := c.putAside(root, workspace)
	if err != nil || !moved {
		return err
	}
	if err := removeOld(root); err != nil {
		return fmt.Errorf("emptying the caches of %s: %w", workspace, err)
	}
	c.log.Info("the caches of a workspace had grown beyond process_runner.cache_limit_bytes and are empty",
		slog.String("workspace", workspace), slog.Int64("bytes", size))
	return nil
}

// putAside moves everything out of the caches, which takes no time: a run that
// begins waits for it.
func (c *Caches) putAside(root *os.Root, workspace string) (bool, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.uses[workspace] > 0 {
		return false, nil
	}
	if err := root.MkdirAll(oldDir, 0o700); err != nil {
		return false, fmt.Errorf("emptying the caches of %s: %w", workspace, err)
	}
	for _, name := range config.Caches {
		entries, err := fs.ReadDir(root.FS(), name)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		for _, entry := range entries {
			if entry.IsDir() {
				// Without the right to write to it, it cannot be moved.
				err = errors.Join(err, root.Chmod(name+"/"+entry.Name(), 0o700))
			}
			err = errors.Join(err, root.Rename(name+"/"+entry.Name(), oldDir+"/"+rand.Text()))
		}
		if err != nil {
			return false, fmt.Errorf("emptying the caches of %s: %w", workspace, err)
		}
	}
	return true, nil
}

// removeOld removes what was put aside, whatever programs left there.
func removeOld(root *os.Root) error {
	dir, err := root.Open(".")
	if err != nil {
		return err
	}
	defer dir.Close()
	return overlay.RemoveTree(dir, oldDir)
}
