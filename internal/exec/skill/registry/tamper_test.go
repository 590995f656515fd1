package registry_test

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"palyra/internal/core/event"
	"palyra/internal/core/must"
	"palyra/internal/core/reason"
	"palyra/internal/evidence/dsse"
	"palyra/internal/exec/skill"
	"palyra/internal/exec/skill/registry"
	"palyra/internal/exec/skill/registry/registrytest"
	"palyra/internal/store/sqlite"
)

// file returns the path of a version's package.
func (w *world) file(i registry.Installed) string {
	return filepath.Join(w.dir, strings.TrimPrefix(i.Digest, "sha256:")+skill.Extension)
}

// rows returns the content of the store.
func (w *world) rows() registry.Kept { return must.Get(w.store.Skills(w.t.Context()))(w.t) }

// forge changes rows without an event, like an attacker with write access to the store's file.
func (w *world) forge(c registry.Change) { must.Do(w.t, w.store.ChangeSkills(w.t.Context(), c)) }

// row changes the first row of a version.
func (w *world) row(change func(*registry.Installed)) registry.Installed {
	old := w.rows().Versions[0]
	forged := old
	change(&forged)
	w.forge(registry.Change{Drop: []registry.Installed{old}, Put: []registry.Installed{forged}})
	return forged
}

// pin changes the row of the publisher.
func (w *world) pin(change func(*registry.Publisher)) {
	p := w.rows().Publishers[0]
	change(&p)
	w.forge(registry.Change{Publishers: []registry.Publisher{p}})
}

// unpin removes all rows of publishers.
func (w *world) unpin() {
	w.store.Edit(func(tx *sqlite.Tx) error {
		_, err := tx.Exec("DELETE FROM skill_publishers")
		return err
	})
}

// flipAt changes the last byte of a text in the package.
func flipAt(text string) func(*testing.T, *world, registry.Installed) {
	return func(t *testing.T, w *world, i registry.Installed) {
		data := must.Get(os.ReadFile(w.file(i)))(t)
		at := bytes.Index(data, []byte(text))
		if at < 0 {
			t.Fatalf("the package has no %q", text)
		}
		data[at+len(text)-1] ^= 1
		must.Do(t, os.WriteFile(w.file(i), data, 0o600))
	}
}

