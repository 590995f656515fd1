package evidence_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"palyra/internal/cli/clitest"
	"palyra/internal/core/must"
)

// TestLedgerIsShown: every connection of a call is displayed, from its attestation, from its
// event, and from a file without a gateway.
func TestLedgerIsShown(t *testing.T) {
	t.Parallel()
	w := clitest.NewWorld(t)
	j := w.Journaled()
	id := j.AttestedWith(t, `{}`, clitest.Reached)
	shown := w.Run("attest", "show", id)
	w.Want(shown, 0)
	clitest.InOrder(t, shown.Out, clitest.LedgerLines)
	// The document has the same lines.
	clitest.InOrder(t, string(must.Get(os.ReadFile("../../../docs/egress-ledger.md"))(t)), clitest.LedgerLines)

	envelope, keys := filepath.Join(w.Home, "envelope.json"), filepath.Join(w.Home, "keys.json")
	for path, args := range map[string][]string{envelope: {"attest", "show", id, "--envelope"}, keys: {"attest", "keys", "-o", "json"}} {
		must.Do(t, os.WriteFile(path, []byte(w.Run(args...).Out), 0o600))
	}
	verified := w.Run("attest", "verify", envelope, "--keys", keys)
	w.Want(verified, 0)
	clitest.InOrder(t, verified.Out, clitest.LedgerLines)

	event := w.Run("journal", "show", fmt.Sprint(j.Log.Head().Seq))
	w.Want(event, 0)
	clitest.InOrder(t, event.Out, clitest.LedgerLines)
	// Control: a call without connections has no table.
	if r := w.Run("attest", "show", j.Attested(t, `{}`)); strings.Contains(r.Out, "VERDICT") || !strings.Contains(r.Out, "egress        strict\n") {
		t.Errorf("%s", r.Out)
	}
}
