package evidence_test

import (
	"bytes"
	"encoding/json"
	"path/filepath"
	"strings"
	"testing"

	"palyra/internal/cli/clitest"
	"palyra/internal/cli/printer"
	"palyra/internal/core/event"
	"palyra/internal/core/must"
	"palyra/internal/evidence/journal"
	"palyra/test/fault/tamper"
)

// release is what an earlier release made, kept for ever.
const (
	oldExport = "testdata/release-1/export.ndjson"
	oldKeys   = "testdata/release-1/keys.json"
	oldKey    = "vectors.example/journal+86670492+AbhWbfMjhkDqyQKRi0SpHE7YZgM9eo7MK1LUDOPPdc2G"
)

// TestReleaseVectors: what the first release exported verifies for ever, as far
// as it can be proven.
func TestReleaseVectors(t *testing.T) {
	t.Parallel()
	w := clitest.NewWorld(t)
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
		r := w.Run(append([]string{"journal", "verify", oldExport}, c.args...)...)
		if r.Code != c.code || !strings.Contains(r.Out+r.Err, c.says) {
			t.Errorf("%s: exit code %d, want %d\n%s%s", c.name, r.Code, c.code, r.Out, r.Err)
		}
		first, _, _ := strings.Cut(r.Out, "\n")
		if alone := c.code != 8 && !strings.Contains(c.name, "key and") && c.name != "its key"; alone != strings.Contains(first, "prove integrity, but not the origin") {
			t.Errorf("%s: the first line is %q", c.name, first)
		}
	}
	// The control: one changed digit is found.
	forged := strings.Replace(w.Read(oldExport), "a.txt", "b.txt", 1)
	r := w.With(printer.Streams{In: strings.NewReader(forged)}, "journal", "verify", "-", "--keys", oldKeys)
	w.Want(r, 8)
}

// rewritten is an export with every third event of its calls dropped or
// changed, and all of it signed by a key that the forger made.
func rewritten(w *clitest.World, path string) (text []byte, dropped, changed int) {
	w.T.Helper()
	lines := bytes.SplitAfter([]byte(w.Read(path)), []byte("\n"))
	var events []journal.Event
	for _, line := range lines[1 : len(lines)-2] {
		e := must.Get(journal.ParseLine(bytes.TrimSuffix(line, []byte("\n"))))(w.T)
		events = append(events, e)
	}
	n := 0
	text = must.Get(tamper.Rewritten(lines[0], events, func(e journal.Event) *journal.Event {
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
	}))(w.T)
	return text, dropped, changed
}

// TestRewrittenExport: an export that somebody rewrote without any key of the
// gateway does not pass where the gateway is known.
func TestRewrittenExport(t *testing.T) {
	t.Parallel()
	w := clitest.NewWorld(t)
	j := w.Journaled()
	keys := w.Write("keys.json", w.Run("attest", "keys", "-o", "json").Out)
	honest := w.Export()
	for range 9 {
		j.Opened(t)
	}
	later := w.Export()
	text, dropped, changed := rewritten(w, later)
	if dropped == 0 || changed == 0 {
		t.Fatalf("%d dropped, %d changed", dropped, changed)
	}
	forged := w.Write("forged.ndjson", string(text))
	r := w.Run("journal", "verify", forged, "--keys", keys)
	w.Want(r, 8)
	if !strings.Contains(r.Err, "signed by a key that is not in "+keys) || !strings.Contains(r.Err, "palyra attest keys") || r.Out != "" {
		t.Errorf("%s%s", r.Out, r.Err)
	}
	// The controls: the file is whole, so that it is the key that tells; and what
	// the gateway wrote passes.
	alone := w.Run("journal", "verify", forged)
	w.Want(alone, 0)
	if first, _, _ := strings.Cut(alone.Out, "\n"); !strings.Contains(first, "not proven") || !strings.Contains(first, "prove integrity, but not the origin") {
		t.Errorf("the first line is %q", first)
	}
	for _, path := range []string{honest, later} {
		r := w.Run("journal", "verify", path, "--keys", keys)
		w.Want(r, 0)
		if first, _, _ := strings.Cut(r.Out, "\n"); !strings.HasPrefix(first, "verified") || !strings.Contains(r.Out, "known from "+keys) {
			t.Error(r.Out)
		}
	}
	// A gateway that was seen is known without a key set.
	w.Want(w.Run("journal", "verify"), 0)
	r = w.Run("journal", "verify", forged)
	w.Want(r, 8)
	if !strings.Contains(r.Err, "signs with another key than before") {
		t.Error(r.Err)
	}
	w.Want(w.Run("journal", "verify", later), 0)
}

// The same with what the first release wrote: its key set cannot tell, and says
// so.
func TestRewrittenOldExport(t *testing.T) {
	t.Parallel()
	w := clitest.NewWorld(t)
	text, _, changed := rewritten(w, oldExport)
	if changed == 0 {
		t.Fatal("nothing was changed")
	}
	forged := w.Write("forged.ndjson", string(text))
	r := w.Run("journal", "verify", forged, "--keys", oldKeys)
	w.Want(r, 10)
	if !strings.Contains(r.Err, "palyra attest keys -o json") || !strings.Contains(r.Err, "compare its fingerprint") {
		t.Error(r.Err)
	}
	w.Want(w.Run("journal", "verify", forged, "--keys", oldKeys, "--key", oldKey), 8)
	w.Want(w.Run("journal", "verify", oldExport, "--keys", oldKeys, "--key", oldKey), 0)
}

// TestRotatedKeyIsFollowed: a key that was replaced needs no new trust where the
// old one is known, and signs nothing more.
func TestRotatedKeyIsFollowed(t *testing.T) {
	t.Parallel()
	w := clitest.NewWorld(t)
	j := w.Journaled()
	early := w.Write("early.json", w.Run("attest", "keys", "-o", "json").Out)
	w.Want(w.Run("journal", "verify"), 0)
	j.Rotate(t)
	j.Events(t, 3)
	late := w.Write("late.json", w.Run("attest", "keys", "-o", "json").Out)
	whole := w.Export()
	for _, keys := range []string{early, late} {
		w.Want(w.Run("journal", "verify", whole, "--keys", keys), 0)
	}
	rest := filepath.Join(w.Home, "rest.ndjson")
	w.Want(w.Run("journal", "export", rest, "--after", "13"), 0)
	w.Want(w.Run("journal", "verify", rest, "--keys", late), 0)
	w.Want(w.Run("journal", "verify", rest, "--keys", early), 8)
	// The gateway that is remembered is the same one.
	w.Want(w.Run("journal", "prove", "2"), 0)
	w.Want(w.Run("journal", "verify"), 0)
	j.Rotate(t)
	j.Events(t, 1)
	w.Want(w.Run("journal", "verify"), 0)
	w.Want(w.Run("journal", "prove", "3"), 0)

	// A gateway whose CA vouches for a key, and whose journal never said that it
	// took over, is another one.
	stranger := clitest.NewJournal(t, w.CA, clitest.NewSigner(t))
	stranger.Events(t, 40)
	w.Gateway.Journal = stranger
	for _, args := range [][]string{{"journal", "verify"}, {"journal", "prove", "2"}} {
		if r := w.Run(args...); r.Code != 8 || !strings.Contains(r.Err, "another key than before") {
			t.Errorf("%v: exit code %d: %s", args, r.Code, r.Err)
		}
	}
}
