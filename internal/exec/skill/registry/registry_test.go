package registry_test

import (
	"context"
	"path/filepath"
	"testing"
	"time"

	"palyra/internal/core/access"
	"palyra/internal/core/change"
	"palyra/internal/core/must"
	"palyra/internal/exec/skill"
	"palyra/internal/exec/skill/registry"
	"palyra/internal/exec/skill/registry/registrytest"
	"palyra/internal/exec/wasm/guest"
	"palyra/internal/store/sqlite/skills"
	"palyra/internal/store/sqlite/sqlitetest"
)

var (
	alice = access.Caller{Principal: access.User("alice")}
	key   = registrytest.Key("example.org")
	other = registrytest.Key("somebody else")
)

// store is an embedded store whose changes can fail.
type store struct {
	skills.Store
	*sqlitetest.Faulty
	// forgotten are the skills whose storage was removed.
	forgotten []string
}

func newStore(t testing.TB) *store {
	f := sqlitetest.NewFaulty(t)
	return &store{Store: skills.New(f.DB), Faulty: f}
}

// ChangeSkills implements registry.Store.
func (s *store) ChangeSkills(ctx context.Context, c registry.Change) error {
	s.forgotten = append(s.forgotten, c.Forget...)
	return s.Write(func() error { return s.Store.ChangeSkills(ctx, c) })
}

// world is a registry with an embedded store and real files.
type world struct {
	*registry.Registry
	t     *testing.T
	store *store
	dir   string
	// changed counts the notifications about changes.
	changed int
	limits  skill.Limits
	compile func(context.Context, guest.Module) error
	// now is the clock of the registry.
	now time.Time
}

func newWorld(t *testing.T) *world {
	w := &world{t: t, store: newStore(t), dir: filepath.Join(t.TempDir(), "skills"), limits: skill.DefaultLimits(), now: time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)}
	w.start()
	return w
}

// start simulates a start of palyrad on the current state.
func (w *world) start() {
	w.t.Helper()
	w.Registry = must.Get(registry.New(w.t.Context(), registry.Config{Guard: change.Unguarded,
		Store: w.store, Dir: w.dir, Limits: w.limits, Compile: w.compile, Now: func() time.Time { return w.now },
		Changed: func(context.Context) error { w.changed++; return nil },
	}))(w.t)
}

// install stages and installs a package.
func (w *world) install(manifest string) registry.Installed {
	w.t.Helper()
	return must.Get(w.Install(w.t.Context(), alice, registrytest.Stage(w.t, w.Registry, alice, registrytest.Package(w.t, manifest, key))))(w.t)
}

func TestInstalledSkillRuns(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	one := w.install(registrytest.Manifest)
	if !one.Current || one.Status != registry.Active || w.changed != 1 {
		t.Fatalf("installed: %+v, told %d times", one, w.changed)
	}
	p := must.Get(w.Load(t.Context(), "notes", ""))(t)
	if p.Digest != one.Digest || len(p.Modules) != 1 {
		t.Fatalf("loaded %s with %d modules", p.Digest, len(p.Modules))
	}
	w.start()
	if got := w.Active(); len(got) != 1 || got[0] != "notes" {
		t.Fatalf("after a restart %v are active", got)
	}
	must.Get(w.Load(t.Context(), "notes", "1.0.0"))(t)
	if again := must.Get(w.Get("notes", ""))(t); again.Problem != nil || len(again.Manifest.Tools) != 1 {
		t.Fatalf("after a restart: %+v", again)
	}
}
