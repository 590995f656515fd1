package clitest

import (
	"strings"
	"testing"

	"palyra/internal/core/tool"
)

// Reached is the network access of a program, with a name that the program chose.
var Reached = tool.Egress{
	Mode: "strict", Allowed: []string{"a.org:443", "b.org:80"}, Missed: 9,
	Observed: []tool.Connection{
		{Host: "a.org", Port: 443, Address: "93.184.216.34", BytesOut: 517, BytesIn: 3120, Verdict: "allowed", Leg: "transparent", Rule: "a.org:443"},
		{Host: "x.org", Verdict: "denied", Leg: "name", Reason: "unlisted"},
		{Host: "::1", Port: 80, Verdict: "denied", Leg: "socks", Reason: "unlisted"},
		{Host: "b.org", Port: 80, BytesOut: 7, Verdict: "allowed", Leg: "transparent", Count: 2},
		{Verdict: "denied", Leg: "name", Reason: "unlisted", Count: 7},
	},
}

// LedgerLines are the displayed lines of Reached.
var LedgerLines = []string{
	"egress        strict, a.org:443, b.org:80",
	"  VERDICT  HOST           ADDRESS        OUT  IN    BY           RULE       REASON\n",
	"  allowed  a.org:443      93.184.216.34  517  3120  transparent  a.org:443  -\n",
	"  denied   x.org          -              0    0     name         -          unlisted\n",
	"  denied   [::1]:80       -              0    0     socks        -          unlisted\n",
	"  allowed  2 to b.org:80  -              7    0     transparent  -          -\n",
	"  denied   7 others       -              0    0     name         -          unlisted\n",
	"  9 were not recorded individually, only in total\n",
}

// InOrder fails the test unless a text contains the lines in order.
func InOrder(t *testing.T, text string, want []string) {
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
