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

	"palyra/internal/core/event"
	"palyra/internal/core/must"
	"palyra/internal/evidence/journal"
	"palyra/test/fault/tamper"
	"palyra/test/process"
)

// exported is an export of a real journal, as lines, with its stopped gateway.
type exported struct {
	of     *daemon
	lines  [][]byte // header, events, trailer
	events []journal.Event
	// keys is the file with the gateway's key set.
	keys string
}

// journalOf runs a gateway whose journal has three checkpoints, exports it, and kills the
// gateway, so that the store ends where the export does.
func journalOf(t *testing.T) exported {
	t.Helper()
	d := prepare(t)
	for n := range 4 {
		d.Start()
		c := d.dial()
		for i := range 5 {
			succeeded(t, c.patch(t.Context(), fmt.Sprintf("t-%d-%d", n, i)))
		}
		c.transport.CloseIdleConnections()
		if n < 3 {
			d.Stop()
		}
	}
	path := filepath.Join(d.Dir, "export.ndjson")
	if code, _, msg := d.cli("journal", "export", path); code != 0 {
		t.Fatalf("export: exit code %d: %s", code, msg)
	}
	code, set, msg := d.cli("attest", "keys", "-o", "json")
	if code != 0 {
		t.Fatalf("key set: exit code %d: %s", code, msg)
	}
	keys := filepath.Join(d.Dir, "keys.json")
	must.Write(t, keys, set)
	d.Kill()
	text := must.Get(os.ReadFile(path))(t)
	e := exported{of: d, keys: keys, lines: bytes.SplitAfter(bytes.TrimSuffix(text, []byte("\n")), []byte("\n"))}
	for _, line := range e.lines[1 : len(e.lines)-1] {
		one := must.Get(journal.ParseLine(bytes.TrimSuffix(line, []byte("\n"))))(t)
		e.events = append(e.events, one)
	}
	return e
}

// with writes an export with other events between the same header and trailer.
func (e exported) with(t *testing.T, events []journal.Event) string {
	t.Helper()
	text := bytes.Clone(e.lines[0])
	for i := range events {
		line := must.Get(events[i].AppendLine(nil))(t)
		text = append(append(text, line...), '\n')
	}
	path := filepath.Join(t.TempDir(), "export.ndjson")
	must.Write(t, path, string(append(append(text, e.lines[len(e.lines)-1]...), '\n')))
	return path
}

// TestTamperCorpus: verification finds each of the nine kinds of tampering in an export and in
// the store, and reports the first bad sequence number.
func TestTamperCorpus(t *testing.T) {
	t.Parallel()
	honest, other := journalOf(t), journalOf(t)
	cases := must.Get(tamper.Corpus(honest.events, other.events))(t)
	kinds := map[string]bool{}
	for _, c := range cases {
		kinds[c.Kind] = true
		t.Run(c.Kind+", "+c.Name, func(t *testing.T) {
			t.Parallel()
			honest.of.detected(t, c.First, "journal", "verify", honest.with(t, c.Events))
			d := honest.of.fork(t)
			rewrite(t, d.store(), c.Events)
			d.detected(t, c.First, "journal", "verify", "--state-dir", d.State)
		})
	}
	if len(kinds) != 9 {
		t.Errorf("the corpus has the kinds %v, want nine", kinds)
	}
	t.Run("all rewritten with a key of the forger's own", func(t *testing.T) {
		t.Parallel()
		honest.rewritten(t)
	})
	t.Run("control", func(t *testing.T) {
		t.Parallel()
		d := honest.of.fork(t)
		rewrite(t, d.store(), honest.events)
		for _, args := range [][]string{{honest.with(t, honest.events)}, {"--state-dir", d.State}} {
			if code, _, msg := d.cli(append([]string{"journal", "verify"}, args...)...); code != 0 {
				t.Errorf("an honest journal does not verify: exit code %d: %s", code, msg)
			}
		}
	})
}

// rewritten drops and changes events, and signs everything again with its own key. Verification
// with the gateway's keys fails. Control: without these keys it succeeds, and its first line
// states what was not proven.
func (e exported) rewritten(t *testing.T) {
	dropped, changed := 0, 0
	text, err := tamper.Rewritten(e.lines[0], e.events, func(one journal.Event) *journal.Event {
		switch {
		case slices.ContainsFunc([]string{"PAL-D", "PAL-X", "PAL-A", "PAL-G"}, func(family string) bool { return strings.HasPrefix(string(one.Code), family) }):
			dropped++ // calls refer to earlier events, so a forger drops them
			return nil
		case one.Code != event.ToolPinned && one.Code != event.PolicyLoaded && one.Code != event.CertificateMade:
			return &one
		case one.Seq%3 == 0:
			dropped++
			return nil
		}
		changed++
		one.Payload = json.RawMessage(`{"forged":true}`)
		return &one
	})
	if err != nil || dropped == 0 || changed == 0 {
		t.Fatalf("%d dropped, %d changed, %v", dropped, changed, err)
	}
	path := filepath.Join(t.TempDir(), "forged.ndjson")
	must.Write(t, path, string(text))
	d := &daemon{Palyrad: &process.Palyrad{T: t, Dir: t.TempDir(), Config: e.of.Config}}
	code, out, msg := d.cli("journal", "verify", path, "--keys", e.keys)
	if code != 8 || out != "" || !strings.Contains(msg, "signed by a key that is not in "+e.keys) {
		t.Errorf("with the key set: exit code %d: %s%s", code, out, msg)
	}
	code, out, msg = d.cli("journal", "verify", path)
	if first, _, _ := strings.Cut(out, "\n"); code != 0 || !strings.Contains(first, "prove integrity, but not the origin") {
		t.Errorf("alone: exit code %d, first line %q: %s", code, first, msg)
	}
	honest := e.with(t, e.events)
	if code, out, msg := d.cli("journal", "verify", honest, "--keys", e.keys); code != 0 || !strings.HasPrefix(out, "verified") {
		t.Errorf("what the gateway wrote: exit code %d: %s%s", code, out, msg)
	}
}

// detected runs a verification that must fail and name the event, in its text and JSON output.
func (d *daemon) detected(t *testing.T, first int64, args ...string) {
	t.Helper()
	d = &daemon{Palyrad: &process.Palyrad{T: t, Dir: d.Dir, Config: d.Config}}
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

// rewrite replaces the events of a store and its Merkle tree, as an attacker with write access
// to the file can.
func rewrite(t *testing.T, path string, events []journal.Event) {
	t.Helper()
	conn := must.Get(sqlite.OpenConn(path, sqlite.OpenReadWrite))(t)
	err := sqlitex.ExecuteScript(conn, "DELETE FROM events; DELETE FROM tiles;", nil)
	numbers := make([]int64, len(events))
	for i := range events {
		numbers[i] = events[i].Seq
	}
	slices.Sort(numbers) // a table is ordered by its keys, so reordered events are renumbered
	var edge journal.Edge
	for i := range events {
		err = errors.Join(err, insert(conn, numbers[i], &events[i]))
		for _, tile := range edge.Append(events[i].Hash) {
			err = errors.Join(err, sqlitex.Execute(conn, "INSERT INTO tiles (level, n, root, hashes) VALUES (?, ?, ?, ?)",
				&sqlitex.ExecOptions{Args: []any{tile.Level, tile.N, tile.Root[:], tile.Hashes}}))
		}
	}
	must.Do(t, errors.Join(err, conn.Close()))
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
