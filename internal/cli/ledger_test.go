package cli

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	palyrav1 "palyra/gen/palyra/v1"
	"palyra/internal/tool"
)

// reached is what a program tried, with a name that a program chose.
var reached = tool.Egress{
	Mode: "strict", Allowed: []string{"a.org:443", "b.org:80"}, Missed: 9,
	Observed: []tool.Connection{
		{Host: "a.org", Port: 443, Address: "93.184.216.34", BytesOut: 517, BytesIn: 3120, Verdict: "allowed", Leg: "transparent", Rule: "a.org:443"},
		{Host: "x.org", Verdict: "denied", Leg: "name", Reason: "unlisted"},
		{Host: "::1", Port: 80, Verdict: "denied", Leg: "socks", Reason: "unlisted"},
		{Host: "b.org", Port: 80, BytesOut: 7, Verdict: "allowed", Leg: "transparent", Count: 2},
		{Verdict: "denied", Leg: "name", Reason: "unlisted", Count: 7},
	},
}

var ledgerLines = []string{
	"egress        strict, a.org:443, b.org:80",
	"  VERDICT  HOST           ADDRESS        OUT  IN    BY           RULE       REASON\n",
	"  allowed  a.org:443      93.184.216.34  517  3120  transparent  a.org:443  -\n",
	"  denied   x.org          -              0    0     name         -          unlisted\n",
	"  denied   [::1]:80       -              0    0     socks        -          unlisted\n",
	"  allowed  2 to b.org:80  -              7    0     transparent  -          -\n",
	"  denied   7 others       -              0    0     name         -          unlisted\n",
	"  9 were not recorded one by one, and are added up\n",
}

func inOrder(t *testing.T, text string, want []string) {
	t.Helper()
	rest := text
	for _, line := range want {
		_, after, ok := strings.Cut(rest, line)
		if !ok {
			t.Fatalf("does not show %q in its place:\n%s", line, text)
		}
		rest = after
	}
}

// TestLedgerIsShown: whoever looks at a call sees every connection of it, by
// its attestation, by the event, and from a file without a gateway.
func TestLedgerIsShown(t *testing.T) {
	w := newWorld(t)
	j := w.journaled()
	id := j.attestedWith(t, `{}`, reached)
	shown := w.run("attest", "show", id)
	w.want(shown, 0)
	inOrder(t, shown.out, ledgerLines)

	envelope, keys := filepath.Join(w.home, "envelope.json"), filepath.Join(w.home, "keys.json")
	for path, args := range map[string][]string{envelope: {"attest", "show", id, "--envelope"}, keys: {"attest", "keys", "-o", "json"}} {
		if err := os.WriteFile(path, []byte(w.run(args...).out), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	verified := w.run("attest", "verify", envelope, "--keys", keys)
	w.want(verified, 0)
	inOrder(t, verified.out, ledgerLines)

	event := w.run("journal", "show", fmt.Sprint(j.log.Head().Seq))
	w.want(event, 0)
	inOrder(t, event.out, ledgerLines)
	// Control: a call that reached for nothing has no table.
	if r := w.run("attest", "show", j.attested(t, `{}`)); strings.Contains(r.out, "VERDICT") || !strings.Contains(r.out, "egress        strict\n") {
		t.Errorf("%s", r.out)
	}
}

// TestRunsShowConnections: the timeline of a run says what its calls reached.
func TestRunsShowConnections(t *testing.T) {
	w := newWorld(t)
	j := w.journaled()
	many := reached
	for range 30 {
		many.Observed = append(many.Observed, tool.Connection{Host: "x.org", Port: 443, Verdict: "denied", Reason: "unlisted"})
	}
	envelope := j.envelopes[j.attestedWith(t, `{}`, many)]
	w.gateway.runs.script = func(r *fakeRun) {
		r.turn("", [3]string{"A", "process.run", `{}`})
		r.propose("A", "process.run")
		r.call("A", allowed())
		r.call("A", finished("succeeded", "", `{}`))
		r.call("A", &palyrav1.CallToolResponse{Event: &palyrav1.CallToolResponse_Attestation{Attestation: &palyrav1.ToolAttestation{
			AttestationId: envelope.ID, EnvelopeJson: envelope.JSON, JournalSeq: 42,
		}}})
	}
	w.want(w.run("run", "x"), 0)
	r := w.run("runs", "show", fakeRunID)
	w.want(r, 0)
	inOrder(t, r.out, append([]string{"attested   attestation " + envelope.ID}, append(ledgerLines[:7:7], "  and 15 more; `palyra attest show` lists all\n")...))
	if asJSON := w.run("runs", "show", fakeRunID, "-o", "json").out; strings.Count(asJSON, `"verdict"`) != 35 {
		t.Errorf("machines get %s", asJSON)
	}
}
