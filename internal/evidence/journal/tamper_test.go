package journal_test

import (
	"bytes"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"palyra/internal/core/event"
	"palyra/internal/core/must"
	"palyra/internal/evidence/journal"
)

// forge rebuilds the chain of changed events from an index on, as an attacker with write access
// but without a key can.
func forge(events []journal.Event, from int) {
	for i := from; i < len(events); i++ {
		var prev journal.Head
		if i > 0 {
			prev = events[i-1].Head()
		}
		e := &events[i]
		at, code := e.At, e.Code
		*e = journal.Seal(prev, event.Draft{
			Code: code, Session: e.Session, Run: e.Run, Actor: e.Actor, Subject: e.Subject, Payload: e.Payload,
		}, at, journal.Nonce{Salt: [32]byte(e.Salt)})
	}
}

// tamper is one way to falsify a journal of 20 events: 10, a checkpoint over
// them (event 11), and 9 more.
type tamper struct {
	name string
	// change returns the falsified events.
	change func(t *testing.T, events []journal.Event) []journal.Event
	// first is the sequence number that the error must name.
	first int64
	// rechained is true if the chain itself is intact, so that only a signature can detect the
	// change.
	rechained bool
}

func tampers() []tamper {
	return []tamper{
		{"edit payload", func(_ *testing.T, ev []journal.Event) []journal.Event {
			ev[4].Payload = []byte(`{"n":666}`)
			return ev
		}, 5, false},
		{"edit actor", func(_ *testing.T, ev []journal.Event) []journal.Event {
			ev[14].Actor = "user:mallory"
			return ev
		}, 15, false},
		{"edit and rechain", func(_ *testing.T, ev []journal.Event) []journal.Event {
			ev[4].Payload = []byte(`{"n":666}`)
			forge(ev, 4)
			return ev
		}, 1, true},
		{"drop", func(_ *testing.T, ev []journal.Event) []journal.Event {
			return slices.Delete(ev, 6, 7)
		}, 7, false},
		{"drop and rechain", func(_ *testing.T, ev []journal.Event) []journal.Event {
			ev = slices.Delete(ev, 6, 7)
			forge(ev, 6)
			return ev
		}, 10, true}, // the checkpoint, now event 10, covers 10 events including itself
		{"reorder", func(_ *testing.T, ev []journal.Event) []journal.Event {
			ev[7], ev[8] = ev[8], ev[7]
			return ev
		}, 8, false},
		{"truncate", func(_ *testing.T, ev []journal.Event) []journal.Event {
			return ev[:15]
		}, 16, false},
		{"splice from another journal", func(t *testing.T, ev []journal.Event) []journal.Event {
			other := newMemStore(testClock())
			other.nonce = 1000
			fill(t, newLog(t, other, 2), 20)
			return append(slices.Clone(ev[:12]), other.events[12:]...)
		}, 13, false},
		{"fork after the checkpoint", func(_ *testing.T, ev []journal.Event) []journal.Event {
			ev[8].Payload = []byte(`{"fork":true}`)
			forge(ev, 8)
			return ev
		}, 1, true},
		{"clock back", func(_ *testing.T, ev []journal.Event) []journal.Event {
			e, prev := ev[12], ev[11].Head()
			prev.At = time.Time{}
			ev[12] = journal.Seal(prev, event.Draft{Code: e.Code, Actor: e.Actor, Payload: e.Payload}, e.At.Add(-time.Hour), journal.Nonce{})
			forge(ev, 13)
			return ev
		}, 13, false},
		{"key swap", func(t *testing.T, ev []journal.Event) []journal.Event {
			other := newMemStore(testClock())
			log := newLog(t, other, 2)
			fill(t, log, 10)
			checkpoint(t, log)
			ev[10].Payload = other.events[10].Payload
			forge(ev, 10)
			return ev
		}, 11, true},
		{"checkpoint rollback", func(t *testing.T, ev []journal.Event) []journal.Event {
			other := newMemStore(testClock())
			log := newLog(t, other, 1)
			fill(t, log, 5)
			checkpoint(t, log)
			ev[15].Code, ev[15].Payload = event.Checkpoint, other.events[5].Payload
			forge(ev, 15)
			return ev
		}, 16, true},
	}
}

func sampleJournal(t *testing.T) (*memStore, *journal.Log) {
	t.Helper()
	s := newMemStore(testClock())
	log := newLog(t, s, 1)
	fill(t, log, 10)
	checkpoint(t, log)
	fill(t, log, 9)
	return s, log
}

