package call_test

import (
	"bytes"
	"strings"
	"testing"
	"unicode/utf8"

	"palyra/internal/call"
	"palyra/internal/call/record"
	"palyra/internal/core/canonical"
	"palyra/internal/core/event"
	"palyra/internal/core/must"
	"palyra/internal/core/reason"
	"palyra/internal/gateway/gatewaytest"
)

// nested returns an object n levels deep.
func nested(n int) string {
	return strings.Repeat(`{"a":`, n-1) + "{}" + strings.Repeat("}", n-1)
}

// padded returns an input of fs.read with exactly n bytes.
func padded(n int) string {
	const frame = `{"path":""}`
	return `{"path":"` + strings.Repeat("x", n-len(frame)) + `"}`
}

var badInputs = []struct {
	name, tool, input string
	code              reason.Code
}{
	{"unknown field", "fs.read", `{"path":"a","extra":1}`, reason.InvalidInput},
	{"missing field", "fs.read", `{}`, reason.InvalidInput},
	{"nothing", "fs.read", ``, reason.InvalidInput},
	{"wrong type", "fs.read", `{"path":1}`, reason.InvalidInput},
	{"null", "fs.read", `{"path":null}`, reason.InvalidInput},
	{"fraction for an integer", "fs.read", `{"path":"a","limit":1.5}`, reason.InvalidInput},
	{"array for an object", "fs.read", `[]`, reason.InvalidInput},
	{"not in the enum", "http.fetch", `{"url":"https://example.org/","method":"DELETE"}`, reason.InvalidInput},
	{"not JSON", "fs.read", `{"path":`, reason.InvalidInput},
	{"two values", "fs.read", `{"path":"a"} {"path":"b"}`, reason.InvalidInput},
	{"duplicate key", "fs.read", `{"path":"a","path":"b"}`, reason.DuplicateKey},
	{"duplicate key, escaped", "fs.read", `{"path":"a","p\u0061th":"b"}`, reason.DuplicateKey},
	{"duplicate key, nested", "vault.put", `{"a":{"b":1,"b":2}}`, reason.DuplicateKey},
	{"number not exact", "fs.read", `{"path":"a","limit":9007199254740993}`, reason.NumberNotExact},
	{"number too large", "fs.read", `{"path":"a","limit":1e400}`, reason.NumberNotExact},
	{"over 1 MiB", "fs.read", padded(canonical.MaxSize + 1), reason.InputTooLarge},
	{"nested too deeply", "vault.put", nested(canonical.MaxDepth + 1), reason.InputTooDeep},
	{"nested without end", "vault.put", strings.Repeat(`{"a":`, 100_000), reason.InputTooDeep},
	{"invalid UTF-8", "fs.read", "{\"path\":\"\xff\"}", reason.InvalidUTF8},
	{"lone surrogate", "fs.read", `{"path":"\ud800"}`, reason.InvalidUTF8},
	{"NUL", "fs.read", `{"path":"a\u0000b"}`, reason.InvalidUTF8},
	{"unknown tool", "fs.raed", `{"path":"a"}`, reason.UnknownTool},
	{"no tool", "", `{}`, reason.UnknownTool},
	{"hostile tool name", "fs\x00\xff" + strings.Repeat("é", 100), `{}`, reason.UnknownTool},
}

