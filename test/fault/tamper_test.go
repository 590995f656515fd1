//go:build linux

package fault

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"zombiezen.com/go/sqlite"
	"zombiezen.com/go/sqlite/sqlitex"

	"palyra/internal/journal"
	"palyra/test/fault/tamper"
)

// exported is an export of a real journal, line by line, and the stopped
// gateway that it is of.
type exported struct {
	of     *daemon
	lines  [][]byte // header, events, trailer
	events []journal.Event
}

// journalOf runs a gateway whose journal gets three checkpoints, exports it,
// and kills the gateway, so that the store ends where the export does.
func journalOf(t *testing.T) exported {
	t.Helper()
	d := prepare(t)
	for n := range 4 {
		d.start()
		c := d.dial()
		for i := range 5 {
			succeeded(t, c.patch(t.Context(), fmt.Sprintf("t-%d-%d", n, i)))
		}
		c.transport.CloseIdleConnections()
		if n < 3 {
			d.stop()
		}
	}
	path := filepath.Join(d.dir, "export.ndjson")
	if code, _, msg := d.cli("journal", "export", path); code != 0 {
		t.Fatalf("export: exit code %d: %s", code, msg)
	}
	d.kill()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	e := exported{of: d, lines: bytes.SplitAfter(bytes.TrimSuffix(text, []byte("\n")), []byte("\n"))}
	for _, line := range e.lines[1 : len(e.lines)-1] {
		one, err := journal.ParseLine(bytes.TrimSuffix(line, []byte("\n")))
		if err != nil {
			t.Fatal(err)
		}
		e.events = append(e.events, one)
	}
	return e
}

// with writes an export with other events between the same header and trailer.
func (e exported) with(t *testing.T, events []journal.Event) string {
	t.Helper()
	text := bytes.Clone(e.lines[0])
	for i := range events {
		line, err := events[i].AppendLine(nil)
		if err != nil {
			t.Fatal(err)
		}
		text = append(append(text, line...), '\n')
	}
	path := filepath.Join(t.TempDir(), "export.ndjson")
	write(t, path, string(append(append(text, e.lines[len(e.lines)-1]...), '\n')))
	return path
}

// TestTamperCorpus: each of the nine kinds is found in an export and in the
// store itself, with the first bad sequence number.
func TestTamperCorpus(t *testing.T) {
	t.Parallel()
	honest, other := journalOf(t), journalOf(t)
	cases, err := tamper.Corpus(honest.events, other.events)
	if err != nil {
		t.Fatal(err)
	}
	kinds := map[string]bool{}
	for _, c := range cases {
		kinds[c.Kind] = true
		t.Run(c.Kind+", "+c.Name, func(t *testing.T) {
			t.Parallel()
			honest.of.detected(t, c.First, "journal", "verify", honest.with(t, c.Events))
			d := honest.of.fork(t)
			rewrite(t, d.store(), c.Events)
			d.detected(t, c.First, "journal", "verify", "--state-dir", d.state)
		})
	}
	if len(kinds) != 9 {
		t.Errorf("the corpus has the kinds %v, want nine", kinds)
	}
	t.Run("control", func(t *testing.T) {
		t.Parallel()
		d := honest.of.fork(t)
		rewrite(t, d.store(), honest.events)
		for _, args := range [][]string{{honest.with(t, honest.events)}, {"--state-dir", d.state}} {
			if code, _, msg := d.cli(append([]string{"journal", "verify"}, args...)...); code != 0 {
				t.Errorf("an honest journal does not verify: exit code %d: %s", code, msg)
			}
		}
	})
}

// detected runs a verification that has to fail and to name the event, to
// people and to machines.
func (d *daemon) detected(t *testing.T, first int64, args ...string) {
	t.Helper()
	d = &daemon{t: t, dir: d.dir, config: d.config}
	code, out, msg := d.cli(append(args, "-o", "json")...)
	var said struct {
		Verified bool  `json:"verified"`
		Seq      int64 `json:"seq"`
	}
	if err := json.Unmarshal([]byte(out), &said); err != nil || code != 8 || said.Verified {
		t.Fatalf("%v: exit code %d, %v\nout: %s\nerr: %s", args[2:], code, err, out, msg)
	}
	if said.Seq != first || !strings.Contains(msg, fmt.Sprintf("sequence number %d:", first)) {
		t.Errorf("%v: the first bad event is %d; it says %d and\n%s", args[2:], first, said.Seq, msg)
	}
}

// rewrite replaces the events of a store, and the Merkle tree with that of the
// new ones: what an attacker can do who may write the file.
func rewrite(t *testing.T, path string, events []journal.Event) {
	t.Helper()
	conn, err := sqlite.OpenConn(path, sqlite.OpenReadWrite)
	if err != nil {
		t.Fatal(err)
	}
	err = sqlitex.ExecuteScript(conn, "DELETE FROM events; DELETE FROM tiles;", nil)
	numbers := make([]int64, len(events))
	for i := range events {
		numbers[i] = events[i].Seq
	}
	slices.Sort(numbers) // a table is in the order of its keys: reordered is renumbered
	var edge journal.Edge
	for i := range events {
		err = errors.Join(err, insert(conn, numbers[i], &events[i]))
		for _, tile := range edge.Append(events[i].Hash) {
			err = errors.Join(err, sqlitex.Execute(conn, "INSERT INTO tiles (level, n, root, hashes) VALUES (?, ?, ?, ?)",
				&sqlitex.ExecOptions{Args: []any{tile.Level, tile.N, tile.Root[:], tile.Hashes}}))
		}
	}
	if err := errors.Join(err, conn.Close()); err != nil {
		t.Fatal(err)
	}
}

func insert(conn *sqlite.Conn, seq int64, e *journal.Event) error {
	args := []any{
		seq, e.At.UnixMicro(), e.ID, string(e.Code), e.Session, e.Run, e.Actor, e.Subject,
		e.Hash[:], e.PrevHash[:], e.PayloadSHA256[:], nil, nil,
	}
	if e.Salt != nil {
		args[11] = e.Salt
	}
	if e.Payload != nil {
		args[12] = []byte(e.Payload)
	}
	return sqlitex.Execute(conn, `INSERT INTO events
 (seq, at, id, code, session, run, actor, subject, hash, prev_hash, payload_sha256, salt, payload)
 VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)`, &sqlitex.ExecOptions{Args: args})
}
