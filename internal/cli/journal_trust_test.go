package cli

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"palyra/internal/event"
	"palyra/internal/journal"
	"palyra/test/fault/tamper"
)

func (w *world) read(path string) string {
	w.t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		w.t.Fatal(err)
	}
	return string(text)
}

// release is what an earlier release made, kept for ever.
const (
	oldExport = "testdata/release-1/export.ndjson"
	oldKeys   = "testdata/release-1/keys.json"
	oldKey    = "vectors.example/journal+86670492+AbhWbfMjhkDqyQKRi0SpHE7YZgM9eo7MK1LUDOPPdc2G"
)

// TestReleaseVectors: what the first release exported verifies for ever, as far
// as it can be proven.
func TestReleaseVectors(t *testing.T) {
	w := newWorld(t)
	for _, c := range []struct {
		name string
		args []string
		code int
		says string
	}{
		{"alone", nil, 0, "attestations  8 verified"},
		{"its key set, which names no keys of the journal", []string{"--keys", oldKeys}, 10, "version 1"},
		{"its key", []string{"--key", oldKey}, 0, "known from --key"},
		{"its key and key set", []string{"--key", oldKey, "--keys", oldKeys}, 0, "known from " + oldKeys},
		{"another key", []string{"--key", strings.Replace(oldKey, "86670492", "86670493", 1)}, 8, ""},
	} {
		r := w.run(append([]string{"journal", "verify", oldExport}, c.args...)...)
		if r.code != c.code || !strings.Contains(r.out+r.err, c.says) {
			t.Errorf("%s: exit code %d, want %d\n%s%s", c.name, r.code, c.code, r.out, r.err)
		}
		first, _, _ := strings.Cut(r.out, "\n")
		if alone := c.code != 8 && !strings.Contains(c.name, "key and") && c.name != "its key"; alone != strings.Contains(first, "whole, not whose it is") {
			t.Errorf("%s: the first line is %q", c.name, first)
		}
	}
	// The control: one changed digit is found.
	forged := strings.Replace(w.read(oldExport), "a.txt", "b.txt", 1)
	r := w.with(Streams{In: strings.NewReader(forged)}, "journal", "verify", "-", "--keys", oldKeys)
	w.want(r, 8)
}

// rewritten is an export with every third event of its calls dropped or
// changed, and all of it signed by a key that the forger made.
func (w *world) rewritten(path string) (text []byte, dropped, changed int) {
	w.t.Helper()
	lines := bytes.SplitAfter([]byte(w.read(path)), []byte("\n"))
	var events []journal.Event
	for _, line := range lines[1 : len(lines)-2] {
		e, err := journal.ParseLine(bytes.TrimSuffix(line, []byte("\n")))
		if err != nil {
			w.t.Fatal(err)
		}
		events = append(events, e)
	}
	n := 0
	text, err := tamper.Rewritten(lines[0], events, func(e journal.Event) *journal.Event {
		if e.Code != event.PolicyLoaded && e.Code != event.ToolPinned && e.Code != event.Opened {
			return &e
		}
		if n++; n%3 == 0 {
			dropped++
			return nil
		}
		changed++
		e.Payload = json.RawMessage(`{"version":"another"}`)
		return &e
	})
	if err != nil {
		w.t.Fatal(err)
	}
	return text, dropped, changed
}

