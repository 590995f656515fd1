package backup

import (
	"context"
	"errors"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"filippo.io/age"

	"palyra/internal/core/must"
	"palyra/internal/core/reason"
	"palyra/internal/core/statedir"
	"palyra/internal/core/statedir/keyfile"
	"palyra/internal/evidence/journal"
	"palyra/internal/store/sqlite"
)

func TestBackupAndRestore(t *testing.T) {
	t.Parallel()
	w := newWorld(t, 5)
	before := tree(t, w.state)
	to := w.backUp()
	w.append(3) // after the backup
	r := must.Get(Restore(t.Context(), to, w.target()))(t)

	got := tree(t, w.target().Dir)
	for _, name := range []string{"ca/root.pem", "ca/issuing.pem", "ca/notary.pem", "ca/journal.key", "ca/journal-keys.json", "operator/endpoint", "vault.json", "vault.kek"} {
		if got[name] == "" || got[name] != before[name] {
			t.Errorf("%s: %q, was %q", name, got[name], before[name])
		}
	}
	for name, want := range map[string]string{
		"restored/palyra.toml": "# settings\n", "restored/policy/10-mine.cedar": "permit (principal, action, resource);",
		"restored/policy/tests/mine.yaml": "cases: []",
	} {
		if got[name] != want {
			t.Errorf("%s: %q, want %q", name, got[name], want)
		}
	}
	if !strings.Contains(got["restored/valid.txt"], "palyra devices revoke D") {
		t.Errorf("what is valid is not listed: %q", got["restored/valid.txt"])
	}
	mark, waits, err := ReadMark(w.target().Dir)
	if err != nil || !waits || mark.ID == "" || mark.Backup.Size != 6 || mark.Valid.Devices != 1 || mark.Backup.Checkpoint != r.Checkpoint {
		t.Errorf("mark %+v, %v, %v", mark, waits, err)
	}
	db, log := w.open(w.target().Dir)
	if head := log.Head().Seq; head != 6 {
		t.Errorf("the journal has %d events, the backup had 6", head)
	}
	must.Do(t, db.Close(t.Context()))
	for path, want := range map[string]os.FileMode{w.target().Dir: 0o700, to: 0o600, statedir.Store(w.target().Dir): 0o600, filepath.Join(w.target().Dir, "ca"): 0o700} {
		if mode := must.Get(os.Stat(path))(t).Mode().Perm(); mode != want {
			t.Errorf("%s has mode %o, want %o", path, mode, want)
		}
	}
	nothingBeside(t, w, "backup.age", "palyra.toml", "policy", "restored", "state")
}

// nothingBeside fails if a backup or a restore left other files.
func nothingBeside(t *testing.T, w *world, want ...string) {
	t.Helper()
	var names []string
	for _, e := range must.Get(os.ReadDir(w.dir))(t) {
		names = append(names, e.Name())
	}
	if !slices.Equal(names, want) {
		t.Errorf("beside each other lie %v, want %v", names, want)
	}
	for _, name := range []string{statedir.Scratch(w.state), w.target().Dir + asideSuffix} {
		if _, err := os.Lstat(name); err == nil {
			t.Errorf("%s was left", name)
		}
	}
}

// A backup during writes is of one moment, and verifies.
func TestBackupWhileItIsWritten(t *testing.T) {
	t.Parallel()
	w := newWorld(t, 5)
	db, log := w.open(w.state)
	stop, done := make(chan struct{}), make(chan error, 1)
	go func() {
		defer close(done)
		for {
			select {
			case <-stop:
				return
			default:
				if _, err := log.Checkpoints.Write(t.Context()); err != nil {
					done <- err
					return
				}
				if err := log.Record(t.Context(), "PAL-J100", journal.Daemon, "", map[string]string{"version": "2"}); err != nil {
					done <- err
					return
				}
			}
		}
	}()
	for range 3 {
		to := w.backUp()
		r := must.Get(Restore(t.Context(), to, w.target()))(t)
		if r.Size < 6 {
			t.Errorf("the backup ends at %d", r.Size)
		}
		must.Do(t, os.RemoveAll(w.target().Dir))
	}
	close(stop)
	must.Do(t, <-done)
	must.Do(t, db.Close(t.Context()))
}

