package attest_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"palyra/internal/core/canonical"
	"palyra/internal/core/must"
	"palyra/internal/core/tool"
	"palyra/internal/evidence/attest"
)

// TestConnectionsAreAttested: every field of a connection, including a refused one, is signed
// and read back.
func TestConnectionsAreAttested(t *testing.T) {
	t.Parallel()
	n := newNotary(t, newAuthority(t))
	x := execution()
	x.Report.Egress = tool.Egress{
		Mode: "strict", Allowed: []string{"a.org:443"}, Missed: 3,
		Observed: []tool.Connection{
			{
				Host: "a.org", Port: 443, Address: "93.184.216.34", BytesOut: 1 << 40, BytesIn: 2, Verdict: "allowed", Leg: "transparent",
				Rule: "a.org:443", Reason: "budget_time", Requests: 4, Started: 1500 * time.Millisecond, Duration: time.Hour,
			},
			{Host: "x.org", Port: 443, Verdict: "denied", Leg: "name", Reason: "unlisted", Count: 3},
		},
	}
	x.Report.Isolation.Ports, x.Report.Isolation.Captured = []int{80, 443}, []string{"ipv4", "ipv6"}
	envelope := mustSign(t, n, x).JSON
	got := must.Get(attest.Verify(envelope, n.KeySet()))(t)
	if i := got.Predicate.Isolation; !slices.Equal(i.Ports, []int{80, 443}) || !slices.Equal(i.Captured, []string{"ipv4", "ipv6"}) {
		t.Errorf("isolation %+v", i)
	}
	e := got.Predicate.Egress
	if e.Missed != 3 || len(e.Observed) != 2 {
		t.Fatalf("egress %+v", e)
	}
	want := []attest.Connection{
		{
			Host: "a.org", Port: 443, Address: "93.184.216.34", BytesOut: 1 << 40, BytesIn: 2, Verdict: "allowed", Leg: "transparent",
			Rule: "a.org:443", Reason: "budget_time", Requests: 4, Started: 1_500_000_000, Duration: 3_600_000_000_000,
		},
		{Host: "x.org", Port: 443, Verdict: "denied", Leg: "name", Reason: "unlisted", Count: 3},
	}
	if !slices.Equal(e.Observed, want) {
		t.Errorf("connections %+v", e.Observed)
	}
	// Read, which verifies nothing, returns the same.
	read, err := attest.Read(envelope)
	if err != nil || !slices.Equal(read.Predicate.Egress.Observed, e.Observed) {
		t.Errorf("read %+v, %v", read.Predicate.Egress, err)
	}
	if _, err := attest.Read([]byte(`{"payload":"e30="}`)); err == nil {
		t.Error("what is no attestation was read")
	}
}

// TestLongestLedgerFits: the maximum number of listed connections and of sums, with the longest
// names, fits within the limit of verifiers.
func TestLongestLedgerFits(t *testing.T) {
	t.Parallel()
	const entries, sums = 2000, 256 + 64
	n := newNotary(t, newAuthority(t))
	x := execution()
	label := strings.Repeat("n", 60)
	for i := range entries {
		x.Report.Egress.Observed = append(x.Report.Egress.Observed, tool.Connection{
			Host: fmt.Sprintf("%05d.%s.%s.%s.example.org", i, label, label, label), Port: 65535, Address: "2001:db8:ffff:ffff:ffff:ffff:ffff:ffff",
			BytesOut: 1 << 40, BytesIn: 1 << 40, Verdict: "allowed", Leg: "transparent", Rule: "*." + label + "." + label + "." + label + ".example.org:65535",
			Reason: "budget_connections", Requests: 100_000, Started: time.Hour + 1, Duration: time.Hour + 1,
		})
	}
	for _, c := range x.Report.Egress.Observed[:sums] {
		x.Report.Egress.Observed = append(x.Report.Egress.Observed, tool.Connection{
			Host: c.Host, Port: c.Port, BytesOut: c.BytesOut, BytesIn: c.BytesIn, Verdict: c.Verdict, Leg: c.Leg, Reason: c.Reason, Requests: c.Requests, Count: 1 << 40,
		})
	}
	envelope := mustSign(t, n, x).JSON
	// The event of the journal contains the report and the envelope, and must fit into one message
	// of the API.
	const message = 4 << 20
	report := must.Get(canonical.Marshal(x.Report))(t)
	if size := len(report) + len(envelope); size > message*9/10 || len(envelope) > attest.MaxEnvelope {
		t.Errorf("the report has %d bytes, the envelope %d", len(report), len(envelope))
	}
	if _, err := attest.Verify(envelope, n.KeySet()); err != nil {
		t.Error(err)
	}
}
