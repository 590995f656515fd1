package kek_test

import (
	"log/slog"
	"os"
	"path/filepath"
	"testing"
	"time"

	"palyra/internal/core/bus/bustest"
	"palyra/internal/core/must"
	"palyra/internal/core/reason"
	"palyra/internal/vault/kek"
	"palyra/internal/vault/kek/kektest"
	"palyra/internal/vault/keyring/keyringtest"
)

// at returns the environment of a session with a message bus.
func at(address string) func(string) string {
	return func(name string) string {
		if name == "DBUS_SESSION_BUS_ADDRESS" {
			return address
		}
		return ""
	}
}

// clock is a clock that a test advances.
type clock struct{ at time.Time }

func (c *clock) now() time.Time { return c.at }

func (c *clock) pass(d time.Duration) { c.at = c.at.Add(d) }

// TestGnomeKeyringBackend runs the conformance suite with a real keyring. The keys of two
// gateways of one user are separate.
func TestGnomeKeyringBackend(t *testing.T) {
	t.Parallel()
	k := keyringtest.Start(t)
	open := func(gateway string) kek.Backend { return kek.NewSession(kek.SecretService, gateway, at(k.Address)) }
	kektest.RunBackend(t, func() kek.Backend { return open("one") }, func() kek.Backend { return open("another") })
	if n := k.Items(t); n != 0 {
		t.Errorf("%d items are left when no key is", n)
	}
	ids := make(map[string]string)
	backs := make(map[string]func(*kek.Ring) error)
	rings := make(map[string]*kek.Ring)
	for _, gateway := range []string{"one", "another"} {
		rings[gateway] = must.Get(kek.Open(kek.Options{Dir: t.TempDir(), Gateway: gateway, Backend: kek.Auto, Env: at(k.Address), Log: slog.New(slog.NewTextHandler(t.Output(), nil))}))(t)
		ids[gateway], backs[gateway] = wrapped(t, rings[gateway], gateway)
		if s := rings[gateway].Status(t.Context()); s.Backend != kek.SecretService {
			t.Fatalf("%+v", s)
		}
	}
	next := must.Get(rings["one"].Rotate(t.Context()))(t)
	must.Do(t, rings["one"].Drop(t.Context(), ids["one"]))
	if n := k.Items(t); n != 2 {
		t.Errorf("%d items, want one for each gateway", n)
	}
	must.Do(t, backs["another"](rings["another"]))
	if now := must.Get(rings["one"].Current(t.Context()))(t); now != next {
		t.Errorf("%s is current", now)
	}
}

// A keyring is locked, unlocked later, killed and restarted. The vault is locked while the
// keyring is unavailable, and recovers by itself.
func TestGnomeKeyringLockedAndKilled(t *testing.T) {
	t.Parallel()
	k, c, dir := keyringtest.Start(t), &clock{time.Now()}, t.TempDir()
	o := kek.Options{Dir: dir, Gateway: kektest.Gateway, Backend: kek.Auto, Env: at(k.Address), Now: c.now}
	r := must.Get(kek.Open(o))(t)
	_, back := wrapped(t, r, "one")
	for name, away := range map[string]struct {
		begin, end func()
		says       string
	}{
		"locked": {func() { k.Lock(t) }, func() { k.Unlock(t) }, "is locked"},
		"killed": {k.End, func() { k.Begin(t) }, "connecting to the Secret Service"},
	} {
		away.begin()
		must.Do(t, back(r)) // control: a key is cached for its time
		_, err := r.Rotate(t.Context())
		is(t, name+": rotating", err, reason.VaultLocked)
		c.pass(kek.HoldTime)
		is(t, name, back(r), reason.VaultLocked, away.says)
		fresh := must.Get(kek.Open(o))(t) // palyrad starts meanwhile
		is(t, name+": started meanwhile", back(fresh), reason.VaultLocked, away.says)
		if s := fresh.Status(t.Context()); !s.Locked || s.Backend != kek.SecretService || s.Remedy == "" {
			t.Errorf("%s: %+v", name, s)
		}
		if _, err := os.Stat(filepath.Join(dir, "vault.kek")); err == nil {
			t.Errorf("%s: a key was made in a file", name)
		}
		away.end()
		c.pass(kek.RetryTime)
		for _, ring := range []*kek.Ring{r, fresh} {
			if err := back(ring); err != nil {
				t.Errorf("%s, and there again: %v", name, err)
			}
		}
		must.Get(r.Rotate(t.Context()))(t)
		must.Do(t, back(r))
		if s := r.Status(t.Context()); s.Leftover != 0 {
			t.Errorf("%s: %+v", name, s)
		}
	}
}

// A configured keyring that is locked at the first start stays the backend: the key is created
// once it is unlocked. Without a configured backend, a file is used.
func TestGnomeKeyringLockedAtFirst(t *testing.T) {
	t.Parallel()
	k, c, dir := keyringtest.Start(t), &clock{time.Now()}, t.TempDir()
	// The collection exists only after an item was stored in it.
	must.Do(t, kek.NewSession(kek.SecretService, "x", at(k.Address)).Put(t.Context(), "kek_1", make([]byte, 32)))
	k.Lock(t)
	r := must.Get(kek.Open(kek.Options{Dir: dir, Gateway: kektest.Gateway, Backend: kek.SecretService, Env: at(k.Address), Now: c.now}))(t)
	if s := r.Status(t.Context()); !s.Locked || s.Backend != "" {
		t.Errorf("%+v", s)
	}
	if left := must.Get(os.ReadDir(dir))(t); len(left) != 0 {
		t.Errorf("%d files were made", len(left))
	}
	free := must.Get(kek.Open(kek.Options{Dir: t.TempDir(), Gateway: kektest.Gateway, Backend: kek.Auto, Env: at(k.Address)}))(t)
	if s := free.Status(t.Context()); s.Locked || s.Backend != kek.InFile {
		t.Errorf("%+v", s)
	}
	k.Unlock(t)
	c.pass(kek.RetryTime)
	if s := r.Status(t.Context()); s.Locked || s.Backend != kek.SecretService {
		t.Errorf("%+v", s)
	}
}

// Without a session bus, or with a bus that has no keyring, a file is used.
func TestNoKeyring(t *testing.T) {
	t.Parallel()
	for name, address := range map[string]string{"no bus": "unix:path=" + filepath.Join(t.TempDir(), "none"), "no service": bustest.New(t)} {
		r := must.Get(kek.Open(kek.Options{Dir: t.TempDir(), Gateway: kektest.Gateway, Backend: kek.Auto, Env: at(address)}))(t)
		if s := r.Status(t.Context()); s.Locked || s.Backend != kek.InFile {
			t.Errorf("%s: %+v", name, s)
		}
	}
}
