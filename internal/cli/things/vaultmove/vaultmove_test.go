package vaultmove_test

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"google.golang.org/protobuf/types/known/timestamppb"

	palyrav1 "palyra/gen/palyra/v1"
	"palyra/internal/cli/things/vaultmove"
	"palyra/internal/core/config"
	"palyra/internal/core/must"
	"palyra/internal/core/reason"
)

const (
	githubValue = "gh-value-0123456789"
	modelValue  = "model-value-0123456789"
)

// kept is a vault in memory.
type kept struct {
	secrets map[string]*palyrav1.Secret
	values  map[string]string
	// puts counts the calls of Put.
	puts int
}

func (k *kept) Get(_ context.Context, ref string) (*palyrav1.Secret, error) {
	return k.secrets[ref], nil
}

func (k *kept) Put(_ context.Context, req *palyrav1.PutSecretRequest) error {
	now := timestamppb.New(time.Date(2026, 1, 1, 0, k.puts, 0, 0, time.UTC))
	k.puts++
	s := k.secrets[req.GetRef()]
	if s == nil {
		s = &palyrav1.Secret{Ref: req.GetRef(), CreatedAt: now}
		k.secrets[req.GetRef()] = s
	}
	s.Version++
	s.UpdatedAt, s.Note, s.Hosts, s.Header, s.Env = now, req.GetNote(), req.GetHosts().GetHosts(), req.GetHeader(), req.GetEnv()
	k.values[req.GetRef()] = string(req.GetValue())
	return nil
}

func (k *kept) Reveal(_ context.Context, ref string) ([]byte, error) {
	return []byte(k.values[ref]), nil
}

func (k *kept) Remove(_ context.Context, ref string) error {
	delete(k.secrets, ref)
	delete(k.values, ref)
	return nil
}

// world is a configuration in its own directory, and a vault.
type world struct {
	*vaultmove.Mover

	t     *testing.T
	dir   string
	vault *kept
	text  string
}

const settings = `# The gateway.
[log]
level = "info" # as it is

[[secrets]]
name = "github"
file = "DIR/github"
hosts = ["api.github.com:443"]
env = "GITHUB_TOKEN"

# Models.
[[models]]
name = "claude"
provider = "anthropic"
model = "m"
api_key_file = "DIR/key" # of claude
[[models]]
name = "small"
provider = "anthropic"
model = "s"
api_key_file = "DIR/key"
`

func newWorld(t *testing.T) *world {
	t.Helper()
	w := &world{t: t, dir: t.TempDir(), vault: &kept{secrets: map[string]*palyrav1.Secret{}, values: map[string]string{}}}
	w.text = strings.ReplaceAll(settings, "DIR", w.dir)
	path := filepath.Join(w.dir, "palyra.toml")
	w.write("palyra.toml", w.text, 0o640)
	w.write("github", githubValue+"\n", 0o600)
	w.write("key", modelValue+"\n", 0o600)
	w.Mover = &vaultmove.Mover{
		Path: path, Vault: w.vault,
		Load: func() (*config.Config, error) {
			// An ordinary user has a state directory only below a home.
			c, _, err := config.Load(config.LoadOptions{Path: path, Env: func(name string) string { return map[string]string{"HOME": w.dir}[name] }})
			return c, err
		},
		Started: time.Now().Add(time.Hour),
	}
	return w
}

func (w *world) write(name, text string, mode os.FileMode) {
	w.t.Helper()
	path := filepath.Join(w.dir, name)
	must.Do(w.t, os.WriteFile(path, []byte(text), mode))
	must.Do(w.t, os.Chmod(path, mode))
}

func (w *world) read(name string) string {
	w.t.Helper()
	return string(must.Get(os.ReadFile(filepath.Join(w.dir, name)))(w.t))
}

// files returns the names of the directory's entries.
func (w *world) files() (names []string) {
	w.t.Helper()
	for _, e := range must.Get(os.ReadDir(w.dir))(w.t) {
		names = append(names, e.Name())
	}
	return names
}

