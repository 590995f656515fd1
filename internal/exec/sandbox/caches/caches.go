// Package caches manages the build tool directories that the runs of a workspace share, and
// empties directories that grow too large.
//
// Caches are disabled by default, because files that one run wrote reach later runs without
// passing the commit gate.
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

// checkEvery is the interval of checking the cache sizes.
const checkEvery = 10 * time.Minute

// environment returns the variables that point a tool to its cache inside the sandbox.
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

// Caches are the build tool directories that the runs of a workspace share.
type Caches struct {
	dir   string
	names []string
	limit int64
	log   *slog.Logger

	mu sync.Mutex
	// uses counts the runs that use the caches of a workspace. Caches in use are not emptied.
	uses map[string]int
}

// New returns the caches below dir that the settings enable.
func New(dir string, p config.ProcessRunner, log *slog.Logger) *Caches {
	return &Caches{
		dir: dir, names: p.Caches, limit: p.CacheLimitBytes,
		log: log, uses: make(map[string]int),
	}
}

// Open returns the caches of a workspace, created if necessary, and a function that ends their
// use.
func (c *Caches) Open(workspace string) ([]sandbox.Cache, func(), error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	var list []sandbox.Cache
	for _, name := range c.names {
		dir := filepath.Join(c.dir, workspace, name)
		if err := os.MkdirAll(dir, 0o700); err != nil {
			return nil, nil, reason.Errorf(reason.SpawnFailed, "making the cache of %s: %w", name, err).
				WithRemedy("Give the user of palyrad write access to %s.", c.dir)
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

// Run measures the caches every ten minutes and empties those beyond the limit, until ctx ends.
// Calls do not wait for it.
func (c *Caches) Run(ctx context.Context) error {
	if len(c.names) == 0 {
		return nil
	}
	for {
		if err := c.sweep(); err != nil {
			c.log.WarnContext(ctx, "checking the caches of programs failed", slog.String("error", err.Error()))
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
		// A cache that a program made unmeasurable counts as too large, otherwise it would never
		// be emptied again.
		size, err := c.size(w.Name())
		if err != nil || size > c.limit {
			err = c.empty(w.Name(), size)
		}
		errs = append(errs, err)
	}
	return errors.Join(errs...)
}

// size returns the size of a workspace's caches in bytes. It does not count files that a run
// removes during the measurement.
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

// oldDir is the directory, next to the caches of workspaces, to which caches are moved for
// removal.
const oldDir = ".old"

// empty removes the contents of a workspace's caches. Caches that a run uses are left for the
// next round. The cache directories themselves stay, because a prepared sandbox may have them
// mounted.
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
	c.log.Info("the caches of a workspace exceeded process_runner.cache_limit_bytes and were emptied",
		slog.String("workspace", workspace), slog.Int64("bytes", size))
	return nil
}

// putAside moves all contents out of the caches. A starting run waits for putAside, so it moves
// the contents instead of removing them.
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
				// A directory without write permission cannot be moved.
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

// removeOld removes the moved contents, regardless of the permissions that programs set on
// them.
func removeOld(root *os.Root) error {
	dir, err := root.Open(".")
	if err != nil {
		return err
	}
	defer dir.Close()
	return overlay.RemoveTree(dir, oldDir)
}
