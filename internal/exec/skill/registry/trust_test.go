package registry_test

import (
	"crypto/ed25519"
	"slices"
	"strings"
	"testing"

	"palyra/internal/core/event"
	"palyra/internal/core/must"
	"palyra/internal/core/reason"
	"palyra/internal/evidence/dsse"
	"palyra/internal/evidence/journal"
	"palyra/internal/exec/skill/registry"
	"palyra/internal/exec/skill/registry/registrytest"
)

func public(k ed25519.PrivateKey) ed25519.PublicKey { return registrytest.Public(k) }

// refused verifies that an error has a code and contains a text.
func refused(t *testing.T, err error, code reason.Code, says string) {
	t.Helper()
	if reason.Of(err) != code || !strings.Contains(err.Error(), says) {
		t.Errorf("got %s: %v\nwant %s with %q", reason.Of(err), err, code, says)
	}
}

// count returns the number of events with a code.
func (w *world) count(code event.Code) int {
	return len(must.Get(w.store.DB.Events(w.t.Context(), journal.Filter{Code: string(code)}))(w.t))
}

// bring stages a package of a manifest, signed by a key.
func (w *world) bring(manifest string, k ed25519.PrivateKey) string {
	w.t.Helper()
	return registrytest.Stage(w.t, w.Registry, alice, registrytest.Package(w.t, manifest, k))
}

func TestFirstUsePinsTheKey(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	digest := w.bring(registrytest.Manifest, key)
	in := must.Get(w.Inspect(t.Context(), digest))(t)
	if !in.NewPublisher || in.Installable != nil || in.Signer.KeyID != dsse.KeyID(public(key)) || in.Replaces != nil {
		t.Fatalf("inspected: %+v", in)
	}
	must.Get(w.Install(t.Context(), alice, digest))(t)
	p := w.Publishers()
	if len(p) != 1 || !p[0].FirstUse || p[0].KeyID != dsse.KeyID(public(key)) || p[0].By != alice.Principal {
		t.Fatalf("pinned: %+v", p)
	}

	next := registrytest.With(t, registrytest.Manifest, `"1.0.0"`, `"1.1.0"`)
	forged := w.bring(next, other)
	in = must.Get(w.Inspect(t.Context(), forged))(t)
	refused(t, in.Installable, reason.VerificationFailed, "has the pinned key "+dsse.KeyID(public(key)))
	_, err := w.Install(t.Context(), alice, forged)
	refused(t, err, reason.VerificationFailed, dsse.KeyID(public(other)))
	if got := w.Publishers(); got[0].KeyID != p[0].KeyID || len(w.List()) != 1 {
		t.Errorf("a refused installation left %+v and %d versions", got, len(w.List()))
	}
	// Control: the same version, signed with the pinned key.
	must.Get(w.Install(t.Context(), alice, w.bring(next, key)))(t)
}

func TestAKeyIsNotReplaced(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.install(registrytest.Manifest)
	name := "example.org"
	refused(t, w.Trust(t.Context(), alice, registry.Publisher{Name: name, PublicKey: public(other)}), reason.AlreadyExists, "already")
	refused(t, w.Trust(t.Context(), alice, registry.Publisher{Name: name, KeyID: "SHA256:another", PublicKey: public(key)}), reason.VerificationFailed, "SHA256:another")
	refused(t, w.Trust(t.Context(), alice, registry.Publisher{Name: "Example Org", PublicKey: public(key)}), reason.InvalidInput, "not a valid publisher name")
	refused(t, w.Trust(t.Context(), alice, registry.Publisher{Name: name, PublicKey: public(key)[:31]}), reason.InvalidInput, "31 bytes")
	must.Do(t, w.Trust(t.Context(), alice, registry.Publisher{Name: name, PublicKey: public(key)}))
	if p := w.Publishers()[0]; p.FirstUse || p.KeyID != dsse.KeyID(public(key)) {
		t.Errorf("a key that a person named is %+v", p)
	}
	events := w.count(event.PublisherTrusted)
	must.Do(t, w.Trust(t.Context(), alice, registry.Publisher{Name: name, PublicKey: public(key)}))
	if n := w.count(event.PublisherTrusted); n != events {
		t.Error("a key that is trusted was trusted once more")
	}
}

func TestDistrustStopsAllOfAPublisher(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.install(registrytest.Manifest)
	w.install(registrytest.With(t, registrytest.Manifest, `"1.0.0"`, `"1.1.0"`))
	w.install(registrytest.With(t, registrytest.Manifest, `"notes"`, `"todo"`))
	theirs := registrytest.With(t, registrytest.Manifest, `"notes"`, `"maps"`, "example.org", "maps.org")
	must.Get(w.Install(t.Context(), alice, w.bring(theirs, other)))(t)
	if got := w.Active(); !slices.Equal(got, []string{"maps", "notes", "todo"}) {
		t.Fatalf("active: %v", got)
	}

	must.Do(t, w.Distrust(t.Context(), alice, "example.org"))
	for range 2 { // now, and after a restart
		if got := w.Active(); !slices.Equal(got, []string{"maps"}) {
			t.Errorf("active: %v", got)
		}
		for _, i := range w.List() {
			if want := i.Skill != "maps"; (i.Status == registry.Quarantined) != want || i.Problem != nil {
				t.Errorf("%s is %s: %v", i.Name(), i.Status, i.Problem)
			}
		}
		_, err := w.Load(t.Context(), "notes", "")
		refused(t, err, reason.PolicyDenied, "quarantined: the publisher example.org is distrusted")
		_, err = w.SetStatus(t.Context(), alice, "notes", "", registry.Active, "")
		refused(t, err, reason.VerificationFailed, "distrusted")
		_, err = w.Install(t.Context(), alice, w.bring(registrytest.With(t, registrytest.Manifest, `"1.0.0"`, `"2.0.0"`), key))
		refused(t, err, reason.VerificationFailed, "distrusted")
		w.start()
	}
	if n := w.count(event.SkillTampered); n != 0 {
		t.Errorf("%d events of damage", n)
	}
	refused(t, w.Distrust(t.Context(), alice, "nobody"), reason.NotFound, "nobody")

	// Packages signed by the old key are still refused after another key is trusted.
	must.Do(t, w.Trust(t.Context(), alice, registry.Publisher{Name: "example.org", PublicKey: public(other)}))
	_, err := w.SetStatus(t.Context(), alice, "notes", "", registry.Active, "")
	refused(t, err, reason.VerificationFailed, "was signed with "+dsse.KeyID(public(key)))
	must.Get(w.Install(t.Context(), alice, w.bring(registrytest.With(t, registrytest.Manifest, `"1.0.0"`, `"2.0.0"`), other)))(t)
	must.Get(w.Load(t.Context(), "notes", ""))(t)
}
