package identity_test

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"encoding/json"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"palyra/internal/core/access"
	"palyra/internal/core/change"
	"palyra/internal/core/event"
	"palyra/internal/core/must"
	"palyra/internal/identity"
	"palyra/internal/identity/ca"
	"palyra/internal/identity/identitytest"
)

// world is the identity packages of a gateway, with an embedded store and a clock that tests
// advance.
type world struct {
	t   *testing.T
	mu  sync.Mutex
	now time.Time
	// clock, if not nil, replaces now.
	clock     func() time.Time
	dir       string
	authority *ca.Authority
	store     *identitytest.Store
	registry  *access.Registry
	*identity.Service
}

func newWorld(t *testing.T) *world {
	t.Helper()
	w := &world{t: t, now: time.Now().UTC(), dir: t.TempDir(), store: identitytest.NewStore(t)}
	w.restart()
	return w
}

// restart opens everything again, as a new start of the daemon does.
func (w *world) restart() {
	w.t.Helper()
	var err error
	if w.authority, _, err = ca.Open(filepath.Join(w.dir, "ca"), ca.Options{Now: w.Now}); err != nil {
		w.t.Fatal(err)
	}
	w.registry = must.Get(access.NewRegistry(w.t.Context(), w.store, []access.Role{"security"}))(w.t)
	w.Service = must.Get(identity.New(w.t.Context(), identity.Config{
		Guard:     change.Unguarded,
		Authority: w.authority, Store: w.store, Registry: w.registry, Now: w.Now,
	}))(w.t)
}

func (w *world) Now() time.Time {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.clock != nil {
		return w.clock()
	}
	return w.now
}

func (w *world) pass(d time.Duration) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.now = w.now.Add(d)
}

func (w *world) local() identity.LocalConfig {
	return identity.LocalConfig{Dir: filepath.Join(w.dir, "operator"), Address: "127.0.0.1:7443", ServerName: "localhost"}
}

// start creates the local operator.
func (w *world) start() identity.Device {
	w.t.Helper()
	d, ok, err := w.Local.Start(w.t.Context(), w.local())
	if err != nil || !ok {
		w.t.Fatalf("ok %v, %v", ok, err)
	}
	return d
}

// add makes the host add a member, and the owner of an agent consent.
func (w *world) add(p access.Principal, owner access.Principal, roles ...access.Role) identity.Admission {
	w.t.Helper()
	made := must.Get(w.Members.AddMember(w.t.Context(), identity.Daemon(), p.Name, p.Kind, roles, owner, csr(w.t), true))(w.t)
	if made.Member.AwaitsConsent {
		must.Do(w.t, w.consent(owner, p.String(), false))
	}
	return made
}

// codes returns the codes journaled after the first n events.
func (w *world) codes(n int) []event.Code {
	var out []event.Code
	for _, d := range w.store.Events()[n:] {
		out = append(out, d.Code)
		var payload map[string]any
		if err := json.Unmarshal(d.Payload, &payload); err != nil || d.Actor == "" {
			w.t.Errorf("%s by %q: payload %s, %v", d.Code, d.Actor, d.Payload, err)
		}
		if strings.Contains(string(d.Payload), "PRIVATE") {
			w.t.Errorf("%s: a private key in the payload", d.Code)
		}
	}
	return out
}

func (w *world) journaled(n int, want ...event.Code) {
	w.t.Helper()
	if got := w.codes(n); !slices.Equal(got, want) {
		w.t.Errorf("journaled %v, want %v", got, want)
	}
}

func key(t testing.TB) crypto.Signer {
	t.Helper()
	return must.Get(ecdsa.GenerateKey(elliptic.P256(), rand.Reader))(t)
}

func csr(t testing.TB) []byte {
	t.Helper()
	return must.Get(identity.Request(key(t)))(t)
}

func chainOf(a identity.Admission) []*x509.Certificate { return a.Certificate.Chain }

func (w *world) revoke(id string) {
	w.t.Helper()
	must.Get(w.Devices.Revoke(w.t.Context(), identity.Local(), id, "lost", true))(w.t)
}

// disable marks a member as disabled in the registry.
func (w *world) disable(m access.Member) {
	m.Disabled = true
	w.registry.Put(m)
}
