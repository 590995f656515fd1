package journal_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"os"
	"slices"
	"testing"

	"palyra/internal/core/must"
	"palyra/internal/evidence/journal"
	falsify "palyra/test/fault/tamper"
)

// webVectors is the corpus of falsified exports for the console's verifier. It contains each
// line once.
const webVectors = "../../../web/src/verify/testdata/tampered.json"

type webCorpus struct {
	Lines []string  `json:"lines"`
	Cases []webCase `json:"cases"`
}

// webCase is an export as lines, and the position at which this package detects the fault. A
// valid export has 0 for both.
type webCase struct {
	Name  string `json:"name"`
	Lines []int  `json:"lines"`
	Seq   int64  `json:"seq"`
	Line  int    `json:"line"`
}

func (c *webCorpus) add(t *testing.T, name string, export []byte) {
	t.Helper()
	one := webCase{Name: name}
	for line := range bytes.Lines(export) {
		text := string(bytes.TrimSuffix(line, []byte("\n")))
		i := slices.Index(c.Lines, text)
		if i < 0 {
			i = len(c.Lines)
			c.Lines = append(c.Lines, text)
		}
		one.Lines = append(one.Lines, i)
	}
	one.Seq, one.Line = verdict(export)
	c.Cases = append(c.Cases, one)
}

func verdict(export []byte) (seq int64, line int) {
	_, err := verifyBytes(export, journal.ExportOptions{})
	var bad *journal.CorruptError
	if errors.As(err, &bad) {
		seq = bad.Seq
	}
	var at *journal.ExportError
	if errors.As(err, &at) {
		line = at.Line
	}
	return seq, line
}

// forgedExport returns a valid export with replaced events.
func forgedExport(t *testing.T, honest []byte, events []journal.Event) []byte {
	t.Helper()
	lines := bytes.SplitAfter(honest, []byte("\n"))
	out := bytes.Clone(lines[0])
	for _, e := range events {
		out = append(must.Get(e.AppendLine(out))(t), '\n')
	}
	return append(out, lines[len(lines)-2]...)
}

func makeWebCorpus(t *testing.T) webCorpus {
	var c webCorpus
	s, log := sampleJournal(t)
	honest := export(t, log, 0)
	c.add(t, "honest", honest)
	c.add(t, "honest, after event 7", export(t, log, 7))
	for _, k := range tampers() {
		c.add(t, k.name, forgedExport(t, honest, k.change(t, slices.Clone(s.events))))
	}
	long := func(seed byte) (*memStore, *journal.Log) {
		s := newMemStore(testClock())
		s.nonce = uint64(seed) * 1000
		log := newLog(t, s, seed)
		for range 3 {
			fill(t, log, 4)
			checkpoint(t, log)
		}
		fill(t, log, 6)
		return s, log
	}
	s, log = long(1)
	other, _ := long(2)
	honest = export(t, log, 0)
	c.add(t, "honest, with three checkpoints", honest)
	for _, k := range must.Get(falsify.Corpus(s.events, other.events))(t) {
		c.add(t, k.Kind+": "+k.Name, forgedExport(t, honest, k.Events))
	}
	return c
}

// TestWebVectors: this package has the same result as the console's verifier for each export of
// the corpus. The forger's ids are random, so the file is not regenerated for a comparison:
// -update writes it.
func TestWebVectors(t *testing.T) {
	t.Parallel()
	if *update {
		text := must.Get(json.Marshal(makeWebCorpus(t)))(t)
		must.Do(t, os.WriteFile(webVectors, append(text, '\n'), 0o644))
	}
	var c webCorpus
	must.Do(t, json.Unmarshal(must.Get(os.ReadFile(webVectors))(t), &c))
	if fresh := makeWebCorpus(t); len(fresh.Cases) != len(c.Cases) {
		t.Errorf("the file has %d cases, this code makes %d: run with -update", len(c.Cases), len(fresh.Cases))
	}
	for _, k := range c.Cases {
		var export []byte
		for _, i := range k.Lines {
			export = append(append(export, c.Lines[i]...), '\n')
		}
		if seq, line := verdict(export); seq != k.Seq || line != k.Line {
			t.Errorf("%s: event %d, line %d; the file says %d, %d", k.Name, seq, line, k.Seq, k.Line)
		}
	}
}
