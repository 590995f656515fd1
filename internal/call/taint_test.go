package call_test

import (
	"context"
	"slices"
	"testing"

	"palyra/internal/call"
	"palyra/internal/call/record"
	"palyra/internal/core/event"
	"palyra/internal/core/must"
	"palyra/internal/core/tool"
	"palyra/internal/evidence/attest"
	"palyra/internal/gateway/gatewaytest"
)

// TestReceivedDataTaintsTheRun: a run whose program received data from a host is tainted, whichever
// tool it used. A run whose connections were all refused is not.
func TestReceivedDataTaintsTheRun(t *testing.T) {
	t.Parallel()
	for name, row := range map[string]struct {
		egress tool.Egress
		want   bool
	}{
		"something came in": {tool.Egress{Mode: "strict", Observed: []tool.Connection{{Host: "x.org"}, {Host: "a.org", BytesIn: 1}}}, true},
		"nothing came in":   {tool.Egress{Mode: "strict", Observed: []tool.Connection{{Host: "x.org", BytesOut: 5}}}, false},
		"offline":           {tool.Egress{Mode: "strict"}, false},
		"unobserved":        {tool.Egress{Mode: "unrestricted"}, true},
		"unobserved, and only hosts were checked": {tool.Egress{Mode: "preflight"}, true},
	} {
		w := newWorld(t)
		w.read.Work = func(context.Context, tool.Call) tool.Report {
			r := gatewaytest.Succeeded(`{}`)
			r.Egress = row.egress
			return r
		}
		w.call(readCall())
		w.call(readCall())
		kept := last[evaluated](w, event.Evaluated).Request.SessionFacts
		w.restart()
		w.call(readCall())
		found := last[evaluated](w, event.Evaluated).Request.SessionFacts
		if kept.Tainted != row.want || found.Tainted != row.want {
			t.Errorf("%s: tainted %t, and after a restart %t, want %t", name, kept.Tainted, found.Tainted, row.want)
		}
	}
}

// TestSecretsAreNamed: the prompt and the attestation contain the names of the secrets that a
// call may use.
func TestSecretsAreNamed(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.fetch.Found.Facts.Secrets = []string{"github"}
	c := w.begin(call.Submission{Caller: agent, Tool: "http.fetch", Input: []byte(`{"url":"https://example.org/"}`), Run: "run-1"})
	asked := c.asked()
	if got := asked.Prompt.Runs.Secrets; !slices.Equal(got, w.fetch.Found.Facts.Secrets) {
		t.Errorf("the prompt names %q", got)
	}
	w.vote(alice, asked, yes)
	must.Get(c.wait())(t)
	w.named(w.fetch.Found.Facts.Secrets)
	w.call(readCall()) // control: it uses none
	w.named(nil)
}

// named checks the secrets of the last attestation.
func (w *world) named(want []string) {
	w.t.Helper()
	statement, err := attest.Read(last[record.Attested](w, event.Attested).Envelope)
	if err != nil || !slices.Equal(statement.Predicate.Secrets, want) {
		w.t.Errorf("the attestation names %q, want %q (%v)", statement.Predicate.Secrets, want, err)
	}
}
