package runs_test

import (
	"strings"
	"testing"

	palyrav1 "palyra/gen/palyra/v1"
	"palyra/internal/cli/clitest"
	"palyra/internal/core/tool"
)

// TestRunsShowConnections: the timeline of a run has the connections of its calls.
func TestRunsShowConnections(t *testing.T) {
	t.Parallel()
	w := clitest.NewWorld(t)
	j := w.Journaled()
	many := clitest.Reached
	for range 30 {
		many.Observed = append(many.Observed, tool.Connection{Host: "x.org", Port: 443, Verdict: "denied", Reason: "unlisted"})
	}
	envelope := j.Envelopes[j.AttestedWith(t, `{}`, many)]
	w.Gateway.Runs.Script = func(r *clitest.Run) {
		r.Turn("", [3]string{"A", "process.run", `{}`})
		r.Propose("A", "process.run")
		r.Call("A", clitest.Allowed())
		r.Call("A", clitest.Finished("succeeded", "", `{}`))
		r.Call("A", &palyrav1.CallToolResponse{Event: &palyrav1.CallToolResponse_Attestation{Attestation: &palyrav1.ToolAttestation{
			AttestationId: envelope.ID, EnvelopeJson: envelope.JSON, JournalSeq: 42,
		}}})
	}
	w.Want(w.Run("run", "x"), 0)
	r := w.Run("runs", "show", clitest.RunID)
	w.Want(r, 0)
	clitest.InOrder(t, r.Out, append([]string{"attested   attestation " + envelope.ID}, append(clitest.LedgerLines[:7:7], "  and 15 more; `palyra attest show` lists all\n")...))
	if asJSON := w.Run("runs", "show", clitest.RunID, "-o", "json").Out; strings.Count(asJSON, `"verdict"`) != 35 {
		t.Errorf("machines get %s", asJSON)
	}
}
