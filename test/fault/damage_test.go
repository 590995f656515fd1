//go:build linux

package fault

import (
	"bytes"
	crand "crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"golang.org/x/mod/sumdb/note"

	"palyra/internal/core/must"
	"palyra/internal/core/reason"
	"palyra/internal/evidence/journal"
)

const page = 4096

// change rewrites one file of a state directory.
func change(t *testing.T, path string, how func([]byte) []byte) {
	t.Helper()
	b := must.Get(os.ReadFile(path))(t)
	must.Do(t, os.WriteFile(path, how(b), 0o600))
}

// flip inverts a byte; a negative position counts from the end.
func flip(at int) func([]byte) []byte {
	return func(b []byte) []byte {
		if at < 0 {
			at += len(b)
		}
		b[at] ^= 0xff
		return b
	}
}

func cutTo(share float64) func([]byte) []byte {
	return func(b []byte) []byte { return b[:int(share*float64(len(b)))/page*page] }
}

func gone([]byte) []byte { return nil }

// eventOf returns the position of the code of the first event with that code: after the event's
// id. The code also occurs in the index of events by code.
func eventOf(code string, b []byte) int {
	at := regexp.MustCompile(`[0-9A-Z]{26}` + code).FindIndex(b)
	if at == nil {
		panic("no event " + code)
	}
	return at[1] - len(code)
}

// pageOf zeroes the page with the first event of a code.
func pageOf(code string) func([]byte) []byte {
	return func(b []byte) []byte {
		at := eventOf(code, b) / page * page
		clear(b[at : at+page])
		return b
	}
}

// inCode flips a bit in the code of the first event with that code.
func inCode(code string) func([]byte) []byte {
	return func(b []byte) []byte {
		b[eventOf(code, b)+len(code)/2] ^= 1
		return b
	}
}

// inText flips a bit in the first occurrence of a text.
func inText(text string) func([]byte) []byte {
	return func(b []byte) []byte {
		b[bytes.Index(b, []byte(text))+len(text)/2] ^= 1
		return b
	}
}

// TestDamagedAtRest damages files of a stopped gateway. palyrad refuses to start or, if the
// damage is before the range of its check at the start, the offline check finds it. Both report
// the position and the next step, and neither changes a byte.
func TestDamagedAtRest(t *testing.T) {
	t.Parallel()
	s := theSample(t)
	const db, wal, head = "palyra.db", "palyra.db-wal", "palyra.db-head"
	for name, c := range map[string]struct {
		of   *daemon
		file string
		how  func([]byte) []byte
		// starts: palyrad starts, and only the offline check finds the damage.
		starts bool
		// seq: enough is readable that the first bad event has a sequence number.
		seq bool
	}{
		"the file's header":          {s.stopped, db, flip(3), false, false},
		"the first schema page":      {s.stopped, db, func(b []byte) []byte { clear(b[100:page]); return b }, false, false},
		"half of the file cut off":   {s.stopped, db, cutTo(0.5), false, false},
		"the last pages cut off":     {s.stopped, db, cutTo(0.97), false, false},
		"an empty file":              {s.stopped, db, gone, false, true},
		"a page of old events":       {s.stopped, db, pageOf("PAL-D103"), true, true},
		"a byte of an old event":     {s.stopped, db, inCode("PAL-D103"), true, true},
		"a byte of a list of events": {s.stopped, db, inText("PAL-D103"), true, true},
		"the WAL cut off":            {s.killed, wal, cutTo(0.5), false, true},
		"the WAL emptied":            {s.killed, wal, gone, false, true},
		"a byte early in the WAL":    {s.killed, wal, flip(32 + 24 + 5*(page+24) + 99), false, true},
		"a byte of the WAL's header": {s.killed, wal, flip(17), false, true},
		"the WAL's last byte":        {s.killed, wal, flip(-1), false, true},
		"the head file":              {s.stopped, head, flip(20), false, false},
		"another signing key":        {s.stopped, "ca/journal.key", anotherKey, false, true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			d := c.of.fork(t)
			change(t, filepath.Join(d.State, filepath.FromSlash(c.file)), c.how)
			before := d.bytes(t)
			if c.starts {
				d.Start()
				d.Stop()
			} else {
				d.refused(8, d.State)
			}
			if after := d.bytes(t); !c.starts && after != before {
				t.Error("the refusal changed the store")
			}
			code, _, msg := d.cli("journal", "verify", "--state-dir", d.State)
			if code != 8 || !strings.Contains(msg, "next: ") {
				t.Errorf("verify: exit code %d, want 8: %s", code, msg)
			}
			if c.seq != strings.Contains(msg, "sequence number") {
				t.Errorf("a sequence number is expected: %v; verify says %s", c.seq, msg)
			}
		})
	}
}