// imported checks that all secrets are in the vault, and that the configuration refers to them.
func (w *world) imported() {
	w.t.Helper()
	want := w.text[:strings.Index(w.text, "[[secrets]]")] + w.text[strings.Index(w.text, "# Models."):]
	want = strings.ReplaceAll(want, `api_key_file = "`+w.dir+`/key"`, `api_key_secret = "vault://global/model-claude"`)
	if got := w.read("palyra.toml"); got != want {
		w.t.Errorf("the configuration is\n%s\nwant\n%s", got, want)
	}
	if info := must.Get(os.Stat(w.Path))(w.t); info.Mode().Perm() != 0o640 {
		w.t.Errorf("its mode is %v", info.Mode())
	}
	s := w.vault.secrets["vault://global/github"]
	if len(w.vault.secrets) != 2 || w.vault.values["vault://global/github"] != githubValue || w.vault.values["vault://global/model-claude"] != modelValue ||
		!slices.Equal(s.GetHosts(), []string{"api.github.com:443"}) || s.GetHeader() != "Authorization" || s.GetEnv() != "GITHUB_TOKEN" {
		w.t.Errorf("the vault has %v, %v", w.vault.secrets, w.vault.values)
	}
	if m := w.vault.secrets["vault://global/model-claude"]; m.GetVersion() != 1 || len(m.GetHosts()) > 0 || s.GetVersion() != 1 {
		w.t.Errorf("the vault has %v", w.vault.secrets)
	}
	if _, err := w.Load(); err != nil {
		w.t.Error(err)
	}
}

// wantUnchanged verifies that an import left nothing behind.
func (w *world) wantUnchanged() {
	w.t.Helper()
	if got := w.read("palyra.toml"); got != w.text {
		w.t.Errorf("the configuration is\n%s", got)
	}
	if names := w.files(); !slices.Equal(names, []string{"github", "key", "palyra.toml"}) || len(w.vault.secrets) > 0 {
		w.t.Errorf("there is %q, and in the vault %v", names, w.vault.secrets)
	}
}

func refused(t *testing.T, what string, err error, code reason.Code, says string) {
	t.Helper()
	if reason.Of(err) != code || !strings.Contains(err.Error(), says) {
		t.Errorf("%s: %v, want %s with %q", what, err, code, says)
	}
}

func TestImport(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	seen := must.Get(w.Preview(t.Context()))(t)
	w.wantUnchanged()
	if len(seen.Secrets) != 2 || seen.Secrets[0].State != vaultmove.StateNew || !slices.Equal(seen.Secrets[1].From, []string{"models.claude", "models.small"}) {
		t.Errorf("previewed %+v", seen)
	}
	must.Get(w.Import(t.Context()))(t)
	w.imported()
	record := w.read("palyra.toml.import.json")
	if info := must.Get(os.Stat(w.Path + ".import.json"))(t); info.Mode().Perm() != 0o600 || strings.Contains(record, githubValue) || strings.Contains(record, modelValue) {
		t.Errorf("the record, of mode %v:\n%s", info.Mode(), record)
	}
	again := must.Get(w.Import(t.Context()))(t)
	w.imported()
	if again.Secrets[0].State != vaultmove.StateThere || w.vault.puts != 2 {
		t.Errorf("again: %+v", again)
	}
	must.Get(w.Undo(t.Context()))(t)
	w.wantUnchanged()
	_, err := w.Undo(t.Context())
	refused(t, "a second undo", err, reason.NotFound, "no import")
	must.Get(w.Import(t.Context()))(t)
	w.imported()
	done := must.Get(w.Finish(t.Context()))(t)
	w.imported()
	if names := w.files(); !slices.Equal(names, []string{"palyra.toml"}) || done.Secrets[0].State != vaultmove.StateDeleted {
		t.Errorf("finished: %q, %+v", names, done)
	}
	if none := must.Get(w.Import(t.Context()))(t); len(none.Secrets) != 0 {
		t.Errorf("there was something to move: %+v", none)
	}
	_, err = w.Undo(t.Context())
	refused(t, "an undo at the end", err, reason.NotFound, "no import")
}

