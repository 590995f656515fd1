//go:build unix

package policyadmin_test

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"palyra/internal/call/policy"
	"palyra/internal/call/policyadmin"
	"palyra/internal/core/change"
	"palyra/internal/core/config"
	"palyra/internal/core/must"
	"palyra/internal/core/trusted"
	"palyra/internal/gateway/gatewaytest"
	"palyra/internal/store/sqlite"
	"palyra/internal/store/sqlite/sqlitetest"
)

// TestDirectoryThatOthersChange: policies that other users could have written never come into
// force. The set in force stays in force. This also holds at a start, which logs the reason. A
// first start fails.
func TestDirectoryThatOthersChange(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		// spoil makes the directory writable for others, and mend reverts that.
		spoil, mend func(t *testing.T, dir string)
	}{
		"the directory":       {chmod("", 0o777), chmod("", 0o700)},
		"a file":              {chmod("10-own.cedar", 0o666), chmod("10-own.cedar", 0o600)},
		"the directory above": {chmod("..", 0o777), chmod("..", 0o755)},
		"a file in a workspace": {func(t *testing.T, dir string) {
			inside := filepath.Join(filepath.Dir(dir), "work", "20.cedar")
			must.Write(t, inside, forbids("fs.read"))
			must.Do(t, os.Symlink(inside, filepath.Join(dir, "20.cedar")))
		}, func(t *testing.T, dir string) { must.Do(t, os.Remove(filepath.Join(dir, "20.cedar"))) }},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			base := must.Get(filepath.EvalSymlinks(t.TempDir()))(t)
			dir := filepath.Join(base, "config", "policies")
			must.Do(t, os.MkdirAll(dir, 0o700))
			must.Do(t, os.MkdirAll(filepath.Join(base, "config", "work"), 0o700))
			must.Write(t, filepath.Join(dir, "10-own.cedar"), forbids("echo"))
			store := sqlite.NewPolicies(sqlitetest.Open(t))
			start := func(store policyadmin.Store) (*policyadmin.Admin, *gatewaytest.Log, error) {
				log, cfg := &gatewaytest.Log{}, config.Default()
				cfg.Policy.Dir, cfg.Workspaces = dir, []config.Workspace{{Name: "work", Path: filepath.Join(base, "config", "work")}}
				p := policyadmin.New(policyadmin.Config{
					Guard:    change.Unguarded,
					Settings: cfg, Store: store, Journal: noJournal{}, Engine: &policy.Engine{}, Members: oneOwner{}, Tools: builtinTools{}, Swapped: func() {}, Log: log.Logger(),
				})
				return p, log, p.Loader.Load(t.Context())
			}
			p, _, err := start(store)
			must.Do(t, err)
			first := p.Active.Set().Version()

			c.spoil(t, dir)
			must.Write(t, filepath.Join(dir, "30.cedar"), forbids("fs.write"))
			if _, err := p.Loader.Reload(t.Context(), operatorCaller()); !errors.Is(err, trusted.ErrUntrusted) || p.Active.Set().Version() != first {
				t.Errorf("a reload: %v, version %s", err, p.Active.Set().Version())
			}
			if d := p.Loader.Directory(); d.InForce || !strings.Contains(d.Problem, trusted.ErrUntrusted.Error()) {
				t.Errorf("the directory: %+v", d)
			}
			again, log, err := start(store)
			if err != nil || again.Active.Set().Version() != first || log.Count("policy did not load") != 1 {
				t.Errorf("a start: %v, version %s", err, again.Active.Set().Version())
			}
			if _, _, err := start(sqlite.NewPolicies(sqlitetest.Open(t))); !errors.Is(err, trusted.ErrUntrusted) {
				t.Errorf("a first start: %v", err)
			}
			// Control.
			c.mend(t, dir)
			must.Get(p.Loader.Reload(t.Context(), operatorCaller()))(t)
			if p.Active.Set().Version() == first || !p.Loader.Directory().InForce {
				t.Error("what is mended does not come into force")
			}
		})
	}
}

func chmod(name string, mode os.FileMode) func(*testing.T, string) {
	return func(t *testing.T, dir string) {
		t.Helper()
		must.Do(t, os.Chmod(filepath.Join(dir, name), mode))
	}
}

// TestDirectoryOfLinks: a directory of links to links, as Kubernetes creates, loads, also after the
// links have changed.
func TestDirectoryOfLinks(t *testing.T) {
	t.Parallel()
	dir := must.Get(filepath.EvalSymlinks(t.TempDir()))(t)
	put := func(version, tool string) {
		must.Do(t, os.Mkdir(filepath.Join(dir, version), 0o755))
		must.Write(t, filepath.Join(dir, version, "10-own.cedar"), forbids(tool))
		must.Do(t, os.Symlink(version, filepath.Join(dir, "..data_tmp")))
		must.Do(t, os.Rename(filepath.Join(dir, "..data_tmp"), filepath.Join(dir, "..data")))
	}
	put("..2026_11_28_01", "echo")
	must.Do(t, os.Symlink("..data/10-own.cedar", filepath.Join(dir, "10-own.cedar")))
	p, _ := openedAt(t, dir)
	first := p.Active.Set().Version()
	if d := p.Loader.Directory(); d.Policies != 1 || !d.InForce {
		t.Errorf("%+v", d)
	}
	put("..2026_11_28_02", "fs.read")
	must.Get(p.Loader.Reload(t.Context(), operatorCaller()))(t)
	if p.Active.Set().Version() == first || !p.Loader.Directory().InForce {
		t.Error("the turned links do not count")
	}
}
