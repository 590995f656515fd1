package registry_test

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"palyra/internal/core/event"
	"palyra/internal/core/must"
	"palyra/internal/core/reason"
	"palyra/internal/exec/skill"
	"palyra/internal/exec/skill/registry"
	"palyra/internal/exec/skill/registry/registrytest"
	"palyra/internal/exec/wasm/guest"
)

// version returns the manifest of another version.
func version(t *testing.T, v string, pieces ...string) string {
	return registrytest.With(t, registrytest.With(t, registrytest.Manifest, `"1.0.0"`, `"`+v+`"`), pieces...)
}

func TestAVersionNeverChanges(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	one := w.install(registrytest.Manifest)
	_, err := w.Install(t.Context(), alice, w.bring(registrytest.With(t, registrytest.Manifest, "Add a note.", "Add it."), key))
	refused(t, err, reason.AlreadyExists, "a version never changes")
	_, err = w.Install(t.Context(), alice, w.bring(registrytest.Manifest, key))
	refused(t, err, reason.AlreadyExists, "is installed")
	_, err = w.Install(t.Context(), alice, w.bring(registrytest.With(t, registrytest.Manifest, "example.org", "maps.org"), other))
	refused(t, err, reason.AlreadyExists, "belongs to the publisher example.org")
	if got := must.Get(w.Load(t.Context(), "notes", ""))(t); got.Digest != one.Digest {
		t.Error("another package is loaded")
	}
}

func TestOlderVersionsReturnOnlyWhenEnabled(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.install(registrytest.Manifest)
	if two := w.install(version(t, "1.10.0")); !two.Current {
		t.Fatal("an update is not the current version")
	}
	_, err := w.Install(t.Context(), alice, w.bring(version(t, "1.9.0"), key))
	refused(t, err, reason.InvalidInput, "older than notes@1.10.0")
	if got := must.Get(w.Get("notes", ""))(t); got.Version != "1.10.0" {
		t.Errorf("%s is current", got.Name())
	}
	must.Get(w.SetStatus(t.Context(), alice, "notes", "1.0.0", registry.Active, "the new one loses notes"))(t)
	w.start()
	current := slices.DeleteFunc(w.List(), func(i registry.Installed) bool { return !i.Current })
	if len(current) != 1 || current[0].Version != "1.0.0" || current[0].Why != "the new one loses notes" {
		t.Errorf("current: %+v", current)
	}
	must.Get(w.Load(t.Context(), "notes", "1.10.0"))(t) // the version is kept and is not disabled
}

func TestGains(t *testing.T) {
	t.Parallel()
	asks := "[tools.capabilities]\nhttp = [\"api.example.org:443\"]\nsecrets = [{name = \"global/notes\", use = \"placeholder\"}]\nstorage_bytes = 1024\nclock = true\n"
	asksMore := "[tools.capabilities]\nhttp = [\"api.example.org:443\", \"b.example.org\"]\nsecrets = [{name = \"global/notes\", use = \"read\"}]\nstorage_bytes = 4096\nclock = true\nrandom = true\nchannels = [\"team\"]\n"
	needs := []string{`publisher = "example.org"`, "publisher = \"example.org\"\n[compatibility]\ninterface = \"0.1.0\""}
	w := newWorld(t)
	gainsOf := func(manifest string) []string {
		in := must.Get(w.Inspect(t.Context(), w.bring(manifest, key)))(t)
		// Channels prevent an installation, and are among the gains.
		if channels := strings.Contains(manifest, "channels"); channels != (in.Installable != nil) || channels && !strings.Contains(in.Installable.Error(), skill.CodeChannels) {
			t.Errorf("installable: %v", in.Installable)
		}
		return in.Gains
	}
	is := func(what string, got []string, want ...string) {
		t.Helper()
		if !slices.Equal(got, want) {
			t.Errorf("%s: %q\nwant %q", what, got, want)
		}
	}
	first := registrytest.With(t, registrytest.Manifest, append(needs, "[tools.capabilities]\n", asks)...)
	all := []string{"add: reach api.example.org:443", "add: have the secret global/notes put into its requests", "add: keep up to 1024 bytes", "add: read the real time"}
	is("a first installation", gainsOf(first), all...)
	w.install(first)
	is("an update that asks for the same", gainsOf(strings.Replace(first, "1.0.0", "1.1.0", 1)))
	is("an update that asks for less", gainsOf(version(t, "1.2.0")))
	more := version(t, "1.3.0", append(needs, "[tools.capabilities]\n", asksMore)...)
	is("an update that asks for more", gainsOf(more), "add: reach b.example.org", "add: see the value of the secret global/notes", "add: keep up to 4096 bytes, not 1024", "add: send to the channel team", "add: use real randomness")
	is("an update that calls itself less of a risk", gainsOf(version(t, "1.4.0", "input_schema", "risk = 10\ninput_schema")), "add: count as a risk of 10, not of 50")
	must.Get(w.SetStatus(t.Context(), alice, "notes", "", registry.Disabled, ""))(t)
	is("an update of a skill that does not run", gainsOf(strings.Replace(first, "1.0.0", "1.1.0", 1)), all...)
}

