package journal_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"strings"
	"testing"

	"palyra/internal/core/must"
	"palyra/internal/evidence/journal"
)

func export(t testing.TB, log *journal.Log, after int64) []byte {
	t.Helper()
	var b bytes.Buffer
	must.Do(t, log.Export(t.Context(), &b, after, json.RawMessage(`{"notary":["k1"]}`)))
	return b.Bytes()
}

// sampleExport returns an export with checkpoints, an erased event and 6 more.
func sampleExport(t testing.TB) []byte {
	s := newMemStore(testClock())
	log := newLog(t, s, 1)
	fill(t, log, 3)
	checkpoint(t, log)
	fill(t, log, 3)
	s.events[1].Payload, s.events[1].Salt = nil, nil
	return export(t, log, 0)
}

func verifyBytes(b []byte, opts journal.ExportOptions) (journal.Summary, error) {
	return journal.VerifyExport(bytes.NewReader(b), opts)
}

func TestExportVerifies(t *testing.T) {
	t.Parallel()
	b := sampleExport(t)
	sum, err := verifyBytes(b, journal.ExportOptions{})
	must.Do(t, err)
	if sum.Events != 7 || sum.Last != 7 || sum.Checkpoints != 1 || sum.Erased != 1 || sum.Signed.Size != 7 || sum.Gateway != gateway {
		t.Errorf("summary %+v", sum)
	}
	if sum.KeyPinned || sum.Key != testKey(t, 1).Verifier() {
		t.Errorf("key %q pinned %v: must say that the key came from the file", sum.Key, sum.KeyPinned)
	}
	sum, err = verifyBytes(b, journal.ExportOptions{Key: testKey(t, 1).Verifier()})
	if err != nil || !sum.KeyPinned {
		t.Errorf("with the right key pinned: %+v, %v", sum, err)
	}
}

func TestPartialExportsVerify(t *testing.T) {
	t.Parallel()
	s := newMemStore(testClock())
	log := newLog(t, s, 1)
	for range 3 {
		fill(t, log, 100)
		checkpoint(t, log)
	}
	for _, after := range []int64{0, 1, 2, 100, 101, 102, 255, 256, 257, 302, 303} {
		sum, err := verifyBytes(export(t, log, after), journal.ExportOptions{})
		if err != nil || sum.Events != 303-after {
			t.Errorf("after %d: %d events, %v", after, sum.Events, err)
		}
	}
	var b bytes.Buffer
	if err := log.Export(t.Context(), &b, 304, nil); err == nil {
		t.Error("an export after the end was made")
	}
}

func TestExportOfNothing(t *testing.T) {
	t.Parallel()
	s := newMemStore(testClock())
	log := newLog(t, s, 1)
	if sum, err := verifyBytes(export(t, log, 0), journal.ExportOptions{}); err != nil || sum.Events != 0 {
		t.Errorf("an empty journal: %+v, %v", sum, err)
	}
	fill(t, log, 5)
	if sum, err := verifyBytes(export(t, log, 5), journal.ExportOptions{}); err != nil || sum.Events != 0 || sum.Head.Seq != 5 {
		t.Errorf("nothing after the end: %+v, %v", sum, err)
	}
}

func TestExportRemembered(t *testing.T) {
	t.Parallel()
	_, log := sampleJournal(t)
	cp := checkpoint(t, log)
	b := export(t, log, 0)
	if _, err := verifyBytes(b, journal.ExportOptions{Remembered: []journal.Checkpoint{cp}}); err != nil {
		t.Errorf("an honest export: %v", err)
	}
	cp.Root[0] ^= 1
	_, err := verifyBytes(b, journal.ExportOptions{Remembered: []journal.Checkpoint{cp}})
	assertCorrupt(t, err, 11) // a signed checkpoint confirms the events up to 10
}

