package call_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"palyra/internal/call"
	"palyra/internal/core/event"
	"palyra/internal/core/must"
	"palyra/internal/core/reason"
	"palyra/internal/core/reason/reasontest"
	"palyra/internal/store/sqlite"
)

// A call is refused before it runs if its result cannot be stored, and the refusal is recorded.
// A dry run succeeds. Calls run once the vault is open, including repeated calls with the same
// key.
func TestCallsWaitForTheVault(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.ring.Locked.Store(true)
		keyed := readCall()
		keyed.IdempotencyKey = "k1"
		for _, s := range []call.Submission{readCall(), keyed} {
			_, o, err := w.call(s)
			reasontest.Want(t, "a locked vault", err, reason.VaultLocked)
			if o.Decision.Allowed {
				t.Errorf("decision %+v", o.Decision)
			}
		}
		w.read.Ran(t, 0)
		w.wantJournal(0, event.Refused, event.Refused)
		if _, err := w.Evaluate(t.Context(), readCall()); err != nil {
			t.Errorf("a dry run: %v", err)
		}

		w.ring.Locked.Store(false)
		time.Sleep(2 * time.Second) // in the bubble's clock; a failure is cached for one second
		for _, s := range []call.Submission{readCall(), keyed} {
			if _, _, err := w.call(s); err != nil {
				t.Errorf("an open vault: %v", err)
			}
		}
		w.read.Ran(t, 2)

		// The keys stay available after the vault was opened once, so that a running call can always
		// store its result.
		w.ring.Locked.Store(true)
		if _, _, err := w.call(readCall()); err != nil {
			t.Errorf("locked again: %v", err)
		}
		must.Do(t, sqlite.NewResults(w.db).KeepsResults(context.Background()))
	})
}