// TestRewrittenExport: an export that somebody rewrote without any key of the
// gateway does not pass where the gateway is known.
func TestRewrittenExport(t *testing.T) {
	w := newWorld(t)
	j := w.journaled()
	keys := w.write("keys.json", w.run("attest", "keys", "-o", "json").out)
	honest := w.export()
	for range 9 {
		j.opened(t)
	}
	later := w.export()
	text, dropped, changed := w.rewritten(later)
	if dropped == 0 || changed == 0 {
		t.Fatalf("%d dropped, %d changed", dropped, changed)
	}
	forged := w.write("forged.ndjson", string(text))
	r := w.run("journal", "verify", forged, "--keys", keys)
	w.want(r, 8)
	if !strings.Contains(r.err, "signed by a key that "+keys+" does not have") || !strings.Contains(r.err, "palyra attest keys") || r.out != "" {
		t.Errorf("%s%s", r.out, r.err)
	}
	// The controls: the file is whole, so that it is the key that tells; and what
	// the gateway wrote passes.
	alone := w.run("journal", "verify", forged)
	w.want(alone, 0)
	if first, _, _ := strings.Cut(alone.out, "\n"); !strings.Contains(first, "not proven") || !strings.Contains(first, "whole, not whose it is") {
		t.Errorf("the first line is %q", first)
	}
	for _, path := range []string{honest, later} {
		r := w.run("journal", "verify", path, "--keys", keys)
		w.want(r, 0)
		if first, _, _ := strings.Cut(r.out, "\n"); !strings.HasPrefix(first, "verified") || !strings.Contains(r.out, "known from "+keys) {
			t.Error(r.out)
		}
	}
	// A gateway that was seen is known without a key set.
	w.want(w.run("journal", "verify"), 0)
	r = w.run("journal", "verify", forged)
	w.want(r, 8)
	if !strings.Contains(r.err, "signs with another key than before") {
		t.Error(r.err)
	}
	w.want(w.run("journal", "verify", later), 0)
}

// The same with what the first release wrote: its key set cannot tell, and says
// so.
func TestRewrittenOldExport(t *testing.T) {
	w := newWorld(t)
	text, _, changed := w.rewritten(oldExport)
	if changed == 0 {
		t.Fatal("nothing was changed")
	}
	forged := w.write("forged.ndjson", string(text))
	r := w.run("journal", "verify", forged, "--keys", oldKeys)
	w.want(r, 10)
	if !strings.Contains(r.err, "palyra attest keys -o json") || !strings.Contains(r.err, "compare its fingerprint") {
		t.Error(r.err)
	}
	w.want(w.run("journal", "verify", forged, "--keys", oldKeys, "--key", oldKey), 8)
	w.want(w.run("journal", "verify", oldExport, "--keys", oldKeys, "--key", oldKey), 0)
}

// TestRotatedKeyIsFollowed: a key that was replaced needs no new trust where the
// old one is known, and signs nothing more.
func TestRotatedKeyIsFollowed(t *testing.T) {
	w := newWorld(t)
	j := w.journaled()
	early := w.write("early.json", w.run("attest", "keys", "-o", "json").out)
	w.want(w.run("journal", "verify"), 0)
	j.rotate(t)
	j.events(t, 3)
	late := w.write("late.json", w.run("attest", "keys", "-o", "json").out)
	whole := w.export()
	for _, keys := range []string{early, late} {
		w.want(w.run("journal", "verify", whole, "--keys", keys), 0)
	}
	rest := filepath.Join(w.home, "rest.ndjson")
	w.want(w.run("journal", "export", rest, "--after", "13"), 0)
	w.want(w.run("journal", "verify", rest, "--keys", late), 0)
	w.want(w.run("journal", "verify", rest, "--keys", early), 8)
	// The gateway that is remembered is the same one.
	w.want(w.run("journal", "prove", "2"), 0)
	w.want(w.run("journal", "verify"), 0)
	j.rotate(t)
	j.events(t, 1)
	w.want(w.run("journal", "verify"), 0)
	w.want(w.run("journal", "prove", "3"), 0)

	// A gateway whose CA vouches for a key, and whose journal never said that it
	// took over, is another one.
	stranger := newFakeJournal(t, w.ca, newSigner(t))
	stranger.events(t, 40)
	w.gateway.journal = stranger
	for _, args := range [][]string{{"journal", "verify"}, {"journal", "prove", "2"}} {
		if r := w.run(args...); r.code != 8 || !strings.Contains(r.err, "another key than before") {
			t.Errorf("%v: exit code %d: %s", args, r.code, r.err)
		}
	}
}