func TestTamperedStore(t *testing.T) {
	t.Parallel()
	for _, c := range tampers() {
		t.Run(c.name, func(t *testing.T) {
			s, log := sampleJournal(t)
			if _, err := log.VerifyFull(t.Context()); err != nil {
				t.Fatalf("untouched: %v", err)
			}
			head := s.Head()
			s.events = c.change(t, s.events)
			if c.rechained {
				head = s.events[len(s.events)-1].Head()
			}
			s.Publish(head, nil)
			_, err := log.VerifyFull(t.Context())
			assertCorrupt(t, err, c.first)
		})
	}
}

// TestTamperedExport falsifies the event lines and keeps the header and the trailer.
func TestTamperedExport(t *testing.T) {
	t.Parallel()
	for _, c := range tampers() {
		t.Run(c.name, func(t *testing.T) {
			s, log := sampleJournal(t)
			lines := bytes.SplitAfter(export(t, log, 0), []byte("\n"))
			var b bytes.Buffer
			b.Write(lines[0])
			for _, e := range c.change(t, slices.Clone(s.events)) {
				line := must.Get(e.AppendLine(nil))(t)
				b.Write(append(line, '\n'))
			}
			b.Write(lines[len(lines)-2])
			_, err := verifyBytes(b.Bytes(), journal.ExportOptions{})
			assertCorrupt(t, err, c.first)
			if err == nil || !strings.HasPrefix(err.Error(), "line ") {
				t.Errorf("the error names no line: %v", err)
			}
		})
	}
}

func assertCorrupt(t *testing.T, err error, first int64) {
	t.Helper()
	var bad *journal.CorruptError
	if !errors.As(err, &bad) {
		t.Fatalf("not detected: %v", err)
	}
	if bad.Seq != first {
		t.Errorf("the error names %d, want %d: %v", bad.Seq, first, err)
	}
}

// TestRechainedWithoutSignatures is the control: without its checkpoint, a rechained journal
// verifies by its chain alone. The tests above therefore depend on the signatures.
func TestRechainedWithoutSignatures(t *testing.T) {
	t.Parallel()
	s, log := sampleJournal(t)
	s.events[4].Payload = []byte(`{"n":666}`)
	s.events = slices.Delete(s.events, 10, 11)
	forge(s.events, 4)
	s.Publish(s.events[len(s.events)-1].Head(), nil)
	if _, err := log.VerifyFull(t.Context()); err != nil {
		t.Fatalf("a journal without signatures is only a chain, and the chain is whole: %v", err)
	}
	// A stored checkpoint detects even this.
	_, honest := sampleJournal(t)
	cp, err := honest.Checkpoints.Latest(t.Context())
	must.Do(t, err)
	_, err = log.VerifyFull(t.Context(), cp)
	assertCorrupt(t, err, 1)
}

func TestRememberedCheckpointFindsRollback(t *testing.T) {
	t.Parallel()
	s, log := sampleJournal(t)
	fill(t, log, 5)
	remembered := checkpoint(t, log) // over 25 events
	s.events = s.events[:20]
	s.Publish(s.events[19].Head(), nil)
	if _, err := log.VerifyFull(t.Context()); err != nil {
		t.Fatalf("without memory an older state is a whole journal: %v", err)
	}
	_, err := log.VerifyFull(t.Context(), remembered)
	assertCorrupt(t, err, 21)
}

func TestExportOfAnotherKey(t *testing.T) {
	t.Parallel()
	// The whole export is forged with another key. It verifies by itself; the summary names the
	// key, and a pinned key detects the forgery.
	s := newMemStore(testClock())
	log := newLog(t, s, 2)
	fill(t, log, 3)
	b := export(t, log, 0)
	sum, err := verifyBytes(b, journal.ExportOptions{})
	if err != nil || sum.KeyPinned {
		t.Fatalf("%+v, %v", sum, err)
	}
	if _, err := verifyBytes(b, journal.ExportOptions{Key: testKey(t, 1).Verifier()}); err == nil || !strings.HasPrefix(err.Error(), "line 1:") {
		t.Errorf("with the right key pinned: %v", err)
	}
}

func TestTrailerOfAnotherExport(t *testing.T) {
	t.Parallel()
	_, log := sampleJournal(t)
	older := bytes.SplitAfter(export(t, log, 0), []byte("\n"))
	fill(t, log, 3)
	newer := bytes.SplitAfter(export(t, log, 0), []byte("\n"))
	last := func(lines [][]byte) []byte { return lines[len(lines)-2] }
	rolledBack := bytes.Join(append(slices.Clone(newer[:len(newer)-2]), last(older)), nil)
	_, err := verifyBytes(rolledBack, journal.ExportOptions{})
	assertCorrupt(t, err, 24)
	cut := bytes.Join(append(slices.Clone(older[:len(older)-2]), last(newer)), nil)
	_, err = verifyBytes(cut, journal.ExportOptions{})
	assertCorrupt(t, err, 21)
}