// tampering lists changes by an attacker with write access to the state directory, and the
// expected errors.
var tampering = []struct {
	name string
	do   func(*testing.T, *world, registry.Installed)
	says string
	// running is true if a running palyrad detects the change as well. The store is read only at
	// the start.
	running bool
	// status is the resulting status of the skill: the last one that an operator set, regardless
	// of the row.
	status registry.Status
}{
	{"a byte of the package", func(t *testing.T, w *world, i registry.Installed) {
		data := must.Get(os.ReadFile(w.file(i)))(t)
		data[len(data)/2] ^= 1
		must.Do(t, os.WriteFile(w.file(i), data, 0o600))
	}, "the package was changed", true, registry.Active},
	{"the manifest in the package", flipAt("Add a note."), `the entry "skill.toml" was changed`, true, registry.Active},
	{"a module in the package", flipAt("_start"), `the entry "modules/notes.wasm" was changed`, true, registry.Active},
	{"the signature in the package", flipAt(`"payload":"`), `the entry "signature.dsse.json" was changed`, true, registry.Active},
	{"a rewritten manifest", func(t *testing.T, w *world, i registry.Installed) {
		p := must.Get(skill.Open(must.Get(os.ReadFile(w.file(i)))(t)))(t)
		p.ManifestText = []byte(registrytest.With(t, registrytest.Manifest, "Add a note.", "Add it."))
		p.Manifest = must.Get(skill.ParseManifest(p.ManifestText))(t)
		must.Do(t, os.WriteFile(w.file(i), must.Get(skill.Pack(p))(t), 0o600))
	}, `the entry "skill.toml" was changed after it was signed`, true, registry.Active},
	{"the package cut off", func(t *testing.T, w *world, i registry.Installed) {
		must.Do(t, os.Truncate(w.file(i), 100))
	}, "the package was changed", true, registry.Active},
	{"the package grown", func(t *testing.T, w *world, i registry.Installed) {
		must.Do(t, os.Truncate(w.file(i), skill.MaxPackage+1))
	}, "67108865 bytes", true, registry.Active},
	{"the package replaced by another of its publisher", func(t *testing.T, w *world, i registry.Installed) {
		must.Do(t, os.WriteFile(w.file(i), registrytest.Package(t, registrytest.With(t, registrytest.Manifest, "Add a note.", "Add it."), key), 0o600))
	}, "it is the package notes@1.0.0 of example.org", true, registry.Active},
	{"the package removed", func(t *testing.T, w *world, i registry.Installed) {
		must.Do(t, os.Remove(w.file(i)))
	}, "the package does not exist", true, registry.Active},
	{"the package a link to the same bytes", func(t *testing.T, w *world, i registry.Installed) {
		must.Do(t, os.Rename(w.file(i), filepath.Join(w.dir, "..", "elsewhere")))
		must.Do(t, os.Symlink(filepath.Join("..", "elsewhere"), w.file(i)))
	}, "not a regular file", true, registry.Active},
	{"package and row, by a package of the pinned key", func(t *testing.T, w *world, i registry.Installed) {
		data := registrytest.Package(t, registrytest.With(t, registrytest.Manifest, "Add a note.", "Add it."), key)
		forged := w.row(func(r *registry.Installed) { r.Digest = digestOf(data) })
		must.Do(t, os.WriteFile(w.file(forged), data, 0o600))
	}, "package's digest", false, registry.Active},
	{"the status", func(t *testing.T, w *world, i registry.Installed) {
		must.Get(w.SetStatus(t.Context(), alice, "notes", "", registry.Quarantined, ""))(t)
		w.row(func(r *registry.Installed) { r.Status = registry.Active })
	}, `the status "active", but the journal has "quarantined"`, false, registry.Quarantined},
	{"which version is current", func(t *testing.T, w *world, i registry.Installed) {
		w.row(func(r *registry.Installed) { r.Current = false })
	}, "current version", false, registry.Active},
	{"the key of the row", func(t *testing.T, w *world, i registry.Installed) {
		w.row(func(r *registry.Installed) { r.KeyID = dsse.KeyID(public(other)) })
	}, "key", false, registry.Active},
	{"the publisher of the row", func(t *testing.T, w *world, i registry.Installed) {
		w.row(func(r *registry.Installed) { r.Publisher = "maps.org" })
	}, "publisher", false, registry.Active},
	{"the version of the row", func(t *testing.T, w *world, i registry.Installed) {
		w.row(func(r *registry.Installed) { r.Version = "1.0.1" })
	}, "the journal has no record of this version", false, ""},
	{"the pinned key", func(t *testing.T, w *world, i registry.Installed) {
		w.pin(func(p *registry.Publisher) { p.PublicKey, p.KeyID = public(other), dsse.KeyID(public(other)) })
	}, "trust store was changed: it has the key " + dsse.KeyID(public(other)), false, registry.Active},
	{"the pinned key without its fingerprint", func(t *testing.T, w *world, i registry.Installed) {
		w.pin(func(p *registry.Publisher) { p.PublicKey = public(other) })
	}, "trust store was changed", false, registry.Active},
	{"that the publisher is distrusted", func(t *testing.T, w *world, i registry.Installed) {
		must.Do(t, w.Distrust(t.Context(), alice, "example.org"))
		w.pin(func(p *registry.Publisher) { p.Distrusted = false })
	}, "quarantined", false, registry.Quarantined},
	{"the publisher taken away", func(t *testing.T, w *world, i registry.Installed) {
		w.unpin()
	}, "no key of the publisher example.org is pinned", false, registry.Active},
}

func TestTampered(t *testing.T) {
	t.Parallel()
	for _, c := range tampering {
		t.Run(c.name, func(t *testing.T) {
			w := newWorld(t)
			one := w.install(registrytest.Manifest)
			must.Get(w.Load(t.Context(), "notes", ""))(t) // control; the package is now cached
			c.do(t, w, one)
			load := func() {
				t.Helper()
				i := w.List()[0]
				_, err := w.Load(t.Context(), "notes", i.Version)
				if err == nil || !strings.Contains(err.Error(), c.says) {
					t.Errorf("loaded: %v\nwant %q", err, c.says)
				}
				if next := reason.Known(err, reason.Internal).NextStep(); next == "" {
					t.Error("nothing is said of what to do")
				}
			}
			if c.running {
				load()
				load()
			}
			for range 3 {
				w.start()
				load()
				if got := w.Active(); len(got) != 0 {
					t.Errorf("active: %v", got)
				}
				if i := w.List()[0]; i.Status != c.status {
					t.Errorf("its status is %s: %+v", i.Status, i)
				}
			}
			want := 1
			if c.name == "the publisher taken away" {
				want = 0 // all existing entries are unchanged
			}
			if c.name == "the version of the row" {
				want = 2 // one row was added, another is missing
			}
			if n := w.count(event.SkillTampered); n != want {
				t.Errorf("%d events of it, want %d", n, want)
			}
		})
	}
}

// The next key does not count as a first use if the publisher's row is removed from the trust
// store.
func TestRemovedPinIsNotAFirstUse(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.install(registrytest.Manifest)
	must.Do(t, w.Remove(t.Context(), alice, "notes", ""))
	w.unpin()
	w.start()
	_, err := w.Install(t.Context(), alice, w.bring(registrytest.Manifest, other))
	refused(t, err, reason.VerificationFailed, "the trust store has none")
	if len(w.List())+len(w.Publishers()) != 0 || w.count(event.SkillTampered) != 1 {
		t.Errorf("installed: %v, pinned: %v", w.List(), w.Publishers())
	}
	must.Do(t, w.Trust(t.Context(), alice, registry.Publisher{Name: "example.org", PublicKey: public(key)}))
	w.install(registrytest.Manifest)
}

