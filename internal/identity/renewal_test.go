package identity_test

import (
	"bytes"
	"context"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"testing"

	"palyra/internal/core/access"
	"palyra/internal/core/must"
	"palyra/internal/core/reason"
	"palyra/internal/core/reason/reasontest"
	"palyra/internal/identity"
)

// bundle creates a member with a credential on disk.
func (w *world) bundle(name string) (dir string, dev identity.Device) {
	w.t.Helper()
	dir = filepath.Join(w.t.TempDir(), name)
	k := must.Get(identity.BundleKey(dir))(w.t)
	made := must.Get(w.Members.AddMember(w.t.Context(), identity.Daemon(), name, access.KindUser, []access.Role{access.RoleOperator}, access.Principal{}, must.Get(identity.Request(k))(w.t), true))(w.t)
	must.Do(w.t, identity.WriteBundle(dir, identity.Bundle{Root: w.authority.Root(), Chain: made.Certificate.Chain, Key: k, Address: "127.0.0.1:7443", ServerName: "localhost"}))
	return dir, made.Device
}

// older converts a bundle to the form of older releases.
func older(t *testing.T, dir string) {
	t.Helper()
	text := must.Get(os.ReadFile(filepath.Join(dir, "cert.pem")))(t)
	block, rest := pem.Decode(text)
	must.Do(t, os.RemoveAll(filepath.Join(dir, "key.pem")))
	must.Do(t, os.WriteFile(filepath.Join(dir, "key.pem"), pem.EncodeToMemory(block), 0o600))
	must.Do(t, os.WriteFile(filepath.Join(dir, "cert.pem"), rest, 0o600))
}

func (w *world) renewal(dir string) identity.Renewal {
	return identity.Renewal{
		Dir: dir, Due: func(identity.Bundle) bool { return true },
		Certify: func(ctx context.Context, b identity.Bundle, csr []byte) ([]*x509.Certificate, error) {
			c, err := w.Callers.Authenticate(b.Chain)
			if err != nil {
				return nil, err
			}
			w.use(b.Chain)
			issued, err := w.Certificates.Renew(ctx, c.DeviceID, "", csr)
			return issued.Chain, err
		},
	}
}

// works checks that the credential on disk is valid now and long after, and can renew.
func (w *world) works(what, dir string) {
	w.t.Helper()
	for range 2 {
		b := must.Get(identity.ReadBundle(dir))(w.t)
		if !w.good(b.Chain) {
			w.t.Errorf("%s: the credential does not act", what)
		}
		w.use(b.Chain)
		w.pass(2 * identity.KeyGrace)
		if !w.good(b.Chain) {
			w.t.Errorf("%s: the credential does not act later", what)
		}
		must.Get(identity.RenewBundle(w.t.Context(), w.renewal(dir)))(w.t)
	}
}

// A renewal that is killed at any step leaves a working credential, which the next renewal
// replaces. This holds for bundles of this release and of the previous one.
func TestRenewalKilledAtEveryStep(t *testing.T) {
	t.Parallel()
	for _, form := range []string{"this release", "the release before"} {
		var steps []string
		for n := 0; n <= len(steps); n++ {
			w := newWorld(t)
			w.start()
			dir, _ := w.bundle("bob")
			if form != "this release" {
				older(t, dir)
			}
			before := must.Get(identity.ReadBundle(dir))(t)
			w.use(before.Chain)
			r := w.renewal(dir)
			seen, killed := 0, ""
			r.Reached(func(step string) {
				if seen++; seen == n {
					killed = step
					panic("killed")
				}
			})
			if n == 0 {
				// The first round only collects the steps.
				all := w.renewal(dir)
				all.Reached(func(step string) { steps = append(steps, step) })
				must.Get(identity.RenewBundle(t.Context(), all))(t)
				if len(steps) != 7 {
					t.Fatalf("steps %v", steps)
				}
				continue
			}
			func() {
				defer func() { _ = recover() }()
				_, _ = identity.RenewBundle(t.Context(), r)
			}()
			after := must.Get(identity.ReadBundle(dir))(t)
			swapped := !after.Chain[0].Equal(before.Chain[0])
			if want := slices.Contains([]string{"cert.pem", "key.pem"}, killed); killed == "" || swapped != want {
				t.Errorf("%s, killed at %q: the credential is the new one: %v", form, killed, swapped)
			}
			w.works(form+", killed at "+killed, dir)
		}
	}
}

// A bundle of the previous release works, and its next renewal converts it to this release's
// form: a key with its certificates in one file, under both names.
func TestOlderBundle(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.start()
	dir, _ := w.bundle("bob")
	older(t, dir)
	old := must.Get(identity.ReadBundle(dir))(t)
	fresh := must.Get(identity.RenewBundle(t.Context(), w.renewal(dir)))(t)
	if fresh.Chain[0].Equal(old.Chain[0]) || bytes.Equal(fresh.Chain[0].RawSubjectPublicKeyInfo, old.Chain[0].RawSubjectPublicKeyInfo) {
		t.Error("the renewal kept the key")
	}
	text := must.Get(os.ReadFile(filepath.Join(dir, "cert.pem")))(t)
	if other, err := os.ReadFile(filepath.Join(dir, "key.pem")); err == nil && !bytes.Equal(text, other) {
		t.Error("key.pem is another file than cert.pem")
	}
	w.works("a bundle of the release before", dir)
}

// While one process renews, another uses the old credential or waits, and does not renew again.
func TestTwoRenewals(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.start()
	dir, dev := w.bundle("bob")
	release := must.Get(identity.LockBundle(t.Context(), dir, false))(t)
	if _, err := identity.RenewBundle(t.Context(), w.renewal(dir)); !errors.Is(err, identity.ErrRenewing) {
		t.Errorf("beside another: %v", err)
	}
	before := must.Get(identity.ReadBundle(dir))(t)
	var group sync.WaitGroup
	for range 4 {
		group.Go(func() {
			r := w.renewal(dir)
			r.Wait = true
			r.Due = func(b identity.Bundle) bool { return b.Chain[0].Equal(before.Chain[0]) }
			if b, err := identity.RenewBundle(t.Context(), r); err != nil || b.Chain[0].Equal(before.Chain[0]) {
				t.Errorf("the one that waited has %v, %v", b, err)
			}
		})
	}
	must.Do(t, release())
	group.Wait()
	if dev, _ = w.Directory.Device(dev.ID); len(dev.Keys) != 2 {
		t.Errorf("%d keys: more than one renewed", len(dev.Keys))
	}
	w.works("renewed by one of four", dir)
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	release = must.Get(identity.LockBundle(t.Context(), dir, false))(t)
	defer func() { must.Do(t, release()) }()
	r := w.renewal(dir)
	r.Wait = true
	if _, err := identity.RenewBundle(ended, r); !errors.Is(err, context.Canceled) {
		t.Errorf("a wait that ended: %v", err)
	}
}

// A gateway that answers with a certificate for another key changes nothing.
func TestRenewalOfAnotherKey(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.start()
	dir, dev := w.bundle("bob")
	r := w.renewal(dir)
	r.Certify = func(ctx context.Context, _ identity.Bundle, _ []byte) ([]*x509.Certificate, error) {
		issued, err := w.Certificates.Renew(ctx, dev.ID, "", csr(t))
		return issued.Chain, err
	}
	_, err := identity.RenewBundle(t.Context(), r)
	reasontest.Want(t, "another key", err, reason.VerificationFailed)
	w.works("after it", dir)
}
