package caches

import (
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"palyra/internal/core/config"
	"palyra/internal/core/must"
	"palyra/internal/exec/sandbox"
)

func newTestCaches(t *testing.T, limit int64) *Caches {
	t.Helper()
	return New(filepath.Join(t.TempDir(), "cache"), config.ProcessRunner{Caches: []string{"go", "npm"}, CacheLimitBytes: limit}, slog.New(slog.DiscardHandler))
}

// fill writes typical remains of a build tool: files in a read-only directory, and links out of
// the cache.
func fill(t *testing.T, c sandbox.Cache, outside string) {
	t.Helper()
	mod := filepath.Join(c.Dir, "mod", "example.org")
	must.Do(t, os.MkdirAll(mod, 0o755))
	must.Write(t, filepath.Join(mod, "a.go"), "0123456789")
	must.Do(t, os.Symlink(outside, filepath.Join(c.Dir, "link")))
	chmod(t, mod, 0o500)
}

func TestCachesOfAWorkspace(t *testing.T) {
	t.Parallel()
	c := newTestCaches(t, 1<<20)
	list, release, err := c.Open("default")
	must.Do(t, err)
	defer release()
	if len(list) != 2 || list[0].Name != "go" || list[0].Dir != filepath.Join(c.dir, "default", "go") || list[0].Env[0] != "GOCACHE=/cache/go/build" || list[1].Env[0] != "npm_config_cache=/cache/npm" {
		t.Errorf("caches %+v", list)
	}
	for _, cache := range list {
		if info, err := os.Stat(cache.Dir); err != nil || info.Mode().Perm() != 0o700 {
			t.Errorf("%s: %v, %v", cache.Dir, info, err)
		}
	}
	for _, name := range config.Caches {
		if len(environment(name)) == 0 {
			t.Errorf("nothing points %s to its cache", name)
		}
	}
}

// TestCachesAreEmptied: caches are emptied only if they exceed the limit and are not in use.
func TestCachesAreEmptied(t *testing.T) {
	t.Parallel()
	for _, row := range []struct {
		name  string
		limit int64
		used  bool
		kept  bool
	}{
		{"over the limit", 5, false, false},
		{"within", 10, false, true},
		{"in use", 5, true, true},
	} {
		t.Run(row.name, func(t *testing.T) {
			outside := t.TempDir()
			must.Write(t, filepath.Join(outside, "mine"), "x")
			c := newTestCaches(t, row.limit)
			list, release, err := c.Open("default")
			must.Do(t, err)
			fill(t, list[0], outside)
			if !row.used {
				release()
			}
			must.Do(t, c.sweep())
			_, err = os.Stat(filepath.Join(list[0].Dir, "mod", "example.org", "a.go"))
			if kept := err == nil; kept != row.kept {
				t.Errorf("kept: %t", kept)
			}
			if _, err := os.Stat(list[0].Dir); err != nil {
				t.Errorf("a prepared sandbox has lost its mount: %v", err)
			}
			if _, err := os.Stat(filepath.Join(outside, "mine")); err != nil {
				t.Errorf("a link led the removal outside: %v", err)
			}
			if _, err := os.Lstat(filepath.Join(c.dir, "default", oldDir)); err == nil {
				t.Error("what was put aside is still there")
			}
			must.Check(t, filepath.WalkDir(c.dir, func(name string, e os.DirEntry, _ error) error {
				if e != nil && e.IsDir() {
					return os.Chmod(name, 0o700)
				}
				return nil
			}))
		})
	}
}

// TestCachesThatCannotBeMeasured: unmeasurable caches are emptied as well. Otherwise a
// directory that is too deep or inaccessible would let a cache grow without limit.
func TestCachesThatCannotBeMeasured(t *testing.T) {
	t.Parallel()
	c := newTestCaches(t, 1<<20)
	list, release, err := c.Open("default")
	must.Do(t, err)
	release()
	root := must.Get(os.OpenRoot(list[0].Dir))(t)
	must.Write(t, filepath.Join(list[1].Dir, "big"), "x")
	for range 60 {
		name := strings.Repeat("d", 100)
		must.Do(t, root.Mkdir(name, 0o700))
		next, err := root.OpenRoot(name)
		root.Close()
		if root = next; err != nil {
			t.Fatal(err)
		}
	}
	root.Close()
	must.Do(t, os.Mkdir(filepath.Join(list[1].Dir, "closed"), 0))
	must.Do(t, c.sweep())
	for _, cache := range list {
		if left, err := os.ReadDir(cache.Dir); err != nil || len(left) > 0 {
			t.Errorf("left in %s: %v, %v", cache.Name, left, err)
		}
	}
}

func chmod(t *testing.T, path string, mode os.FileMode) {
	t.Helper()
	must.Do(t, os.Chmod(path, mode))
}
