//go:build linux

package egress

import (
	"fmt"
	"slices"
	"testing"

	"palyra/internal/core/tool"
	"palyra/internal/egress"
	"palyra/internal/exec/sandbox/jail/jailtest"
)

// TestThousandConnections: each of a thousand connections of one sandbox, fifty at a time, gets
// back the bytes that it sent. The record contains each connection with its byte counts.
func TestThousandConnections(t *testing.T) {
	t.Parallel()
	const count, atOnce = 1000, 50
	target := fmt.Sprintf("%s:%d", echoHost, echoPort)
	g := newGround(t)
	report := jailtest.Run(t, g.runner, g.spec(t, allowed(), "./client", "load", target, fmt.Sprint(count), fmt.Sprint(atOnce)))
	if said := string(report.Stdout.Head); said != fmt.Sprintf("%d echoed\n", count) {
		failed := slices.DeleteFunc(report.Connections, func(c tool.Connection) bool { return c.Verdict == egress.VerdictAllowed })
		t.Fatalf("said %q, stderr %s; connections that failed: %+v", said, report.Stderr.Head, failed)
	}
	want := []string{"name " + echoHost + " allowed"}
	want = append(want, slices.Repeat([]string{"transparent " + target + " allowed"}, count)...)
	expect(t, "the record", record(t, report), want, report.Stderr)
	// Connection number i sends i+1 bytes; the connections start in random order.
	var sizes []int
	for _, c := range report.Connections {
		if c.Leg == egress.LegName {
			continue
		}
		if c.BytesOut != c.BytesIn {
			t.Errorf("%d bytes went out and %d came in", c.BytesOut, c.BytesIn)
		}
		sizes = append(sizes, int(c.BytesOut))
	}
	slices.Sort(sizes)
	for i, size := range sizes {
		if size != i+1 {
			t.Fatalf("the connection that comes at %d by size has %d bytes", i+1, size)
		}
	}
}
