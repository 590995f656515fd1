//go:build unix

package gateway

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"palyra/internal/call"
	"palyra/internal/core/must"
	"palyra/internal/core/reason"
	"palyra/internal/core/statedir"
	"palyra/internal/ops/journalkey"
	"palyra/internal/store/sqlite"
)

// echoOnce makes a call without an effect.
func (w *clockWorld) echoOnce(key string) (call.Outcome, error) {
	return w.g.pipeline.Call(w.t.Context(), call.Submission{
		Caller: w.caller, Tool: "echo", Input: []byte(`{"text":"kept at rest"}`), IdempotencyKey: key,
	}, func(call.Event) {})
}

// TestStartsWithALockedVault: a gateway whose vault cannot be opened starts, reports the
// vault's state, and verifies its journal. It refuses calls whose result it could not store.
// After the vault is opened, stored results are read and calls run, without a restart.
func TestStartsWithALockedVault(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "state")
	synctest.Test(t, func(t *testing.T) {
		wall := &jumping{}
		w := openClockWorld(t, dir, wall)
		first := must.Get(w.echoOnce("k"))(t)
		w.close()

		key := statedir.VaultKey(dir)
		must.Do(t, os.Chmod(key, 0o644)) // a key file that other users can read is not used
		w = openClockWorld(t, dir, wall)
		tending, stop := context.WithCancel(t.Context())
		tended := make(chan error, 1)
		go func() { tended <- w.g.stores.tendResults(tending) }()
		_, err := w.echoOnce("")
		if reason.Of(err) != reason.VaultLocked {
			t.Errorf("a call: %v", err)
		}
		if _, err = w.echoOnce("k"); reason.Of(err) != reason.VaultLocked {
			t.Errorf("the result of before: %v", err)
		}
		status := must.Get(control{w.g}.Status(t.Context()))(t)
		if text := strings.Join(status.Notices, "\n"); !strings.Contains(text, "VAULT_LOCKED before they run") {
			t.Errorf("notices: %s", text)
		}
		past, err := w.g.pipeline.PastCall(t.Context(), first.Decision.ProposalID)
		if err != nil || past.Attested == nil {
			t.Errorf("the call of before: %+v, %v", past, err)
		}
		if err := w.g.pipeline.ResultKept(t.Context(), &past); reason.Of(err) != reason.VaultLocked {
			t.Errorf("its result: %v", err)
		}
		origin, known, err := journalkey.Origin(w.g.authority)
		must.Do(t, err)
		must.Get(sqlite.Verify(t.Context(), statedir.Store(dir), origin, known))(t)

		must.Do(t, os.Chmod(key, 0o600))
		time.Sleep(5 * time.Second) // on the clock of the bubble
		again := must.Get(w.echoOnce("k"))(t)
		if string(again.Report.Result) != string(first.Report.Result) || again.Decision.ID != first.Decision.ID {
			t.Errorf("got %s, want %s", again.Report.Result, first.Report.Result)
		}
		must.Get(w.echoOnce(""))(t)
		status = must.Get(control{w.g}.Status(t.Context()))(t)
		if text := strings.Join(status.Notices, "\n"); strings.Contains(text, "VAULT_LOCKED") {
			t.Errorf("notices after the unlock: %s", text)
		}
		stop()
		must.Do(t, <-tended)
		w.close()
	})
}
