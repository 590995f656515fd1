package journal_test

import (
	"bytes"
	"encoding/hex"
	"encoding/json"
	"flag"
	"os"
	"path/filepath"
	"testing"

	"palyra/internal/core/must"
	"palyra/internal/evidence/journal"
)

var update = flag.Bool("update", false, "write the vectors of docs/format/journal.md anew")

// vector is one entry of testdata/events.json: an event and the digests from which its hash is
// computed.
type vector struct {
	Event json.RawMessage `json:"event"`
	Leaf  string          `json:"leaf"`
	Root  string          `json:"root"`
}

// vectors returns the published journal: every random value counts up.
func vectors(t *testing.T) (events, exported []byte) {
	s := newMemStore(testClock())
	log := newLog(t, s, 1)
	fill(t, log, 3)
	checkpoint(t, log)
	fill(t, log, 1)
	s.events[1].Payload, s.events[1].Salt = nil, nil
	var list []vector
	var edge journal.Edge
	for _, e := range s.events {
		line := must.Get(e.AppendLine(nil))(t)
		edge.Append(e.Hash)
		root, leaf := edge.Root(), referenceRoot([]journal.Event{e})
		list = append(list, vector{line, hex.EncodeToString(leaf[:]), hex.EncodeToString(root[:])})
	}
	events = must.Get(json.MarshalIndent(list, "", "  "))(t)
	return append(events, '\n'), export(t, log, 0)
}

// TestVectors compares the output with the published files, so that the format cannot change
// unnoticed.
func TestVectors(t *testing.T) {
	t.Parallel()
	events, exported := vectors(t)
	for name, got := range map[string][]byte{"events.json": events, "export.ndjson": exported} {
		path := filepath.Join("testdata", name)
		if *update {
			must.Do(t, os.WriteFile(path, got, 0o644))
		}
		want := must.Get(os.ReadFile(path))(t)
		if !bytes.Equal(got, want) {
			t.Errorf("%s differs from what this code makes", path)
		}
	}
	if _, err := verifyBytes(exported, journal.ExportOptions{Key: testKey(t, 1).Verifier()}); err != nil {
		t.Error(err)
	}
}