// anotherKey returns a signing key with the same gateway id.
func anotherKey(line []byte) []byte {
	name := strings.Split(string(line), "+")[2]
	private, public, err := note.GenerateKey(crand.Reader, name)
	if err != nil {
		panic(err)
	}
	return []byte(private + "\n" + public + "\n") // in palyrad's format
}

// bytes returns the files of the store without the shared memory, which SQLite creates again.
func (d *daemon) bytes(t *testing.T) string {
	t.Helper()
	var all strings.Builder
	for _, suffix := range []string{"", "-wal", "-head"} {
		b, err := os.ReadFile(d.store() + suffix)
		if err != nil && !errors.Is(err, os.ErrNotExist) {
			t.Fatal(err)
		}
		fmt.Fprintf(&all, "%s %d\n%s", suffix, len(b), b)
	}
	return all.String()
}

// TestUntouchedCopies is the control: the undamaged copies verify and start.
func TestUntouchedCopies(t *testing.T) {
	t.Parallel()
	s := theSample(t)
	for name, of := range map[string]*daemon{"stopped": s.stopped, "killed": s.killed} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			d := of.fork(t)
			// Files that are derived or carry no information may be lost.
			for _, file := range []string{"palyra.db-shm", "palyrad.lock"} {
				must.Do(t, os.WriteFile(filepath.Join(d.State, file), bytes.Repeat([]byte("x"), 4000), 0o600))
			}
			if code, _, msg := d.cli("journal", "verify", "--state-dir", d.State); code != 0 {
				t.Errorf("verify: exit code %d: %s", code, msg)
			}
			d.Start()
			succeeded(t, d.dial().patch(t.Context(), "goes-on"))
			d.Stop()
			must.Check(t, d.verify())
		})
	}
}

// TestFlippedBytes flips a byte at many positions of the file and of the WAL. Either the check
// finds it, with a sequence number if the journal is damaged, or every event is unchanged.
func TestFlippedBytes(t *testing.T) {
	t.Parallel()
	s := theSample(t)
	const flips = 50
	for name, of := range map[string]*daemon{"palyra.db": s.stopped, "palyra.db-wal": s.killed} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			d := of.fork(t)
			path := filepath.Join(d.State, name)
			whole := must.Get(os.ReadFile(path))(t)
			want, _ := d.digest(t)
			// SQLite's header is damaged in another test. Some of its bytes would make the file look
			// like another program's or version's, which has a different error.
			const header = 100
			at := rand.New(rand.NewPCG(7, 11))
			found, located := 0, 0
			for range flips {
				b := bytes.Clone(whole)
				place := header + at.IntN(len(b)-header)
				b[place] ^= 1 << at.IntN(8)
				must.Do(t, os.WriteFile(path, b, 0o600))
				err := d.verify()
				var bad *journal.CorruptError
				switch {
				case err == nil:
					if got, _ := d.digest(t); got != want {
						t.Errorf("byte %d was flipped, events differ, and the check finds nothing", place)
					}
					continue
				case errors.As(err, &bad) && bad.Seq > 0:
					located++
				case reason.Of(err) != reason.VerificationFailed:
					t.Errorf("byte %d: the check ends with %v", place, err)
				}
				found++
			}
			t.Logf("%d of %d flips found, %d with a sequence number", found, flips, located)
			if located == 0 {
				t.Error("no flip was located")
			}
		})
	}
}

// TestVerifyNamesTheEvent: the command's message and its JSON output name the damaged event.
func TestVerifyNamesTheEvent(t *testing.T) {
	t.Parallel()
	d := theSample(t).stopped.fork(t)
	change(t, d.store(), inText(`"tool":"fs.patch"`))
	code, out, msg := d.cli("journal", "verify", "--state-dir", d.State, "-o", "json")
	var said struct {
		Verified bool  `json:"verified"`
		Seq      int64 `json:"seq"`
	}
	if err := json.Unmarshal([]byte(out), &said); err != nil || code != 8 {
		t.Fatalf("exit code %d, %v\nout: %s\nerr: %s", code, err, out, msg)
	}
	if said.Verified || said.Seq < 1 || !strings.Contains(msg, fmt.Sprintf("sequence number %d:", said.Seq)) {
		t.Errorf("it says %s\nand %s", out, msg)
	}
}