func TestExportVisit(t *testing.T) {
	t.Parallel()
	var keys string
	var seqs []int64
	_, err := verifyBytes(sampleExport(t), journal.ExportOptions{Visit: func(k json.RawMessage, e *journal.Event) error {
		if keys = string(k); e != nil {
			seqs = append(seqs, e.Seq)
		}
		return nil
	}})
	if err != nil || keys != `{"notary":["k1"]}` || len(seqs) != 7 {
		t.Errorf("keys %s, events %v, %v", keys, seqs, err)
	}
}

// TestEveryByteCounts changes each byte of an export, one at a time, and drops, doubles or
// replaces many of them. Each change is detected on its line. A change in a header that still
// parses is detected by the seal, whose error names line 1.
func TestEveryByteCounts(t *testing.T) {
	t.Parallel()
	b := sampleExport(t)
	line := 1
	for i := range b {
		for what, changed := range mutations(b, i) {
			if bytes.Equal(changed, b) {
				continue
			}
			_, err := verifyBytes(changed, journal.ExportOptions{})
			var at *journal.ExportError
			if !errors.As(err, &at) {
				t.Fatalf("byte %d (line %d) %s: not found: %v", i, line, what, err)
			}
			if last := bytes.Count(b, []byte("\n")); at.Line != line && !nearby(at.Line, line, last, b[i], what) {
				t.Errorf("byte %d %q %s: line %d was changed, the error says %v", i, b[i], what, line, err)
			}
			assertNamesSeq(t, err, line, bytes.Count(b, []byte("\n")))
		}
		if b[i] == '\n' {
			line++
		}
	}
}

// nearby accepts ambiguous positions: a header with a changed key is detected at the seal, and
// a changed line feed joins or splits two lines.
func nearby(got, line, last int, b byte, what string) bool {
	return b == '\n' && (got == line+1 || got == line) || line == 1 && got == last || strings.HasPrefix(what, "line feed")
}

func assertNamesSeq(t *testing.T, err error, line, last int) {
	t.Helper()
	if line == 1 || line >= last {
		return
	}
	var bad *journal.CorruptError
	if !errors.As(err, &bad) {
		t.Errorf("line %d: the error names no sequence number: %v", line, err)
		return
	}
	// Line 2 contains event 1.
	if want := int64(line - 1); bad.Seq != want && bad.Seq != want+1 {
		t.Errorf("line %d: the error names sequence number %d, want %d: %v", line, bad.Seq, want, err)
	}
}

// mutations returns the changes of byte i that the test tries: one for each byte, and others
// for a sample.
func mutations(b []byte, i int) map[string][]byte {
	with := func(c byte) []byte {
		m := bytes.Clone(b)
		m[i] = c
		return m
	}
	insert := func(s string) []byte { return append(append(bytes.Clone(b[:i]), s...), b[i:]...) }
	m := map[string][]byte{"low bit": with(b[i] ^ 1)}
	if i%7 == 0 {
		m["dropped"] = append(bytes.Clone(b[:i]), b[i+1:]...)
		m["case"] = with(b[i] ^ 0x20)
	}
	if i%29 == 0 {
		m["high bit"] = with(b[i] ^ 0x80)
		m["to 0"] = with('0')
		m["line feed"] = with('\n')
		m["doubled"] = insert(string(b[i]))
		m["space put before"] = insert(" ")
	}
	return m
}

// TestTruncation cuts the export after every line feed and at many positions in between.
func TestTruncation(t *testing.T) {
	t.Parallel()
	b := sampleExport(t)
	for n := range b {
		if n%5 != 0 && n > 0 && b[n-1] != '\n' && n < len(b)-2 {
			continue
		}
		if _, err := verifyBytes(b[:n], journal.ExportOptions{}); err == nil {
			t.Fatalf("an export cut after %d of %d bytes verified", n, len(b))
		}
	}
	// The export has complete lines but no trailer.
	whole := b[:bytes.LastIndexByte(b[:len(b)-1], '\n')+1]
	_, err := verifyBytes(whole, journal.ExportOptions{})
	var bad *journal.CorruptError
	if !errors.As(err, &bad) || bad.Seq != 8 || !strings.Contains(err.Error(), "cut off") {
		t.Errorf("without a trailer: %v", err)
	}
}