// If a key is replaced while the store is copied, the backup contains a store that matches the
// key.
func TestFilesThatChangeAreReadAgain(t *testing.T) {
	t.Parallel()
	w := newWorld(t, 2)
	s, rounds := w.source(), 0
	inner := s.Snapshot
	s.Snapshot = func(ctx context.Context, into string) error {
		rounds++
		if rounds == 1 {
			w.write("state/ca/journal-past", "")
		}
		return inner(ctx, into)
	}
	to := filepath.Join(w.dir, "backup.age")
	must.Get(Write(t.Context(), to, []age.Recipient{w.identity.Recipient()}, s))(t)
	if rounds != 2 {
		t.Errorf("the store was copied %d times, want 2", rounds)
	}
	s.Snapshot = func(ctx context.Context, into string) error {
		rounds++
		w.write("state/vault.json", strings.Repeat("x", rounds))
		return inner(ctx, into)
	}
	_, err := Write(t.Context(), filepath.Join(w.dir, "other.age"), []age.Recipient{w.identity.Recipient()}, s)
	if reason.Of(err) != reason.ConfigInvalid {
		t.Errorf("files that never hold still: %v", err)
	}
}

// The backup contains the packages of skills. If one is removed while the store is copied,
// everything is read again, so that the packages match the rows of the store.
func TestPackagesOfSkillsAreKept(t *testing.T) {
	t.Parallel()
	w := newWorld(t, 2)
	must.Do(t, keyfile.MakeDir(statedir.Skills(w.state)))
	w.write("state/skills/aa.palyra-skill", strings.Repeat("a", 3<<20))
	w.write("state/skills/bb.palyra-skill", "b")
	w.write("state/skills/.upload.1", "half of one")
	s, rounds := w.source(), 0
	inner := s.Snapshot
	s.Snapshot = func(ctx context.Context, into string) error {
		if rounds++; rounds == 1 {
			must.Do(t, os.Remove(filepath.Join(statedir.Skills(w.state), "bb.palyra-skill")))
			w.write("state/skills/cc.palyra-skill", "c")
		}
		return inner(ctx, into)
	}
	to := filepath.Join(w.dir, "backup.age")
	must.Get(write(t.Context(), to, []age.Recipient{w.identity.Recipient()}, s, func(step string) {
		if step == "collected" { // a package that is removed later is still in the backup
			must.Do(t, os.Remove(filepath.Join(statedir.Skills(w.state), "aa.palyra-skill")))
		}
	}))(t)
	if rounds != 2 {
		t.Errorf("the store was copied %d times, want 2", rounds)
	}
	must.Get(Restore(t.Context(), to, w.target()))(t)
	got := map[string]int{}
	for name, text := range tree(t, w.target().Dir) {
		if strings.HasPrefix(name, "skills/") {
			got[name] = len(text)
		}
	}
	if want := map[string]int{"skills/aa.palyra-skill": 3 << 20, "skills/cc.palyra-skill": 1}; !maps.Equal(got, want) {
		t.Errorf("restored %v, want %v", got, want)
	}
	nothingBeside(t, w, "backup.age", "palyra.toml", "policy", "restored", "state")
}

func TestBackupRefuses(t *testing.T) {
	t.Parallel()
	w := newWorld(t, 1)
	to := []age.Recipient{w.identity.Recipient()}
	existing := w.backUp()
	if _, err := Write(t.Context(), existing, to, w.source()); reason.Of(err) != reason.AlreadyExists {
		t.Errorf("a file that is there: %v", err)
	}
	held := must.Get(takeScratch(w.state))(t)
	if _, err := Write(t.Context(), filepath.Join(w.dir, "b"), to, w.source()); reason.Of(err) != reason.AlreadyExists {
		t.Errorf("two at a time: %v", err)
	}
	must.Do(t, held.remove())
	w.write("policy/bad\x01name", "")
	if _, err := Write(t.Context(), filepath.Join(w.dir, "b"), to, w.source()); reason.Of(err) != reason.ConfigInvalid {
		t.Errorf("a name that no restore takes: %v", err)
	}
	must.Do(t, os.Remove(filepath.Join(w.dir, "policy", "bad\x01name")))
	must.Do(t, os.Chmod(w.state, 0o755))
	if _, err := Write(t.Context(), filepath.Join(w.dir, "b"), to, w.source()); reason.Of(err) != reason.ConfigInvalid {
		t.Errorf("a state directory that others may enter: %v", err)
	}
	must.Do(t, os.Chmod(w.state, 0o700))
	must.Get(Restore(t.Context(), existing, w.target()))(t)
	w.state = w.target().Dir
	if _, err := Write(t.Context(), filepath.Join(w.dir, "b"), to, w.source()); reason.Of(err) != reason.ConfigInvalid {
		t.Errorf("a state directory that was restored and not started: %v", err)
	}
}

