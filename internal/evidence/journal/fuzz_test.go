package journal_test

import (
	"bytes"
	"testing"

	"palyra/internal/core/must"
	"palyra/internal/evidence/journal"
)

// FuzzParseLine: a decoded line re-encodes to the same bytes.
func FuzzParseLine(f *testing.F) {
	for _, line := range bytes.Split(sampleExport(f), []byte("\n")) {
		f.Add(line)
	}
	f.Fuzz(func(t *testing.T, line []byte) {
		e, err := journal.ParseLine(line)
		if err != nil {
			return
		}
		form, err := e.AppendLine(nil)
		if err != nil || !bytes.Equal(form, line) {
			t.Errorf("%q decodes and re-encodes to %q, %v", line, form, err)
		}
		_ = e.CheckSelf() // must not panic on any event
	})
}

// FuzzVerifyExport: only the original file verifies under its key.
func FuzzVerifyExport(f *testing.F) {
	b := sampleExport(f)
	key := testKey(f, 1).Verifier()
	f.Add(b)
	f.Add(bytes.Replace(b, []byte(`"n":1`), []byte(`"n":2`), 1))
	f.Fuzz(func(t *testing.T, changed []byte) {
		if _, err := verifyBytes(changed, journal.ExportOptions{Key: key}); err == nil && !bytes.Equal(changed, b) {
			t.Errorf("a changed export verified: %q", changed)
		}
	})
}

// FuzzParseCheckpoint: an accepted checkpoint is byte-identical to the signed one.
func FuzzParseCheckpoint(f *testing.F) {
	s := newMemStore(testClock())
	log := newLog(f, s, 1)
	fill(f, log, 3)
	cp := checkpoint(f, log)
	known := must.Get(journal.ParseKeys(log.Checkpoints.Keys()...))(f)
	f.Add(cp.Note)
	f.Fuzz(func(t *testing.T, text string) {
		if _, err := journal.ParseCheckpoint(text, log.Gateway(), known); err == nil && text != cp.Note {
			t.Errorf("%q opened", text)
		}
	})
}
