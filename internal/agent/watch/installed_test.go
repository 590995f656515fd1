package watch_test

import (
	"context"
	"encoding/json"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"palyra/internal/agent/files"
	"palyra/internal/agent/watch"
	"palyra/internal/core/access"
	"palyra/internal/core/canonical"
	"palyra/internal/core/event"
	"palyra/internal/core/must"
	"palyra/internal/core/reason"
	"palyra/internal/store/sqlite"
	"palyra/internal/store/sqlite/sqlitetest"
)

const settings = `{
  "hooks": {"PreToolUse": [{"matcher": "other"}, {"matcher": "*", "hooks": [{"type": "http"}]}]} // mine
}`

func digest(t *testing.T, text string) string {
	return canonical.Digest(must.Get(canonical.JSON([]byte(text)))(t))
}

func write(t *testing.T, path, text string) {
	t.Helper()
	must.Do(t, os.WriteFile(path+".new", []byte(text), 0o600))
	must.Do(t, os.Rename(path+".new", path))
}

// codes returns the events of installations in a store.
func codes(t *testing.T, db *sqlite.DB) (list []string) {
	t.Helper()
	must.Do(t, db.Read(t.Context(), func(c *sqlite.Conn) error {
		return c.Query("SELECT code, payload FROM events WHERE code IN (?1, ?2, ?3) ORDER BY seq", func(r *sqlite.Row) error {
			var p struct{ Entries []struct{ State string } }
			if err := json.Unmarshal(r.Bytes(1), &p); err != nil {
				return err
			}
			text := r.Text(0)
			for _, e := range p.Entries {
				text += " " + e.State
			}
			list = append(list, text)
			return nil
		}, event.HookInstalled, event.HookChanged, event.HookUninstalled)
	}))
	return list
}

type fixture struct {
	db    *sqlite.DB
	watch *watch.Watcher
	told  chan slog.Record
	path  string
	one   watch.Installation
}

func start(t *testing.T) *fixture {
	db := sqlitetest.Open(t)
	f := &fixture{db: db, path: filepath.Join(t.TempDir(), "settings.json"), told: make(chan slog.Record, 100)}
	write(t, f.path, settings)
	log := slog.New(teller{slog.DiscardHandler, f.told})
	f.watch = must.Get(watch.New(t.Context(), sqlite.NewInstalled(db), log, time.Now))(t)
	f.one = watch.Installation{ID: "01JZ8Q4T2M0000000000000000", Agent: "claude-code", Scope: "user", Transport: "http", By: access.User("ada"), Entries: []watch.Entry{
		{Path: f.path, Format: files.JSON, Keys: []string{"hooks", "PreToolUse"}, InList: true, Digest: digest(t, `{"hooks":[{"type":"http"}],"matcher":"*"}`)},
	}}
	return f
}