// Unknown files in the state directory are named, and not backed up.
func TestUnknownFilesAreNamed(t *testing.T) {
	t.Parallel()
	w := newWorld(t, 1)
	w.write("state/notes.txt", "mine")
	w.write("state/palyrad.lock", "1")
	made := must.Get(Write(t.Context(), filepath.Join(w.dir, "b"), []age.Recipient{w.identity.Recipient()}, w.source()))(t)
	if len(made.Left) != 1 || filepath.Base(made.Left[0]) != "notes.txt" {
		t.Errorf("left %v", made.Left)
	}
	for _, f := range made.Files {
		if strings.Contains(f.Name, "notes") || strings.Contains(f.Name, "lock") {
			t.Errorf("%s is in the backup", f.Name)
		}
	}
}

func TestRestoreRefuses(t *testing.T) {
	t.Parallel()
	w := newWorld(t, 4)
	to := w.backUp()
	other := must.Get(age.GenerateX25519Identity())(t)
	later := w.headOf(w.state)
	stranger := newWorld(t, 4)
	tests := map[string]struct {
		change func(*Target)
		want   reason.Code
	}{
		"another identity": {func(g *Target) { g.Identities = []age.Identity{other} }, reason.InvalidInput},
		"a passphrase": {func(g *Target) {
			g.Identities = []age.Identity{must.Get(age.NewScryptIdentity("a long passphrase"))(t)}
		}, reason.InvalidInput},
		"not empty":            {func(g *Target) { g.Dir = w.state }, reason.AlreadyExists},
		"a file":               {func(g *Target) { g.Dir = to }, reason.InvalidInput},
		"no checkpoint":        {func(g *Target) { g.NewestHead = "nothing" }, reason.InvalidInput},
		"another's head":       {func(g *Target) { g.NewestHead = stranger.headOf(stranger.state) }, reason.InvalidInput},
		"a head that is in it": {func(g *Target) { g.NewestHead = later }, ""},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			g := w.target()
			tt.change(&g)
			before := tree(t, w.state)
			_, err := Restore(t.Context(), to, g)
			if reason.Of(err) != tt.want {
				t.Errorf("%v, want %s", err, tt.want)
			}
			if after := tree(t, w.state); len(after) != len(before) {
				t.Errorf("the state directory changed")
			}
			if _, err := os.Lstat(w.target().Dir); (err == nil) != (tt.want == "") {
				t.Errorf("the directory is there: %v", err == nil)
			}
			must.Do(t, os.RemoveAll(w.target().Dir))
		})
	}
}

// headOf returns the newest checkpoint of a journal.
func (w *world) headOf(state string) string {
	w.t.Helper()
	db, log := w.open(state)
	cp := must.Get(log.Checkpoints.Latest(w.t.Context()))(w.t)
	must.Do(w.t, db.Close(w.t.Context()))
	return cp.Note
}

// The newest known head that the operator passes is stored in the mark. A head that contradicts
// the backup is refused.
func TestNewestHead(t *testing.T) {
	t.Parallel()
	w := newWorld(t, 4)
	to := w.backUp()
	w.append(9)
	g := w.target()
	g.NewestHead = w.headOf(w.state)
	r := must.Get(Restore(t.Context(), to, g))(t)
	if n := r.Mark.Newest; n == nil || !n.Proven || n.Size <= r.Size {
		t.Errorf("newest %+v, backup at %d", n, r.Size)
	}
	// A head that the gateway signed for another journal, no longer than the backup's journal.
	key := must.Get(journal.ParseKey(w.authority.Journal.Signer()))(t)
	g.NewestHead = must.Get(journal.SignCheckpoint(key, 3, [32]byte{1}))(t).Note
	g.Dir += "-2"
	if _, err := Restore(t.Context(), to, g); reason.Of(err) != reason.VerificationFailed {
		t.Errorf("a head of another journal: %v", err)
	}
}

// TestLastHeadAsItIsCopied: a checkpoint is accepted in the form that `jq -r` or an editor
// writes. The error for other text names the command that prints one.
func TestLastHeadAsItIsCopied(t *testing.T) {
	t.Parallel()
	w := newWorld(t, 4)
	to := w.backUp()
	w.append(9)
	head := w.headOf(w.state)
	w.write("empty", "\n")
	for name, text := range map[string]string{
		"as it is": head, "with a line end more": head + "\n", "without its line end": strings.TrimSpace(head), "of Windows": strings.ReplaceAll(head, "\n", "\r\n") + "\r\n",
	} {
		w.write("head", text)
		for _, given := range []string{text, filepath.Join(w.dir, "head")} {
			g := w.target()
			g.NewestHead = must.Get(noteOf(given))(t)
			r, err := Restore(t.Context(), to, g)
			if must.Check(t, err); r.Mark.Newest == nil || !r.Mark.Newest.Proven || r.Mark.Newest.Checkpoint != head {
				t.Errorf("%s: %+v", name, r.Mark.Newest)
			}
			must.Do(t, os.RemoveAll(g.Dir))
		}
	}
	for _, given := range []string{"", filepath.Join(w.dir, "empty"), filepath.Join(w.dir, "none")} {
		_, err := noteOf(given)
		var known *reason.Error
		if !errors.As(err, &known) || known.Code != reason.InvalidInput || !strings.Contains(known.NextStep(), "palyra status") {
			t.Errorf("%q: %v", given, err)
		}
	}
}