var errStop = errors.New("stopped")

// stopAt makes the mover fail at its nth step without cleanup, as after SIGKILL. steps receives
// the steps that were reached.
func (w *world) stopAt(n int) (steps *[]string) {
	steps = &[]string{}
	w.Reached = func(step string) error {
		if *steps = append(*steps, step); len(*steps) == n {
			return errStop
		}
		return nil
	}
	return steps
}

// TestStops stops an import, an undo and a finish at each of their steps. Another run completes
// the operation, and an undo reverts it as long as it can be reverted.
func TestStops(t *testing.T) {
	t.Parallel()
	type act = func(*world) error
	importing := func(w *world) error { _, err := w.Import(t.Context()); return err }
	undoing := func(w *world) error { _, err := w.Undo(t.Context()); return err }
	finishing := func(w *world) error { _, err := w.Finish(t.Context()); return err }
	for name, c := range map[string]struct {
		before  []act
		stopped act
		after   []act
		end     func(*world)
	}{
		"import, import":       {nil, importing, []act{importing}, (*world).imported},
		"import, import, undo": {nil, importing, []act{importing, undoing}, (*world).wantUnchanged},
		"import, undo":         {nil, importing, []act{undoing}, (*world).wantUnchanged},
		"undo, undo": {[]act{importing}, undoing, []act{func(w *world) error {
			err := undoing(w)
			if reason.Of(err) == reason.NotFound {
				return nil
			}
			return err
		}}, (*world).wantUnchanged},
		"undo, import": {[]act{importing}, undoing, []act{importing}, (*world).imported},
		"finish, finish": {[]act{importing}, finishing, []act{finishing}, func(w *world) {
			w.imported()
			if names := w.files(); !slices.Equal(names, []string{"palyra.toml"}) {
				t.Errorf("left are %q", names)
			}
		}},
	} {
		t.Run(name, func(t *testing.T) {
			steps := 0
			for n := 1; ; n++ {
				w := newWorld(t)
				for _, do := range c.before {
					must.Do(t, do(w))
				}
				at := w.stopAt(n)
				err := c.stopped(w)
				if err == nil {
					break
				}
				if steps++; !errors.Is(err, errStop) {
					t.Fatalf("at %q: %v", *at, err)
				}
				w.Reached = nil
				for _, do := range c.after {
					if err := do(w); err != nil {
						t.Errorf("after %q: %v", *at, err)
					}
				}
				c.end(w)
				if t.Failed() {
					t.Fatalf("after %q", *at)
				}
			}
			if steps < 4 {
				t.Errorf("there are %d steps", steps)
			}
		})
	}
}

// TestRefusals: an obstacle is reported before anything is changed.
func TestRefusals(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		change func(*world)
		code   reason.Code
		says   string
	}{
		"another value": {func(w *world) {
			must.Do(w.t, w.vault.Put(w.t.Context(), &palyrav1.PutSecretRequest{Ref: "vault://global/model-claude", Value: []byte("other")}))
		}, reason.AlreadyExists, "vault://global/model-claude with another value"},
		"other hosts": {func(w *world) {
			must.Do(w.t, w.vault.Put(w.t.Context(), &palyrav1.PutSecretRequest{Ref: "vault://global/github", Value: []byte(githubValue)}))
		}, reason.AlreadyExists, "vault://global/github with other hosts"},
		"a file that others read": {func(w *world) { w.write("key", modelValue, 0o644) }, reason.ConfigInvalid, "has mode 0644"},
		"a file that is gone":     {func(w *world) { must.Do(w.t, os.Remove(filepath.Join(w.dir, "github"))) }, reason.ConfigInvalid, "github cannot be read"},
		"no configuration":        {func(w *world) { w.write("palyra.toml", "[[secrets", 0o600) }, reason.ConfigInvalid, "is not valid TOML"},
		"two of one name": {func(w *world) {
			w.write("palyra.toml", strings.Replace(w.text, `name = "github"`, `name = "model-claude"`, 1), 0o600)
		}, reason.InvalidInput, "secrets.model-claude and models.claude would both be"},
	} {
		w := newWorld(t)
		c.change(w)
		text, names, puts := w.read("palyra.toml"), w.files(), w.vault.puts
		_, err := w.Preview(t.Context())
		refused(t, name+" (preview)", err, c.code, c.says)
		_, err = w.Import(t.Context())
		refused(t, name, err, c.code, c.says)
		if w.read("palyra.toml") != text || !slices.Equal(w.files(), names) || w.vault.puts != puts {
			t.Errorf("%s: something was changed: %q", name, w.files())
		}
	}
}