// Each bad input is refused with its reason and one event, and reaches no later stage.
func TestBadInputIsRefusedAndRecorded(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	for _, c := range badInputs {
		t.Run(c.name, func(t *testing.T) {
			before := w.head()
			r, o, err := w.call(call.Submission{Caller: agent, Tool: c.tool, Input: []byte(c.input), Run: c.name})
			if reason.Of(err) != c.code || o.Decision.ID != "" {
				t.Fatalf("got %+v, %v, want %s", o, err, c.code)
			}
			if kinds := r.kinds(); len(kinds) != 0 {
				t.Errorf("the client saw %v", kinds)
			}
			w.wantJournal(before, event.Refused)
			e := w.journal(before)[0]
			payload := last[record.Refused](w, event.Refused)
			if payload.Reason != c.code || payload.Message == "" || payload.Remedy == "" || payload.ProposalID != e.Subject ||
				e.Actor != "agent:coder" || e.Run != c.name || !utf8.ValidString(payload.Tool) {
				t.Errorf("recorded %+v by %s in run %s", payload, e.Actor, e.Run)
			}
			if len(e.Payload) > 4096 {
				t.Errorf("the refusal takes %d bytes", len(e.Payload))
			}
		})
	}
	for _, p := range []*gatewaytest.Probe{w.read, w.run, w.fetch, w.secret} {
		p.Ran(t, 0)
		if p.Planned != 0 {
			t.Errorf("%s was planned", p.Of.Name)
		}
	}
}

// Control: inputs just inside the limits run.
func TestInputAtTheLimitsRuns(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	for name, s := range map[string]call.Submission{
		"1 MiB":          {Caller: agent, Tool: "fs.read", Input: []byte(padded(canonical.MaxSize))},
		"64 levels":      {Caller: agent, Tool: "vault.put", Input: []byte(nested(canonical.MaxDepth))},
		"largest number": {Caller: agent, Tool: "fs.read", Input: []byte(`{"path":"a","limit":9007199254740992}`)},
		"no input":       {Caller: agent, Tool: "vault.put"},
	} {
		if _, o, err := w.call(s); err != nil || !o.Decision.Allowed {
			t.Errorf("%s: %+v, %v", name, o.Decision, err)
		}
	}
}

// The tool and the journal get the canonical form of the JSON, whatever form the client sent.
func TestToolReceivesCanonicalBytes(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	var digests []string
	for _, input := range []string{`{"limit":1,"path":"é"}`, ` { "path" : "\u00e9", "limit" : 1.0e0 } `} {
		s := readCall()
		s.Input = []byte(input)
		_, o, err := w.call(s)
		must.Do(t, err)
		digests = append(digests, o.Decision.CallDigest)
		p := last[record.Proposed](w, event.Proposed)
		if string(p.Arguments) != `{"limit":1,"path":"é"}` || p.ArgumentsDigest != canonical.Digest(p.Arguments) {
			t.Errorf("journaled %s, %s", p.Arguments, p.ArgumentsDigest)
		}
	}
	if digests[0] != digests[1] {
		t.Errorf("two forms of one call have the digests %v", digests)
	}
}

// Large arguments are stored as a blob, and the journal contains the digest.
func TestLargeArgumentsAreABlob(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	s := readCall()
	s.Input = []byte(padded(100_000))
	if _, _, err := w.call(s); err != nil {
		t.Fatal(err)
	}
	p := last[record.Proposed](w, event.Proposed)
	if p.Arguments != nil || p.ArgumentsBlob != canonical.Digest(s.Input) {
		t.Errorf("journaled %d bytes and blob %s", len(p.Arguments), p.ArgumentsBlob)
	}
	if got := w.blob(p.ArgumentsBlob); !bytes.Equal(got, s.Input) {
		t.Errorf("the blob has %d bytes", len(got))
	}
}

// A result is returned byte for byte as the tool produced it.
func TestResultBytesAreUntouched(t *testing.T) {
	t.Parallel()
	const odd = `{"z":1,"a":"\u00e9"}`
	w := newWorld(t)
	w.read.Work = gatewaytest.Reports(odd)
	_, o, err := w.call(readCall())
	if err != nil || string(o.Report.Result) != odd {
		t.Fatalf("got %s, %v", o.Report.Result, err)
	}
	w.checkEvidence(o)
	p := last[struct {
		Blob string `json:"result_blob"`
	}](w, event.Attested)
	if p.Blob != canonical.Digest([]byte(odd)) || string(w.blob(p.Blob)) != odd {
		t.Errorf("kept %s: %s", p.Blob, w.blob(p.Blob))
	}
}