func TestAnAuditKeepsAPackageOut(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	wide := registrytest.With(t, registrytest.Manifest, `publisher = "example.org"`, "publisher = \"example.org\"\n[compatibility]\ninterface = \"0.1.0\"", "[tools.capabilities]\n", "[tools.capabilities]\nhttp = [\"*.example.org\"]\n")
	digest := w.bring(wide, key)
	in := must.Get(w.Inspect(t.Context(), digest))(t)
	if !skill.Failed(in.Findings) {
		t.Fatalf("findings: %+v", in.Findings)
	}
	_, err := w.Install(t.Context(), alice, digest)
	refused(t, err, reason.InvalidInput, skill.CodeWildcard)
	if len(w.List())+len(w.Publishers()) != 0 {
		t.Error("a refused package left something")
	}
	// Control: if the operator allows it, the same package is installed.
	w.limits.Wildcards = true
	w.start()
	must.Get(w.Install(t.Context(), alice, w.bring(wide, key)))(t)
}

func TestModulesAreCompiledBefore(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	compiled, broken := 0, errors.New("no memory")
	w.compile = func(_ context.Context, m guest.Module) error {
		if compiled++; m.Kind == "" || len(m.Bytes) == 0 {
			t.Errorf("compiled %+v", m)
		}
		return broken
	}
	w.start()
	digest := w.bring(registrytest.Manifest, key)
	if _, err := w.Install(t.Context(), alice, digest); err == nil || !strings.Contains(err.Error(), "modules/notes.wasm") || len(w.List()) != 0 {
		t.Errorf("installed what cannot be compiled: %v", err)
	}
	broken = nil
	if must.Get(w.Install(t.Context(), alice, digest))(t); compiled != 2 {
		t.Errorf("compiled %d times", compiled)
	}
}

// packages returns the names in the directory.
func (w *world) packages() (list []string) {
	for _, e := range must.Get(os.ReadDir(w.dir))(w.t) {
		list = append(list, e.Name())
	}
	return list
}

func TestRemovedWithItsPackage(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.install(registrytest.Manifest)
	w.install(version(t, "1.1.0"))
	w.install(version(t, "1.2.0"))
	must.Do(t, w.Remove(t.Context(), alice, "notes", "1.2.0"))
	if got := w.packages(); len(got) != 2 || len(w.store.forgotten) != 0 {
		t.Errorf("left: %v, forgotten %v", got, w.store.forgotten)
	}
	_, err := w.Load(t.Context(), "notes", "")
	refused(t, err, reason.NotFound, "the skill notes has no current version")
	_, err = w.Load(t.Context(), "notes", "1.2.0")
	refused(t, err, reason.NotFound, "1.2.0")
	must.Do(t, w.Remove(t.Context(), alice, "notes", ""))
	if got := w.packages(); len(got) != 0 || !slices.Equal(w.store.forgotten, []string{"notes"}) || len(w.rows().Versions) != 0 {
		t.Errorf("left: %v, forgotten %v", got, w.store.forgotten)
	}
	refused(t, w.Remove(t.Context(), alice, "notes", ""), reason.NotFound, "notes")
	if n := w.count(event.SkillRemoved); n != 3 {
		t.Errorf("%d events for three versions", n)
	}
}

