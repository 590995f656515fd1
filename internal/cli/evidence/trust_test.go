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

// These are files and the key of an earlier release. They MUST NOT change.
const (
	oldExport = "testdata/release-1/export.ndjson"
	oldKeys   = "testdata/release-1/keys.json"
	oldKey    = "vectors.example/journal+86670492+AbhWbfMjhkDqyQKRi0SpHE7YZgM9eo7MK1LUDOPPdc2G"
)

// TestReleaseVectors: exports of the first release verify in all later releases, as far as they
// can be proven.
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
	// Control: one changed character is found.
	forged := strings.Replace(w.Read(oldExport), "a.txt", "b.txt", 1)
	r := w.With(printer.Streams{In: strings.NewReader(forged)}, "journal", "verify", "-", "--keys", oldKeys)
	w.Want(r, 8)
}

// rewritten returns an export in which every event of loaded policies, pinned tools and starts
// was changed, or dropped if it is a third one. The export is signed with a key of the forger.
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

// TestRewrittenExport: an export that was rewritten without a key of the gateway does not
// verify if the gateway's key is known.
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
	// Controls: the file alone is consistent, so that only the key reveals the change, and the
	// original export verifies.
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
	// A stored gateway key suffices without a key set.
	w.Want(w.Run("journal", "verify"), 0)
	r = w.Run("journal", "verify", forged)
	w.Want(r, 8)
	if !strings.Contains(r.Err, "signs with another key than before") {
		t.Error(r.Err)
	}
	w.Want(w.Run("journal", "verify", later), 0)
}

// TestRewrittenOldExport: the key set of the first release cannot detect the change, and the
// command reports this.
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

// TestRotatedKeyIsFollowed: a rotated key is trusted if the old one is known, and the old key
// signs no later events.
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
	// The stored gateway is still accepted.
	w.Want(w.Run("journal", "prove", "2"), 0)
	w.Want(w.Run("journal", "verify"), 0)
	j.Rotate(t)
	j.Events(t, 1)
	w.Want(w.Run("journal", "verify"), 0)
	w.Want(w.Run("journal", "prove", "3"), 0)

	// A gateway with a key of the CA whose journal has no rotation to that key is refused.
	stranger := clitest.NewJournal(t, w.CA, clitest.NewSigner(t))
	stranger.Events(t, 40)
	w.Gateway.Journal = stranger
	for _, args := range [][]string{{"journal", "verify"}, {"journal", "prove", "2"}} {
		if r := w.Run(args...); r.Code != 8 || !strings.Contains(r.Err, "another key than before") {
			t.Errorf("%v: exit code %d: %s", args, r.Code, r.Err)
		}
	}
}