// TestUnwritable: if the configuration cannot be replaced, the import does not start.
func TestUnwritable(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	in := w.Path + ".new/in"
	must.Do(t, os.MkdirAll(in, 0o700)) // the file cannot be created in place of the directory
	_, err := w.Import(t.Context())
	refused(t, "with nowhere to write", err, reason.ConfigInvalid, "cannot be written")
	if _, err := os.Stat(w.Path + ".import.json"); err == nil || w.vault.puts > 0 {
		t.Error("an import was begun")
	}
	must.Do(t, os.RemoveAll(filepath.Dir(in)))
	w.wantUnchanged()
}

// TestUndoKeeps: secrets that others created or changed since the import are kept.
func TestUndoKeeps(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	must.Do(t, w.vault.Put(t.Context(), &palyrav1.PutSecretRequest{Ref: "vault://global/model-claude", Value: []byte(modelValue)}))
	must.Get(w.Import(t.Context()))(t)
	must.Do(t, w.vault.Put(t.Context(), &palyrav1.PutSecretRequest{Ref: "vault://global/github", Value: []byte("rotated"), Note: new(string)}))
	_, err := w.Finish(t.Context())
	refused(t, "finishing", err, reason.FactsChanged, "vault://global/github has another value than")
	done := must.Get(w.Undo(t.Context()))(t)
	if len(w.vault.secrets) != 2 || done.Secrets[0].State != vaultmove.StateKept || done.Secrets[1].State != vaultmove.StateKept {
		t.Errorf("undone: %+v", done)
	}
	if w.read("palyra.toml") != w.text {
		t.Error("the configuration is not as before")
	}
}

// TestEdited: after an edit of the configuration, an import cannot be undone or repeated.
func TestEdited(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	must.Get(w.Import(t.Context()))(t)
	w.write("palyra.toml", w.read("palyra.toml")+"# mine\n", 0o640)
	for name, do := range map[string]func(context.Context) (vaultmove.Report, error){"undo": w.Undo, "import": w.Import, "preview": w.Preview} {
		_, err := do(t.Context())
		refused(t, name, err, reason.FactsChanged, "palyra.toml.before-import")
	}
	if len(w.vault.secrets) != 2 || !strings.HasSuffix(w.read("palyra.toml"), "# mine\n") {
		t.Error("something was undone")
	}
	must.Get(w.Finish(t.Context()))(t)
}

// TestFinishTooEarly: a finish does not remove files that could still be read.
func TestFinishTooEarly(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	_, err := w.Finish(t.Context())
	refused(t, "without an import", err, reason.NotFound, "no import")
	w.stopAt(5) // before the configuration is replaced
	_, err = w.Import(t.Context())
	w.Reached = nil
	if !errors.Is(err, errStop) {
		t.Fatal(err)
	}
	_, err = w.Finish(t.Context())
	refused(t, "in the middle", err, reason.ConfigInvalid, "still names")
	must.Get(w.Import(t.Context()))(t)
	restarted := w.Started
	w.Started = time.Now().Add(-time.Hour)
	_, err = w.Finish(t.Context())
	refused(t, "before the restart", err, reason.ConfigInvalid, "may still read the files")
	w.Started = restarted
	must.Do(t, w.vault.Remove(t.Context(), "vault://global/github"))
	_, err = w.Finish(t.Context())
	refused(t, "with a secret gone", err, reason.NotFound, "vault://global/github")
	if w.read("github") != githubValue+"\n" || w.read("key") != modelValue+"\n" {
		t.Error("a file went")
	}
}
