package evidence_test

import (
	"crypto/ed25519"
	"encoding/hex"
	"strings"
	"testing"
	"time"

	"palyra/internal/cli/clitest"
	"palyra/internal/core/event"
	"palyra/internal/core/must"
	"palyra/internal/evidence/journal"
)

// restoredWorld is a machine that stored a head of a journal with 12 events. The gateway now
// has another journal, restored from a backup.
type restoredWorld struct {
	*clitest.World
	signer ed25519.PrivateKey
	now    *clitest.Journal
}

func newRestoredWorld(t *testing.T) *restoredWorld {
	t.Helper()
	w := &restoredWorld{World: clitest.NewWorld(t), signer: clitest.NewSigner(t)}
	seen := clitest.NewJournal(t, w.CA, w.signer)
	seen.Events(t, 12)
	w.Gateway.Journal, w.Gateway.ShowsHead = seen, true
	w.Want(w.Run("journal", "prove", "12"), 0)
	w.Want(w.Run("status"), 0)
	w.now = clitest.NewJournal(t, w.CA, w.signer)
	w.now.Events(t, 6)
	w.Gateway.Journal = w.now
	return w
}

// head returns the current head of the journal.
func (w *restoredWorld) head(t *testing.T) journal.RestoredHead {
	t.Helper()
	cp := must.Get(w.now.Log.Checkpoints.Write(t.Context()))(t)
	return journal.RestoredHead{Size: cp.Size, Root: hex.EncodeToString(cp.Root[:]), Checkpoint: cp.Note, Proven: true}
}

// restored records a restore, and adds events beyond the stored head.
func (w *restoredWorld) restored(t *testing.T, backup journal.RestoredHead) {
	t.Helper()
	r := journal.Restored{MadeAt: time.Now().UTC(), RestoredAt: time.Now().UTC(), Release: "v1", Backup: backup}
	must.Do(t, w.now.Log.Record(t.Context(), event.Restored, journal.Daemon, "R", r))
	w.now.Events(t, 30)
	must.Get(w.now.Log.Checkpoints.Write(t.Context()))(t)
}

func TestAcceptRestore(t *testing.T) {
	t.Parallel()
	w := newRestoredWorld(t)
	w.restored(t, w.head(t))
	for _, args := range [][]string{{"status"}, {"journal", "prove", "1"}, {"journal", "verify"}} {
		if r := w.Run(args...); r.Code != 8 || !strings.Contains(r.Err, "palyra journal accept-restore") {
			t.Errorf("%v: exit code %d: %s", args, r.Code, r.Err)
		}
	}
	w.Want(w.Run("journal", "accept-restore"), 2)
	w.Want(w.Run("status"), 8) // nothing was accepted
	r := w.Run("journal", "accept-restore", "--yes")
	w.Want(r, 0)
	for _, want := range []string{"seen before   12 events", "backup        6 events", "from a backup of", "the events 7 to 12"} {
		if !strings.Contains(r.Out, want) {
			t.Errorf("it does not show %q:\n%s", want, r.Out)
		}
	}
	for _, args := range [][]string{{"status"}, {"journal", "prove", "1"}, {"journal", "verify"}} {
		w.Want(w.Run(args...), 0)
	}
	if r := w.Run("journal", "accept-restore", "--yes"); r.Code != 0 || !strings.Contains(r.Err, "nothing to accept") {
		t.Errorf("a second time: %d, %s", r.Code, r.Err)
	}
}

// Another journal is accepted only with a restore event that this gateway signed, and that
// names a head which its journal extends.
func TestAcceptRestoreRefuses(t *testing.T) {
	t.Parallel()
	for name, change := range map[string]func(t *testing.T, w *restoredWorld, backup *journal.RestoredHead){
		"a backup that holds what was seen": func(t *testing.T, w *restoredWorld, backup *journal.RestoredHead) {
			w.now.Events(t, 20)
			*backup = w.head(t)
		},
		"another size": func(_ *testing.T, _ *restoredWorld, backup *journal.RestoredHead) { backup.Size-- },
		"another root": func(_ *testing.T, _ *restoredWorld, backup *journal.RestoredHead) {
			backup.Root = strings.Repeat("0", 64)
		},
		"a note that is not one": func(_ *testing.T, _ *restoredWorld, backup *journal.RestoredHead) { backup.Checkpoint = "x" },
		"a head that is signed by another key": func(t *testing.T, w *restoredWorld, backup *journal.RestoredHead) {
			key := must.Get(journal.NewKey("gw-test", clitest.NewSigner(t)))(t)
			cp := must.Get(journal.ParseUnverified(backup.Checkpoint))(t)
			backup.Checkpoint = must.Get(journal.SignCheckpoint(key, cp.Size, cp.Root))(t).Note
		},
		"a head that the journal does not extend": func(t *testing.T, w *restoredWorld, backup *journal.RestoredHead) {
			key := must.Get(journal.NewKey("gw-test", w.signer))(t)
			cp := must.Get(journal.SignCheckpoint(key, backup.Size, [32]byte{1}))(t)
			backup.Checkpoint, backup.Root = cp.Note, hex.EncodeToString(cp.Root[:])
		},
		"a head after the event": func(_ *testing.T, _ *restoredWorld, backup *journal.RestoredHead) { backup.Size = 11 },
	} {
		t.Run(name, func(t *testing.T) {
			w := newRestoredWorld(t)
			backup := w.head(t)
			change(t, w, &backup)
			w.restored(t, backup)
			w.Want(w.Run("journal", "accept-restore", "--yes"), 8)
			w.Want(w.Run("status"), 8)
		})
	}
	t.Run("no event", func(t *testing.T) {
		w := newRestoredWorld(t)
		w.now.Events(t, 30)
		w.head(t)
		w.Want(w.Run("journal", "accept-restore", "--yes"), 8)
		w.Want(w.Run("status"), 8)
	})
	t.Run("nothing was seen", func(t *testing.T) {
		w := clitest.NewWorld(t)
		w.Journaled()
		w.Want(w.Run("journal", "accept-restore", "--yes"), 1)
	})
}

// TestStatusStoresTheGatewayKey: the first status stores the gateway's key, later ones follow
// its changes, and a replaced key is accepted only if the key set contains it.
func TestStatusStoresTheGatewayKey(t *testing.T) {
	t.Parallel()
	w := clitest.NewWorld(t)
	signer := clitest.NewSigner(t)
	j := clitest.NewJournal(t, w.CA, signer)
	j.Events(t, 9)
	must.Get(j.Log.Checkpoints.Write(t.Context()))(t)
	w.Gateway.Journal, w.Gateway.ShowsHead = j, true
	w.Want(w.Run("status"), 0)
	j.Events(t, 9)
	must.Get(j.Log.Checkpoints.Write(t.Context()))(t)
	w.Want(w.Run("status"), 0)
	j.Rotate(t)
	j.Events(t, 3)
	must.Get(j.Log.Checkpoints.Write(t.Context()))(t)
	w.Want(w.Run("status"), 0)
	shorter := clitest.NewJournal(t, w.CA, signer)
	shorter.Events(t, 9)
	must.Get(shorter.Log.Checkpoints.Write(t.Context()))(t)
	w.Gateway.Journal = shorter
	if r := w.Run("status"); r.Code != 8 || !strings.Contains(r.Out, "gw-test") {
		t.Errorf("a rollback: exit code %d: %s", r.Code, r.Err)
	}
}
