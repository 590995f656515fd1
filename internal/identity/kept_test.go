package identity_test

import (
	"crypto"
	"crypto/rand"
	"crypto/sha256"
	"crypto/x509"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"palyra/internal/core/access"
	"palyra/internal/core/must"
	"palyra/internal/core/reason"
	"palyra/internal/identity"
	"palyra/internal/identity/ca"
	"palyra/internal/identity/keptkey"
)

// elsewhere removes the local operator's key from its bundle, as a move to a keyring does.
func (w *world) elsewhere() (key crypto.Signer) {
	w.t.Helper()
	b := must.Get(identity.ReadBundle(w.local().Dir))(w.t)
	must.Do(w.t, identity.Keep(w.t.Context(), w.local().Dir, keptkey.ForKeyring("device key", must.Get(x509.MarshalPKIXPublicKey(b.Key.Public()))(w.t))))
	return b.Key
}

// TestExternalKey: palyrad continues to issue certificates for a key that it does not find, at
// every start and when one is due, and never creates another key as a file. The uid alone no
// longer authenticates an operator. Once the key is available again, authentication works as
// before.
func TestExternalKey(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.start()
	if _, err := w.Callers.AuthenticateHost(); err != nil {
		t.Fatalf("control: the uid is not enough: %v", err)
	}
	// A killed write left the key in a file with another name.
	must.Do(t, os.WriteFile(filepath.Join(w.local().Dir, ".cert.pem.77"), must.Get(os.ReadFile(filepath.Join(w.local().Dir, "cert.pem")))(t), 0o600))
	key := w.elsewhere()
	for _, e := range must.Get(os.ReadDir(w.local().Dir))(t) {
		if text := must.Get(os.ReadFile(filepath.Join(w.local().Dir, e.Name())))(t); strings.Contains(string(text), "PRIVATE KEY") {
			t.Errorf("%s has the key", e.Name())
		}
	}
	file := filepath.Join(w.local().Dir, "key.pem")
	for range 2 {
		w.pass(ca.LeafLife)
		w.restart()
		if _, ok, err := w.Local.Start(t.Context(), w.local()); !ok || err != nil {
			t.Fatalf("starting: %v, %v", ok, err)
		}
		if _, err := os.Lstat(file); !errors.Is(err, fs.ErrNotExist) {
			t.Fatalf("there is a file with a key: %v", err)
		}
		b := must.Get(identity.ReadBundle(w.local().Dir))(t)
		if b.Kept == nil || !b.NotAfter().After(w.Now()) {
			t.Errorf("the bundle is %v until %s", b.Kept, b.NotAfter())
		}
		if _, err := b.Key.Sign(rand.Reader, make([]byte, sha256.Size), crypto.SHA256); reason.Of(err) != reason.NotConnected {
			t.Errorf("a locked key signs: %v", err)
		}
		if _, err := w.Callers.AuthenticateHost(); reason.Of(err) != reason.Unauthenticated {
			t.Errorf("the uid alone is the operator: %v", err)
		}
		if c := must.Get(w.Callers.Authenticate(b.Chain))(t); c.Principal != access.User("local") {
			t.Errorf("the certificate is of %v", c)
		}
	}
	must.Do(t, identity.Unkeep(t.Context(), w.local().Dir, key))
	w.start()
	if b := must.Get(identity.ReadBundle(w.local().Dir))(t); b.Kept != nil {
		t.Error("the key is still elsewhere")
	}
	must.Get(w.Callers.AuthenticateHost())(t)
}

// A reference to a key of another device, or an unreadable one, gets no certificate: write
// access to it does not make a caller the local operator.
func TestForgedNoteOfAKey(t *testing.T) {
	t.Parallel()
	for name, text := range map[string]func() []byte{
		"another key": func() []byte {
			other := must.Get(identity.BundleKey(t.TempDir() + "/other"))(t)
			return must.Get(keptkey.ForKeyring("device key", must.Get(x509.MarshalPKIXPublicKey(other.Public()))(t)).Text())(t)
		},
		"no note": func() []byte { return []byte("{}") },
	} {
		w := newWorld(t)
		dev := w.start()
		w.elsewhere()
		must.Do(t, os.WriteFile(filepath.Join(w.local().Dir, "key.kept"), text(), 0o600))
		w.restart()
		if _, ok, err := w.Local.Start(t.Context(), w.local()); ok || err != nil {
			t.Errorf("%s: started with %v, %v", name, ok, err)
		}
		if now, _ := w.Directory.Device(dev.ID); now.KeySHA256 != dev.KeySHA256 || now.Serial != dev.Serial {
			t.Errorf("%s: the device has another certificate", name)
		}
		if _, err := w.Callers.AuthenticateHost(); reason.Of(err) != reason.Unauthenticated {
			t.Errorf("%s: the uid alone is the operator: %v", name, err)
		}
	}
}

// An interruption between recording the key's new place and removing the file, or in the
// opposite direction, leaves a working bundle.
func TestInterruptedMove(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.start()
	dir := w.local().Dir
	file := filepath.Join(dir, "key.pem")
	text := must.Get(os.ReadFile(file))(t)
	w.elsewhere()
	must.Do(t, os.WriteFile(file, text, 0o600))
	if b := must.Get(identity.ReadBundle(dir))(t); b.Kept != nil {
		t.Error("the file does not count")
	}
	w.restart()
	w.start()
	must.Get(w.Callers.AuthenticateHost())(t)
}