func TestPassphrase(t *testing.T) {
	t.Parallel()
	w := newWorld(t, 1)
	w.write("pass", "correct horse battery\n")
	w.write("short", "correct\n")
	if _, err := Recipients(nil, filepath.Join(w.dir, "short")); reason.Of(err) != reason.InvalidInput {
		t.Errorf("a short passphrase: %v", err)
	}
	for name, given := range map[string][]string{"none": nil, "both": {w.identity.Recipient().String()}} {
		file := map[string]string{"none": "", "both": filepath.Join(w.dir, "pass")}[name]
		if _, err := Recipients(given, file); reason.Of(err) != reason.InvalidInput {
			t.Errorf("%s: %v", name, err)
		}
	}
	to := filepath.Join(w.dir, "b")
	recipients := must.Get(Recipients(nil, filepath.Join(w.dir, "pass")))(t)
	recipients[0].(*age.ScryptRecipient).SetWorkFactor(10) // the cost of a guess is not tested here
	must.Get(Write(t.Context(), to, recipients, w.source()))(t)
	g := w.target()
	w.write("wrong", "correct horse batterx\n")
	g.Identities = must.Get(Identities("", filepath.Join(w.dir, "wrong")))(t)
	if _, err := Restore(t.Context(), to, g); reason.Of(err) != reason.InvalidInput {
		t.Errorf("a wrong passphrase: %v", err)
	}
	g.Identities = must.Get(Identities("", filepath.Join(w.dir, "pass")))(t)
	must.Get(Restore(t.Context(), to, g))(t)

	w.write("id", w.identity.String()+"\n")
	must.Get(Identities(filepath.Join(w.dir, "id"), ""))(t)
	must.Do(t, os.Chmod(filepath.Join(w.dir, "id"), 0o644))
	if _, err := Identities(filepath.Join(w.dir, "id"), ""); err == nil {
		t.Error("an identity that others may read was taken")
	}
}

// TestMistakes: an invalid argument is refused with the next step, and is not repeated in the
// error.
func TestMistakes(t *testing.T) {
	t.Parallel()
	w := newWorld(t, 1)
	w.write("pass", "correct horse battery\n")
	to := []age.Recipient{w.identity.Recipient()}
	for name, do := range map[string]func() error{
		"no identity":   func() error { _, err := Identities(filepath.Join(w.dir, "none"), ""); return err },
		"no passphrase": func() error { _, err := Recipients(nil, filepath.Join(w.dir, "none")); return err },
		"no directory": func() error {
			_, err := Write(t.Context(), filepath.Join(w.dir, "none", "b"), to, w.source())
			return err
		},
		"a passphrase for a backup": func() error {
			_, err := Restore(t.Context(), filepath.Join(w.dir, "pass"), w.target())
			return err
		},
	} {
		err := do()
		var known *reason.Error
		if !errors.As(err, &known) || reason.Of(err) == reason.Internal || known.NextStep() == "" || strings.Contains(err.Error(), "correct horse") {
			t.Errorf("%s: %v", name, err)
		}
	}
	must.Get(Write(t.Context(), filepath.Join(w.dir, "b"), to, w.source()))(t) // control
}

// The store in a backup must be the one of its journal, which a digest alone would not prove.
func TestAnotherStoreIsRefused(t *testing.T) {
	t.Parallel()
	w := newWorld(t, 4)
	s := w.source()
	stranger := newWorld(t, 9)
	sign := s.SignHead
	s.SignHead = func(ctx context.Context, store string, key *journal.Key) (journal.Checkpoint, error) {
		cp, err := sign(ctx, store, key)
		must.Do(t, os.Remove(store))
		must.Do(t, sqlite.Snapshot(ctx, statedir.Store(stranger.state), store))
		return cp, err
	}
	to := filepath.Join(w.dir, "b")
	must.Get(Write(t.Context(), to, []age.Recipient{w.identity.Recipient()}, s))(t)
	if _, err := Restore(t.Context(), to, w.target()); reason.Of(err) != reason.VerificationFailed {
		t.Errorf("the store of another gateway: %v", err)
	}
	nothingBeside(t, w, "b", "palyra.toml", "policy", "restored", "state")
}
