package people_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	palyrav1 "palyra/gen/palyra/v1"
	"palyra/internal/cli/clitest"
	"palyra/internal/cli/printer"
	"palyra/internal/core/must"
	"palyra/internal/identity"
)

// presenceFiles returns the names of the bundle's presence files.
func presenceFiles(t *testing.T, w *clitest.World) (names []string) {
	t.Helper()
	for _, path := range must.Get(filepath.Glob(filepath.Join(w.Bundle, "presence.*")))(t) {
		names = append(names, filepath.Base(path))
	}
	return names
}

// TestPresenceKey: a presence key is created with a passphrase that is typed twice. Each vote
// with --present, and each replacement of the key, requires the passphrase.
func TestPresenceKey(t *testing.T) {
	t.Parallel()
	w := clitest.NewWorld(t)
	for name, s := range map[string]printer.Streams{"two of them": at("correct horse", "correct house"), "a short one": at("short", "short"), "no terminal": {}} {
		if r := w.With(s, "key", "presence", "--passphrase"); r.Code == 0 || len(presenceFiles(t, w)) != 0 || len(w.Gateway.PresenceKeys) != 0 {
			t.Errorf("%s: %d, %s", name, r.Code, r.Err)
		}
	}
	r := w.With(at("correct horse", "correct horse"), "key", "presence", "--passphrase")
	w.Want(r, 0)
	key := w.Gateway.PresenceKeys[clitest.BundleDevice].SHA256()
	if !strings.Contains(r.Out, key) || strings.Contains(r.Out+r.Err, "correct horse") || strings.Join(presenceFiles(t, w), " ") != "presence.kept" {
		t.Errorf("%v: %s%s", presenceFiles(t, w), r.Out, r.Err)
	}
	info := must.Get(os.Stat(filepath.Join(w.Bundle, "presence.kept")))(t)
	if info.Mode().Perm() != 0o600 {
		t.Errorf("its mode is %s", info.Mode())
	}
	if r := w.Run("key", "show"); r.Code != 0 || !strings.Contains(r.Out, key+", passphrase") {
		t.Errorf("show: %s%s", r.Out, r.Err)
	}

	w.Pending()
	vote := clitest.DecideArgs("--allow", "once", "--present")
	for name, s := range map[string]printer.Streams{"another passphrase": at("wrong horse"), "no terminal": {}} {
		if r := w.With(s, vote...); r.Code == 0 || len(w.Gateway.Votes) != 0 {
			t.Errorf("%s: %d, %d votes, %s", name, r.Code, len(w.Gateway.Votes), r.Err)
		}
	}
	w.Want(w.With(at("correct horse"), vote...), 0)
	if len(w.Gateway.Votes) != 1 || w.Gateway.Votes[0].GetPresence() == nil {
		t.Errorf("voted %v", w.Gateway.Votes)
	}

	if r := w.With(at("staple battery", "staple battery", "wrong horse"), "key", "presence", "--passphrase"); r.Code == 0 || w.Gateway.PresenceKeys[clitest.BundleDevice].SHA256() != key {
		t.Errorf("replaced without the passphrase before: %s", r.Err)
	}
	w.Want(w.With(at("staple battery", "staple battery", "correct horse"), "key", "presence", "--passphrase"), 0)
	w.Pending()
	w.Want(w.With(at("staple battery"), vote...), 0)
}

// An interruption after the registration leaves the new key in presence.next, and the next
// command uses that key.
func TestPresenceKeyAfterAnInterruption(t *testing.T) {
	t.Parallel()
	w := clitest.NewWorld(t)
	w.Want(w.With(at("correct horse", "correct horse"), "key", "presence", "--passphrase"), 0)
	must.Do(t, os.Rename(filepath.Join(w.Bundle, "presence.kept"), filepath.Join(w.Bundle, "presence.next")))
	w.Pending()
	w.Want(w.With(at("correct horse"), clitest.DecideArgs("--allow", "once", "--present")...), 0)
	if strings.Join(presenceFiles(t, w), " ") != "presence.kept" {
		t.Errorf("there is %v", presenceFiles(t, w))
	}
}

// If the bundle lacks the key that the gateway has, or neither has one, the error has the
// command that creates a key.
func TestPresenceKeyIsNotThere(t *testing.T) {
	t.Parallel()
	w := clitest.NewWorld(t)
	w.Pending()
	vote := clitest.DecideArgs("--allow", "once", "--present")
	if r := w.With(at(), vote...); r.Code != 3 || !strings.Contains(r.Err, "PRESENCE_NOT_PROVEN") || !strings.Contains(r.Err, "palyra key presence --passphrase") {
		t.Errorf("without one: %d, %s", r.Code, r.Err)
	}
	w.Want(w.With(at("correct horse", "correct horse"), "key", "presence", "--passphrase"), 0)
	must.Do(t, os.Remove(filepath.Join(w.Bundle, "presence.kept")))
	for _, args := range [][]string{vote, {"key", "presence", "--passphrase"}} {
		r := w.With(at("another horse", "another horse"), args...)
		if r.Code != 3 || !strings.Contains(r.Err, "palyrad presence reset "+clitest.BundleDevice) {
			t.Errorf("%v: %d, %s", args, r.Code, r.Err)
		}
	}
	if len(w.Gateway.Votes) != 0 {
		t.Errorf("voted %v", w.Gateway.Votes)
	}
	for _, args := range [][]string{{"--socket", "key", "presence", "--passphrase"}} {
		if r := w.With(at("correct horse", "correct horse"), args...); r.Code == 0 {
			t.Errorf("%v: exit 0", args)
		}
	}
}

// The confirmation of a key requires a presence proof.
func TestConfirmPresenceKey(t *testing.T) {
	t.Parallel()
	w := clitest.NewWorld(t)
	w.Want(w.With(at("correct horse", "correct horse"), "key", "presence", "--passphrase"), 0)
	other := clitest.ApprovalID
	w.Gateway.Devices = append(w.Gateway.Devices, &palyrav1.Device{DeviceId: other, Principal: "user:bob", Name: "laptop"})
	if r := w.With(at("correct horse"), "key", "presence", "--confirm", other); r.Code == 0 {
		t.Errorf("one that does not wait: %s", r.Out)
	}
	w.Gateway.PresenceKeys[other] = identity.PresenceKey{Public: []byte("a key"), At: clitest.Now, Waits: true}
	if r := w.With(at("wrong horse"), "key", "presence", "--confirm", other); r.Code == 0 || !w.Gateway.PresenceKeys[other].Waits {
		t.Errorf("by another passphrase: %s", r.Out)
	}
	r := w.With(at("correct horse"), "key", "presence", "--confirm", other)
	w.Want(r, 0)
	if w.Gateway.PresenceKeys[other].Waits || !strings.Contains(r.Err, "user:bob") {
		t.Errorf("%s%s", r.Out, r.Err)
	}
}
