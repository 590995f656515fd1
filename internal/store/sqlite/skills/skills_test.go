package skills_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"palyra/internal/core/access"
	"palyra/internal/core/change"
	"palyra/internal/core/must"
	"palyra/internal/core/reason"
	"palyra/internal/exec/skill"
	"palyra/internal/exec/skill/registry"
	"palyra/internal/exec/skill/registry/registrytest"
	"palyra/internal/store/sqlite"
	"palyra/internal/store/sqlite/skills"
	"palyra/internal/store/sqlite/sqlitetest"
)

func TestStore(t *testing.T) {
	t.Parallel()
	registrytest.RunStore(t, func(t *testing.T) registry.Store { return skills.New(sqlitetest.Open(t)) })
}

// TestForgedRowsDoNotCount: rows that another program writes into the tables are refused: a
// status, another key, or a version that was never installed.
func TestForgedRowsDoNotCount(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct{ sql, says string }{
		"nothing":    {"SELECT 1", "notes@1.0.0 is quarantined"}, // control
		"the status": {"UPDATE skills SET status = 'active'", `it has the status "active", but the journal has "quarantined"`},
		"the digest": {"UPDATE skills SET digest = 'sha256:" + strings.Repeat("0", 64) + "'", "package's digest"},
		"a version":  {"UPDATE skills SET version = '1.0.1', status = 'active'", "version 1.0.0 of the skill notes does not exist"},
		"the pin":    {"UPDATE skill_publishers SET key_id = 'SHA256:mine'", "quarantined"},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			db := sqlitetest.OpenMigrated(t, filepath.Join(dir, "palyra.db"), sqlite.Options{})
			by := access.Caller{Principal: access.User("alice")}
			start := func() *registry.Registry {
				return must.Get(registry.New(t.Context(), registry.Config{Guard: change.Unguarded, Store: skills.New(db), Dir: filepath.Join(dir, "skills"), Limits: skill.DefaultLimits()}))(t)
			}
			r := start()
			must.Get(r.Install(t.Context(), by, registrytest.Stage(t, r, by, registrytest.Package(t, registrytest.Manifest, registrytest.Key("example.org")))))(t)
			must.Get(start().Load(t.Context(), "notes", "1.0.0"))(t) // control: it runs after a restart
			must.Get(r.SetStatus(t.Context(), by, "notes", "", registry.Quarantined, ""))(t)
			_, err := db.Commit(t.Context(), sqlite.Unit{Check: func(tx *sqlite.Tx) error {
				_, err := tx.Exec(c.sql)
				return err
			}})
			must.Do(t, err)
			r = start()
			if _, err := r.Load(t.Context(), "notes", "1.0.0"); err == nil || !strings.Contains(err.Error(), c.says) || reason.Of(err) == reason.Internal {
				t.Errorf("loaded: %v\nwant %q", err, c.says)
			}
			if got := r.Active(); len(got) != 0 {
				t.Errorf("active: %v", got)
			}
			if p := r.Publishers()[0]; (p.Problem != nil) != (name == "the pin") {
				t.Errorf("the publisher: %+v", p)
			}
		})
	}
}

// TestACopyKeepsStatuses: a copy of the store with its packages, as a restore creates it, keeps its
// statuses and pins, and its journal agrees.
func TestACopyKeepsStatuses(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	db := sqlitetest.OpenMigrated(t, filepath.Join(dir, "palyra.db"), sqlite.Options{})
	by := access.Caller{Principal: access.User("alice")}
	open := func(db *sqlite.DB, packages string) *registry.Registry {
		return must.Get(registry.New(t.Context(), registry.Config{Guard: change.Unguarded, Store: skills.New(db), Dir: packages, Limits: skill.DefaultLimits()}))(t)
	}
	r := open(db, filepath.Join(dir, "skills"))
	for _, name := range []string{"notes", "todo", "maps"} {
		data := registrytest.Package(t, registrytest.With(t, registrytest.Manifest, `"notes"`, `"`+name+`"`), registrytest.Key("example.org"))
		must.Get(r.Install(t.Context(), by, registrytest.Stage(t, r, by, data)))(t)
	}
	must.Get(r.SetStatus(t.Context(), by, "todo", "", registry.Quarantined, "odd"))(t)
	must.Get(r.SetStatus(t.Context(), by, "maps", "", registry.Disabled, ""))(t)
	must.Do(t, sqlite.Snapshot(t.Context(), filepath.Join(dir, "palyra.db"), filepath.Join(dir, "copy.db")))
	must.Do(t, os.CopyFS(filepath.Join(dir, "copied"), os.DirFS(filepath.Join(dir, "skills"))))
	must.Do(t, os.Chmod(filepath.Join(dir, "copied"), 0o700))
	must.Do(t, r.Remove(t.Context(), by, "notes", "")) // after the copy

	again := open(sqlitetest.OpenAt(t, filepath.Join(dir, "copy.db"), sqlite.Options{}), filepath.Join(dir, "copied"))
	for name, want := range map[string]registry.Status{"notes": registry.Active, "todo": registry.Quarantined, "maps": registry.Disabled} {
		if i := must.Get(again.Get(name, ""))(t); i.Status != want || i.Problem != nil {
			t.Errorf("%s is %s: %v", name, i.Status, i.Problem)
		}
	}
	must.Get(again.Load(t.Context(), "notes", ""))(t)
	if p := again.Publishers(); len(p) != 1 || p[0].Problem != nil || !p[0].FirstUse {
		t.Errorf("publishers: %+v", p)
	}
}