// Installing the same package again repairs a tampered one, and keeps its status.
func TestReinstallRepairs(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	one := w.install(registrytest.Manifest)
	must.Get(w.SetStatus(t.Context(), alice, "notes", "", registry.Disabled, "later"))(t)
	must.Do(t, os.Remove(w.file(one)))
	w.start()
	if got := w.List()[0]; got.Problem == nil || len(got.Manifest.Tools) != 0 {
		t.Fatalf("a version without its package: %+v", got)
	}
	_, err := w.SetStatus(t.Context(), alice, "notes", "", registry.Active, "")
	refused(t, err, reason.VerificationFailed, "the package does not exist")
	if notices := w.Notices(); len(notices) != 1 || !strings.Contains(notices[0], "notes@1.0.0 does not run: the package does not exist; Find out") {
		t.Errorf("the operator is told %q", notices)
	}
	got := w.install(registrytest.Manifest)
	if got.Problem != nil || got.Status != registry.Disabled || got.Why != "later" || !got.Current {
		t.Errorf("mended: %+v", got)
	}
	must.Get(w.SetStatus(t.Context(), alice, "notes", "", registry.Active, ""))(t)
	must.Get(w.Load(t.Context(), "notes", ""))(t)
	if notices := w.Notices(); len(notices) != 0 {
		t.Errorf("after that the operator is told %q", notices)
	}

	// Setting the status again repairs a row.
	w.row(func(r *registry.Installed) { r.Status = registry.Quarantined })
	w.start()
	if w.List()[0].Problem == nil {
		t.Fatal("a changed row was not noticed") // control
	}
	must.Get(w.SetStatus(t.Context(), alice, "notes", "", registry.Active, ""))(t)
	w.start()
	must.Get(w.Load(t.Context(), "notes", ""))(t)
}

// An added row is not an installation, even for a package signed with the pinned key. No status
// makes it one, and removing it keeps the installed versions.
func TestAddedRowIsNotAnInstallation(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	one := w.install(registrytest.Manifest)
	data := registrytest.Package(t, version(t, "0.1.0"), key)
	added := one
	added.Version, added.Digest, added.Current = "0.1.0", digestOf(data), false
	w.forge(registry.Change{Put: []registry.Installed{added}})
	must.Do(t, os.WriteFile(w.file(added), data, 0o600))
	w.start()
	for _, s := range registry.Statuses {
		_, err := w.SetStatus(t.Context(), alice, "notes", "0.1.0", s, "")
		refused(t, err, reason.VerificationFailed, "the journal has no record of this version")
	}
	_, err := w.Load(t.Context(), "notes", "0.1.0")
	refused(t, err, reason.VerificationFailed, "the journal has no record of this version")
	must.Get(w.SetStatus(t.Context(), alice, "notes", "1.0.0", registry.Disabled, ""))(t)
	must.Get(w.SetStatus(t.Context(), alice, "notes", "1.0.0", registry.Active, ""))(t)
	w.start() // the events since then do not make it one either
	_, err = w.Load(t.Context(), "notes", "0.1.0")
	refused(t, err, reason.VerificationFailed, "the journal has no record of this version")
	must.Do(t, w.Remove(t.Context(), alice, "notes", "0.1.0"))
	w.start()
	must.Get(w.Load(t.Context(), "notes", ""))(t)
	if len(w.List()) != 1 || len(w.Notices()) != 0 {
		t.Errorf("left: %+v, %q", w.List(), w.Notices())
	}
}

// A change of one version does not confirm a tampered row of another.
func TestChangeDoesNotConfirmOtherRows(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.install(registrytest.Manifest)
	must.Get(w.SetStatus(t.Context(), alice, "notes", "", registry.Quarantined, ""))(t)
	w.install(version(t, "1.1.0"))
	for _, i := range w.rows().Versions {
		i.Status = registry.Active
		w.forge(registry.Change{Put: []registry.Installed{i}})
	}
	w.start()
	must.Get(w.SetStatus(t.Context(), alice, "notes", "1.1.0", registry.Disabled, ""))(t)
	w.start()
	if got := must.Get(w.Get("notes", "1.0.0"))(t); got.Status != registry.Quarantined || got.Problem == nil {
		t.Errorf("the other row counts: %+v", got)
	}
}

// All later loads fail after a skill is disabled while many goroutines load it.
func TestConcurrentLoadWhileDisabled(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.install(registrytest.Manifest)
	var wait sync.WaitGroup
	for range 8 {
		wait.Go(func() {
			for {
				if _, err := w.Load(t.Context(), "notes", ""); err != nil {
					if reason.Of(err) != reason.PolicyDenied {
						t.Error(err)
					}
					return
				}
			}
		})
	}
	must.Get(w.SetStatus(t.Context(), alice, "notes", "", registry.Quarantined, ""))(t)
	_, err := w.Load(t.Context(), "notes", "")
	refused(t, err, reason.PolicyDenied, "quarantined")
	wait.Wait()
}
