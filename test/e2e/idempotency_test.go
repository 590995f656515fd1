//go:build linux

package e2e

import (
	"strings"
	"testing"
)

// TestIdempotencyKey makes one call from several processes at the same time, and again after a
// restart. It takes effect once, and every caller gets the same result and attestation.
func TestIdempotencyKey(t *testing.T) {
	t.Parallel()
	g := newGateway(t)
	g.policy("10.cedar", waived)
	g.Start()
	c := g.local()
	g.file("log", "")
	append1 := func(key, text string) []string {
		return []string{"call", "process.run", "--idempotency-key", key, "-o", "ndjson", `argv=["tee","-a","log"]`, "stdin=" + text}
	}
	var all []*pending
	for range 4 {
		all = append(all, c.begin(append1("key-1", "once\n")...))
	}
	ids := make(map[string]int)
	for _, p := range all {
		r := p.wait()
		r.Want(t, 0)
		ids[attestationIn(t, r.Out)]++
	}
	if len(ids) != 1 {
		t.Errorf("the processes got the attestations %v, want one", ids)
	}
	if got := g.Read("log"); got != "once\n" {
		t.Fatalf("the call had its effect more than once: %q", got)
	}
	g.Kill()
	g.Start()
	r := c.run(append1("key-1", "once\n")...)
	r.Want(t, 0, "used before")
	if id := attestationIn(t, r.Out); ids[id] == 0 {
		t.Errorf("after a restart the attestation is %s, want that of %v", id, ids)
	}
	c.run(append1("key-1", "other\n")...).Want(t, 7, "IDEMPOTENCY_MISMATCH")
	if got := g.Read("log"); got != "once\n" {
		t.Errorf("a retry had an effect: %q", got)
	}
	// Control: under another key it is another call.
	c.run(append1("key-2", "once\n")...).Want(t, 0)
	if got := g.Read("log"); got != "once\nonce\n" {
		t.Errorf("under another key the file holds %q", got)
	}
	// Each caller has its own keys.
	bob := g.add("bob", "--role", "operator")
	bob.run(append1("key-1", "bob\n")...).Want(t, 0)
	if got := g.Read("log"); got != "once\nonce\nbob\n" {
		t.Errorf("under another caller's equal key the file holds %q", got)
	}
}

// attestationIn returns the attestation's id from the events of a call.
func attestationIn(t *testing.T, events string) string {
	t.Helper()
	for line := range strings.Lines(events) {
		e := decode[struct {
			Attestation struct {
				ID string `json:"attestation_id"`
			} `json:"attestation"`
		}](t, line)
		if e.Attestation.ID != "" {
			return e.Attestation.ID
		}
	}
	t.Fatalf("the call has no attestation:\n%s", events)
	return ""
}
