package people_test

import (
	"bytes"
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"palyra/internal/cli/clitest"
	"palyra/internal/cli/printer"
	"palyra/internal/core/must"
	"palyra/internal/identity"
	"palyra/internal/vault/keyring"
	"palyra/internal/vault/keyring/keyringtest"
)

// at returns the streams of a user at a terminal who types these passphrases without echo.
func at(phrases ...string) printer.Streams {
	return printer.Streams{InTerminal: true, ErrTerminal: true, ReadHidden: func(context.Context) (string, error) {
		if len(phrases) == 0 {
			return "", errors.New("asked once more")
		}
		next := phrases[0]
		phrases = phrases[1:]
		return next, nil
	}}
}

// isFile reports whether a file of the bundle contains a private key.
func isFile(t *testing.T, w *clitest.World) bool {
	t.Helper()
	for _, f := range must.Get(os.ReadDir(w.Bundle))(t) {
		if strings.Contains(string(must.Get(os.ReadFile(filepath.Join(w.Bundle, f.Name())))(t)), "PRIVATE KEY") {
			return true
		}
	}
	return false
}

// TestRenewal: the certificate of a key that is stored elsewhere is renewed for the same key,
// which stays in its place.
func TestRenewal(t *testing.T) {
	t.Parallel()
	w := clitest.NewWorld(t)
	w.Now = time.Now()
	w.WriteBundle(w.Now.Add(-50*time.Minute), w.Now.Add(10*time.Minute))
	w.Want(w.With(at("correct horse", "correct horse"), "key", "protect", "--passphrase"), 0)
	was := must.Get(identity.ReadBundle(w.Bundle))(t)
	w.Want(w.With(at("correct horse"), "status"), 0)
	now := must.Get(identity.ReadBundle(w.Bundle))(t)
	if !now.NotAfter().After(was.NotAfter()) || now.Kept == nil || isFile(t, w) || !bytes.Equal(now.Kept.PublicKey, was.Kept.PublicKey) {
		t.Errorf("the bundle ends %s, before %s, and is kept %v", now.NotAfter(), was.NotAfter(), now.Kept)
	}
	w.Want(w.With(at("correct horse"), "status"), 0)

	// A rotation is refused, because the new key would be a file.
	r := w.With(at("correct horse"), "devices", "rotate", "--self")
	if r.Code == 0 || !strings.Contains(r.Err, "palyra key protect --undo") || isFile(t, w) {
		t.Errorf("rotating a key that is kept elsewhere: exit %d, %s", r.Code, r.Err)
	}
	if after := must.Get(identity.ReadBundle(w.Bundle))(t); !after.Chain[0].Equal(now.Chain[0]) {
		t.Error("it got another certificate")
	}
}

// TestPassphrase: a key is protected only if the passphrase is typed twice. Every command then
// requires the passphrase, and the protection can be removed.
func TestPassphrase(t *testing.T) {
	t.Parallel()
	w := clitest.NewWorld(t)
	was := string(must.Get(os.ReadFile(filepath.Join(w.Bundle, "key.pem")))(t))
	for name, s := range map[string]printer.Streams{"two of them": at("correct horse", "correct house"), "a short one": at("short", "short"), "no terminal": {}} {
		if r := w.With(s, "key", "protect", "--passphrase"); r.Code == 0 || !isFile(t, w) {
			t.Errorf("%s: %d, %s", name, r.Code, r.Err)
		}
	}
	r := w.With(at("correct horse", "correct horse"), "key", "protect", "--passphrase")
	w.Want(r, 0)
	if isFile(t, w) || strings.Contains(r.Out+r.Err, "correct horse") {
		t.Errorf("the key is a file: %s%s", r.Out, r.Err)
	}
	w.Want(w.With(at("correct horse"), "status"), 0)
	if r := w.With(at("wrong horse"), "status"); r.Code == 0 || !strings.Contains(r.Err, "does not unlock the key") {
		t.Errorf("a wrong passphrase: %s", r.Err)
	}
	if r := w.Run("status"); r.Code == 0 || !strings.Contains(r.Err, "without a terminal") {
		t.Errorf("without a terminal: %s", r.Err)
	}
	if r := w.With(at("correct horse", "correct horse"), "key", "protect", "--passphrase"); r.Code == 0 {
		t.Error("it was protected twice")
	}
	w.Want(w.Run("key", "show"), 0)
	w.Want(w.With(at("correct horse"), "key", "protect", "--undo"), 0)
	if now := string(must.Get(os.ReadFile(filepath.Join(w.Bundle, "key.pem")))(t)); now != was {
		t.Error("another key came back")
	}
	w.Want(w.Run("status"), 0)
}

// TestKeyring: a key can be moved to a real keyring and back. Without a keyring the key stays
// in its file, and in a session whose keyring lacks the key the error has the remedy.
func TestKeyring(t *testing.T) {
	t.Parallel()
	w := clitest.NewWorld(t)
	w.Env["DBUS_SESSION_BUS_ADDRESS"] = "unix:path=" + filepath.Join(t.TempDir(), "none")
	if r := w.Run("key", "protect", "--keyring"); r.Code == 0 || !isFile(t, w) || !strings.Contains(r.Err, "using the keyring") {
		t.Errorf("without a keyring: %d, %s", r.Code, r.Err)
	}
	w.Env["DBUS_SESSION_BUS_ADDRESS"] = keyringtest.New(t)
	r := w.Run("key", "protect", "--keyring")
	w.Want(r, 0)
	if isFile(t, w) || !strings.Contains(r.Out, "keyring") {
		t.Errorf("the key is a file: %s", r.Out)
	}
	w.Want(w.Run("status"), 0)
	session := w.Env["DBUS_SESSION_BUS_ADDRESS"]
	w.Env["DBUS_SESSION_BUS_ADDRESS"] = keyringtest.New(t) // the bus of another session
	if r := w.Run("status"); r.Code == 0 || !strings.Contains(r.Err, "does not have the key") || !strings.Contains(r.Err, "palyrad operator bundle") {
		t.Errorf("in another session: %s", r.Err)
	}
	w.Env["DBUS_SESSION_BUS_ADDRESS"] = session
	ring, item := keyring.Session(func(name string) string { return w.Env[name] }), must.Get(identity.ReadBundle(w.Bundle))(t).Kept.Item
	must.Get(ring.Get(t.Context(), item))(t)
	w.Want(w.Run("key", "protect", "--undo"), 0)
	w.Want(w.Run("status"), 0)
	_, err := ring.Get(t.Context(), item)
	if !isFile(t, w) || !errors.Is(err, keyring.ErrNotFound) {
		t.Errorf("after the undo: %v", err)
	}
}
