package kek_test

import (
	"os"
	"path/filepath"
	"testing"

	"palyra/internal/core/must"
	"palyra/internal/core/reason"
	"palyra/internal/core/statedir"
	"palyra/internal/vault/kek"
	"palyra/internal/vault/kek/kektest"
	"palyra/internal/vault/keyring/keyringtest"
)

// TestKeysMoveToAnotherBackend: the keys of a keyring, including older ones, move to another
// backend and open there what they wrapped; the source is unchanged. Without the keyring they do
// not move, and a missing socket of the keyring does not count as a gateway without a key.
func TestKeysMoveToAnotherBackend(t *testing.T) {
	t.Parallel()
	k, dir := keyringtest.Start(t), t.TempDir()
	o := kek.Options{Dir: dir, Gateway: kektest.Gateway, Backend: kek.Auto, Env: at(k.Address)}
	if p, err := kek.Carry(t.Context(), o); p != nil || err != nil {
		t.Errorf("before the first start: %v, %v", p, err)
	}
	r := must.Get(kek.Open(o))(t)
	_, old := wrapped(t, r, "one")
	must.Get(r.Rotate(t.Context()))(t)
	_, young := wrapped(t, r, "two")
	pin := must.Get(os.ReadFile(statedir.VaultPin(dir)))(t)
	p := must.Get(kek.Carry(t.Context(), o))(t)
	if p == nil || p.Backend != kek.SecretService {
		t.Fatalf("%+v", p)
	}
	if string(must.Get(os.ReadFile(statedir.VaultPin(dir)))(t)) != string(pin) || k.Items(t) != 2 {
		t.Error("something was changed")
	}
	there := kek.Options{Dir: t.TempDir(), Gateway: kektest.Gateway, Backend: kek.Auto, Env: at("unix:path=" + filepath.Join(dir, "none"))}
	must.Do(t, os.WriteFile(statedir.VaultPin(there.Dir), p.Pin, 0o600))
	must.Do(t, os.WriteFile(statedir.VaultKey(there.Dir), p.Key, 0o600))
	carried := must.Get(kek.Open(there))(t)
	for _, back := range []func(*kek.Ring) error{old, young} {
		must.Do(t, back(carried))
	}
	if p, err := kek.Carry(t.Context(), there); p != nil || err != nil {
		t.Errorf("a file: %v, %v", p, err)
	}
	must.Do(t, os.Remove(statedir.VaultKey(there.Dir)))
	_, err := kek.Carry(t.Context(), there)
	is(t, "a file that is gone", err, reason.VaultKeyMissing, "is missing")

	o.Env = there.Env
	_, err = kek.Carry(t.Context(), o)
	is(t, "no bus", err, reason.VaultLocked)
	is(t, "no bus", young(must.Get(kek.Open(o))(t)), reason.VaultLocked)
	k.Lock(t)
	o.Env = at(k.Address)
	_, err = kek.Carry(t.Context(), o)
	is(t, "locked", err, reason.VaultLocked, "is locked")
}
