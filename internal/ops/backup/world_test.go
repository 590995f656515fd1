package backup

import (
	"context"
	"os"
	"path/filepath"
	"testing"

	"filippo.io/age"
	"golang.org/x/mod/sumdb/note"

	"palyra/internal/core/event"
	"palyra/internal/core/must"
	"palyra/internal/core/statedir"
	"palyra/internal/core/statedir/keyfile"
	"palyra/internal/evidence/journal"
	"palyra/internal/identity/ca"
	"palyra/internal/ops/journalkey"
	"palyra/internal/store/sqlite"
)

// world is a gateway's state directory with a real store and CA, and the identity that can
// decrypt its backups.
type world struct {
	t         *testing.T
	dir       string
	state     string
	authority *ca.Authority
	identity  *age.X25519Identity
}

// newWorld returns a gateway whose journal has that many events.
func newWorld(t *testing.T, events int) *world {
	t.Helper()
	dir := t.TempDir()
	w := &world{t: t, dir: dir, state: filepath.Join(dir, "state"), identity: must.Get(age.GenerateX25519Identity())(t)}
	lock := must.Get(statedir.Take(w.state))(t)
	must.Do(t, lock.Release())
	var err error
	w.authority, _, err = ca.Open(statedir.Authority(w.state), ca.Options{})
	must.Do(t, err)
	w.append(events)
	must.Do(t, os.MkdirAll(filepath.Join(dir, "policy", "tests"), 0o700))
	w.write("policy/10-mine.cedar", "permit (principal, action, resource);")
	w.write("policy/tests/mine.yaml", "cases: []")
	w.write("palyra.toml", "# settings\n")
	must.Do(t, keyfile.MakeDir(statedir.Operator(w.state)))
	w.write("state/operator/endpoint", "address=a:1\nserver_name=localhost\n")
	w.write("state/vault.json", "{}")
	w.write("state/vault.kek", "key")
	return w
}

func (w *world) write(name, text string) {
	w.t.Helper()
	must.Do(w.t, os.WriteFile(filepath.Join(w.dir, filepath.FromSlash(name)), []byte(text), 0o600))
}

// open opens the store and journal.
func (w *world) open(state string) (*sqlite.DB, *journal.Log) {
	w.t.Helper()
	authority := must.Get(ca.Inspect(statedir.Authority(state), ca.Options{}))(w.t)
	origin, known, err := journalkey.Origin(authority)
	must.Do(w.t, err)
	db := must.Get(sqlite.Open(w.t.Context(), statedir.Store(state), sqlite.Options{Origin: origin, Verifiers: known}))(w.t)
	return db, must.Get(journalkey.Open(w.t.Context(), db, authority, journal.Options{}))(w.t)
}

// append adds events and a checkpoint.
func (w *world) append(events int) {
	w.t.Helper()
	db, log := w.open(w.state)
	for range events {
		must.Do(w.t, log.Record(w.t.Context(), event.Opened, journal.Daemon, "", map[string]string{"version": "1"}))
	}
	must.Get(log.Checkpoints.Write(w.t.Context()))(w.t)
	must.Do(w.t, db.Close(w.t.Context()))
}

func (w *world) source() Source {
	return Source{
		StateDir: w.state, PolicyDir: filepath.Join(w.dir, "policy"), ConfigFile: filepath.Join(w.dir, "palyra.toml"), Release: "0.0.1",
		Snapshot: func(ctx context.Context, into string) error {
			return sqlite.Snapshot(ctx, statedir.Store(w.state), into)
		},
		SignHead: func(ctx context.Context, store string, key *journal.Key) (journal.Checkpoint, error) {
			db, err := sqlite.OpenReadOnly(ctx, store)
			if err != nil {
				return journal.Checkpoint{}, err
			}
			defer db.Close(ctx)
			return journal.SignHead(ctx, db, key)
		},
		Authority: func() (*ca.Authority, error) { return ca.Inspect(statedir.Authority(w.state), ca.Options{}) },
		Keys:      func(a *ca.Authority) []ca.KeyPlace { return a.Places() },
	}
}

func (w *world) backUp() string {
	w.t.Helper()
	to := filepath.Join(w.dir, "backup.age")
	must.Do(w.t, removed(to))
	must.Get(Write(w.t.Context(), to, []age.Recipient{w.identity.Recipient()}, w.source()))(w.t)
	return to
}

func (w *world) target() Target {
	return Target{
		Dir: filepath.Join(w.dir, "restored", "state"), Identities: []age.Identity{w.identity},
		Verify: func(ctx context.Context, store, gateway string, known note.Verifiers, holds ...journal.Checkpoint) error {
			_, err := sqlite.Verify(ctx, store, gateway, known, holds...)
			return err
		},
		Valid: func(context.Context, string) ([]Credential, error) {
			return []Credential{{"device", "D", "user:local", "palyra devices revoke D"}}, nil
		},
	}
}

// tree returns all files below a directory with their contents.
func tree(t *testing.T, dir string) map[string]string {
	t.Helper()
	files := map[string]string{}
	must.Do(t, filepath.WalkDir(dir, func(path string, d os.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		files[must.Get(filepath.Rel(dir, path))(t)] = string(must.Get(os.ReadFile(path))(t))
		return nil
	}))
	return files
}