func TestDisabledImmediately(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.install(registrytest.Manifest)
	for _, s := range []registry.Status{registry.Quarantined, registry.Disabled} {
		must.Get(w.Load(t.Context(), "notes", ""))(t) // control
		reported := w.changed
		one := must.Get(w.SetStatus(t.Context(), alice, "notes", "", s, "it is odd"))(t)
		if one.Status != s || one.Why != "it is odd" || one.ChangedBy != alice.Principal || w.changed != reported+1 {
			t.Errorf("set to %s: %+v", s, one)
		}
		_, err := w.Load(t.Context(), "notes", "1.0.0")
		refused(t, err, reason.PolicyDenied, "notes@1.0.0 is "+string(s)+": it is odd")
		if got := w.Active(); len(got) != 0 {
			t.Errorf("active: %v", got)
		}
		findings, problem, err := w.Audit(t.Context(), "notes", "")
		if must.Do(t, err); skill.Failed(findings) || reason.Of(problem) != reason.PolicyDenied {
			t.Errorf("audited: %+v, %v", findings, problem)
		}
		must.Get(w.SetStatus(t.Context(), alice, "notes", "", registry.Active, ""))(t)
	}
	_, err := w.SetStatus(t.Context(), alice, "notes", "", "sleeping", "")
	refused(t, err, reason.InvalidInput, "sleeping")
	_, err = w.SetStatus(t.Context(), alice, "notes", "", registry.Disabled, strings.Repeat("x", 501))
	refused(t, err, reason.InputTooLarge, "501")
}

func TestNothingIsInstalledWithoutTheJournal(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	broken := errors.New("the disk is full")
	w.store.Fail(broken)
	digest := w.bring(registrytest.Manifest, key)
	if _, err := w.Install(t.Context(), alice, digest); !errors.Is(err, broken) {
		t.Fatalf("installed: %v", err)
	}
	if len(w.List())+len(w.Publishers())+len(w.Active()) != 0 {
		t.Error("something is installed")
	}
	w.store.Fail(nil)
	must.Get(w.Install(t.Context(), alice, digest))(t)
	w.store.Fail(broken)
	if _, err := w.SetStatus(t.Context(), alice, "notes", "", registry.Quarantined, ""); !errors.Is(err, broken) {
		t.Errorf("quarantined: %v", err)
	}
	if err := w.Remove(t.Context(), alice, "notes", ""); !errors.Is(err, broken) {
		t.Errorf("removed: %v", err)
	}
	must.Get(w.Load(t.Context(), "notes", ""))(t)
}

// A change that is killed at any step results in the old state or the new one. The next start
// removes the remains.
func TestKilledAtEveryStep(t *testing.T) {
	t.Parallel()
	for step, want := range map[string]struct{ installed, removed bool }{"named": {false, false}, "kept": {true, false}, "dropped": {true, true}} {
		t.Run(step, func(t *testing.T) {
			w := newWorld(t)
			w.install(version(t, "0.9.0"))
			w.Die(step)
			died := func(do func()) (died bool) {
				defer func() { died = recover() != nil }()
				do()
				return false
			}
			reached := died(func() { w.install(registrytest.Manifest) })
			if step == "dropped" {
				reached = died(func() { must.Do(t, w.Remove(t.Context(), alice, "notes", "0.9.0")) })
			}
			if !reached {
				t.Fatal("the step was not reached")
			}
			w.start()
			names := []string{}
			for _, i := range w.List() {
				must.Do(t, i.Problem)
				names = append(names, i.Version)
			}
			if got := slices.Contains(names, "1.0.0"); got != want.installed {
				t.Errorf("installed: %v", names)
			}
			if got := !slices.Contains(names, "0.9.0"); got != want.removed {
				t.Errorf("installed: %v", names)
			}
			if files := w.packages(); len(files) != len(names) {
				t.Errorf("%v belong to %v", files, names)
			}
			must.Get(w.Load(t.Context(), "notes", ""))(t)
			if !want.installed {
				w.install(registrytest.Manifest)
			}
		})
	}
}

func TestAStartSweepsItsOwnAlone(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	one := w.install(registrytest.Manifest)
	must.Do(t, os.WriteFile(filepath.Join(w.dir, ".upload.7"), []byte("x"), 0o600))
	must.Do(t, os.WriteFile(filepath.Join(w.dir, strings.Repeat("0", 64)+skill.Extension), []byte("x"), 0o600))
	must.Do(t, os.WriteFile(filepath.Join(w.dir, "README"), []byte("x"), 0o600))
	w.start()
	if got := w.packages(); !slices.Equal(got, []string{"README", strings.TrimPrefix(one.Digest, "sha256:") + skill.Extension}) {
		t.Errorf("left: %v", got)
	}
}