// TestWatch: each kind of change of an entry is detected, journaled once, and reported until
// the entry is restored.
func TestWatch(t *testing.T) {
	t.Parallel()
	f := start(t)
	got := must.Get(f.watch.Register(t.Context(), f.one))(t)
	if got.Entries[0].State != watch.Intact || len(f.watch.Notices()) != 0 {
		t.Fatalf("registered: %+v", got)
	}
	want := []string{"PAL-H110 intact"}
	step := func(name string, state watch.State, change func()) {
		t.Helper()
		change()
		for range 2 { // no second event
			list := must.Get(f.watch.List(t.Context()))(t)
			if list[0].Entries[0].State != state {
				t.Errorf("%s: %+v", name, list[0].Entries[0])
			}
		}
		want = append(want, "PAL-H111 "+string(state))
		if told := f.watch.Notices(); (len(told) == 0) != (state == watch.Intact) {
			t.Errorf("%s: notices %q", name, told)
		}
	}
	step("another value", watch.Changed, func() { write(t, f.path, strings.Replace(settings, "http", "command", 1)) })
	step("as it was, written otherwise", watch.Intact, func() {
		write(t, f.path, `{"hooks":{"PreToolUse":[{"hooks":[{"type":"http"}],"matcher":"*"}]},"model":"x"}`)
	})
	step("taken out", watch.Changed, func() { write(t, f.path, "{}") })
	step("no JSON", watch.Unreadable, func() { write(t, f.path, "{") })
	step("no file", watch.Missing, func() { must.Do(t, os.Remove(f.path)) })
	step("a directory", watch.Unreadable, func() { must.Do(t, os.Mkdir(f.path, 0o700)) })
	step("back", watch.Intact, func() { must.Do(t, os.Remove(f.path)); write(t, f.path, settings) })

	// The state survives a restart.
	again := must.Get(watch.New(t.Context(), sqlite.NewInstalled(f.db), slog.New(slog.DiscardHandler), time.Now))(t)
	list := must.Get(again.List(t.Context()))(t)
	if len(list) != 1 || list[0].By != access.User("ada") || list[0].Entries[0].State != watch.Intact {
		t.Errorf("after a restart: %+v", list)
	}
	removed := must.Get(again.Remove(t.Context(), access.User("ada"), f.one.ID))(t)
	twice := must.Get(again.Remove(t.Context(), access.User("ada"), f.one.ID))(t)
	if !removed || twice {
		t.Errorf("removed %t, and again %t", removed, twice)
	}
	want = append(want, "PAL-H112")
	if got := codes(t, f.db); strings.Join(got, "\n") != strings.Join(want, "\n") {
		t.Errorf("journaled\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
}

// TestRun: a change is detected without a request.
func TestRun(t *testing.T) {
	t.Parallel()
	f := start(t)
	must.Run(t, f.watch.Run)
	must.Get(f.watch.Register(t.Context(), f.one))(t)
	// The change is detected whether the watch of the directory starts before or after it.
	write(t, f.path, "{}")
	record := must.Receive(t, "the change is noticed", f.told)
	if record.Level != slog.LevelWarn || len(f.watch.Notices()) != 1 {
		t.Errorf("told %q; notices %q", record.Message, f.watch.Notices())
	}
}

// teller is a log handler that sends each record to a channel.
type teller struct {
	slog.Handler
	told chan<- slog.Record
}

// Enabled implements slog.Handler.
func (teller) Enabled(context.Context, slog.Level) bool { return true }

// Handle implements slog.Handler.
func (t teller) Handle(_ context.Context, r slog.Record) error {
	t.told <- r
	return nil
}

// TestOnlySettings: only files of agents' settings can be registered.
func TestOnlySettings(t *testing.T) {
	t.Parallel()
	f := start(t)
	for _, path := range []string{"/etc/passwd", filepath.Join(filepath.Dir(f.path), "canary"), "settings.json", f.path + "/../settings.json"} {
		i := f.one
		i.Entries = []watch.Entry{{Path: path, Format: files.JSON, Keys: []string{"a"}, Digest: f.one.Entries[0].Digest}}
		if _, err := f.watch.Register(t.Context(), i); reason.Of(err) != reason.InvalidInput {
			t.Errorf("%s: %v", path, err)
		}
	}
}

func TestLookup(t *testing.T) {
	t.Parallel()
	text := []byte("[hooks.state.\"/a.b\"]\ntrusted_hash = \"sha256:1\"\n[[x]]\nn = 1\n")
	for keys, want := range map[string]string{"hooks/state//a.b/trusted_hash": "", "x": `[{"n":1}]`, "y": ""} {
		got := must.Get(watch.Lookup(files.TOML, text, strings.Split(keys, "/")))(t)
		if string(got) != want {
			t.Errorf("%s: %s", keys, got)
		}
	}
	got := must.Get(watch.Lookup(files.TOML, text, []string{"hooks", "state", "/a.b", "trusted_hash"}))(t)
	if string(got) != `"sha256:1"` {
		t.Errorf("got %s", got)
	}
}
