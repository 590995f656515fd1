//go:build linux

package e2e

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"palyra/internal/core/must"
	"palyra/internal/evidence/journal"
)

// TestExportIsTamperEvident exports a journal with every kind of event, stops the daemon,
// verifies the file, and then modifies it in several hundred ways.
func TestExportIsTamperEvident(t *testing.T) {
	t.Parallel()
	g := startGateway(t)
	c := g.local()
	path := filepath.Join(g.Dir, "journal.ndjson")
	makeHistory(t, g)
	c.ok("journal", "export", path)
	g.Stop()

	whole := must.Get(os.ReadFile(path))(t)
	c.ok("journal", "verify", path)
	if _, err := verifyBytes(whole); err != nil {
		t.Fatalf("the whole export: %v", err)
	}
	starts := lineStarts(whole)
	t.Run("one byte", func(t *testing.T) {
		positions := samplePositions(t, whole, starts)
		for _, at := range positions {
			changed := bytes.Clone(whole)
			changed[at] ^= 1
			line, err := verifyBytes(changed)
			if want := lineOf(starts, at); err == nil {
				t.Errorf("byte %d (line %d) changed, and the export verifies", at, want)
			} else if line != want {
				t.Errorf("byte %d of line %d changed, and the error names line %d: %v", at, want, line, err)
			}
		}
		t.Logf("%d of %d bytes, %d lines", len(positions), len(whole), len(starts))
	})
	t.Run("cut off", func(t *testing.T) {
		for n := range starts {
			// The cuts are between two lines, within a line, and before its line feed.
			for _, end := range []int{starts[n], starts[n] + 1, lineEnd(starts, whole, n) - 1} {
				if _, err := verifyBytes(whole[:end]); err == nil {
					t.Errorf("cut off after byte %d of %d, and the export verifies", end, len(whole))
				}
			}
		}
	})
	t.Run("a line gone, doubled, exchanged", func(t *testing.T) {
		lines := bytes.SplitAfter(whole, []byte("\n"))
		lines = lines[:len(lines)-1]
		for n := range lines {
			without := bytes.Join(append(append([][]byte{}, lines[:n]...), lines[n+1:]...), nil)
			doubled := bytes.Join(append(append([][]byte{}, lines[:n+1]...), lines[n:]...), nil)
			for what, text := range map[string][]byte{"gone": without, "doubled": doubled} {
				if _, err := verifyBytes(text); err == nil {
					t.Errorf("line %d %s, and the export verifies", n+1, what)
				}
			}
		}
	})
	t.Run("palyra says so", func(t *testing.T) { wantDamageLocation(t, c, whole, starts) })
}

// makeHistory makes calls with every outcome, one of them with an unusually large envelope.
func makeHistory(t *testing.T, g *gateway) {
	c := g.local()
	c.ok("call", "fs.read", "path=a.txt")
	c.run("call", "fs.read", "path=no-such-file").Want(t, 1)
	c.run("call", "echo", "nope=1").Want(t, 2)
	call := c.begin("call", "process.run", `argv=["ls"]`)
	c.allow(call.asked(), "--allow", "session").Want(t, 0)
	call.wait().Want(t, 0)
	call = c.begin("call", "fs.write", "path=b.txt", "content=new")
	c.deny(call.asked()).Want(t, 0)
	call.wait().Want(t, 4)
	// This creates a checkpoint event.
	c.ok("journal", "prove", "1")
	c.ok("call", "echo", "text=the end")
}

// verifyBytes verifies an export and returns the line number that the error names.
func verifyBytes(export []byte) (line int, err error) {
	_, err = journal.VerifyExport(bytes.NewReader(export), journal.ExportOptions{})
	var located *journal.ExportError
	if err != nil && !errors.As(err, &located) {
		return 0, fmt.Errorf("names no line: %w", err)
	}
	if located != nil {
		line = located.Line
	}
	return line, err
}

func lineStarts(text []byte) []int {
	starts := []int{0}
	for i, b := range text {
		if b == '\n' && i+1 < len(text) {
			starts = append(starts, i+1)
		}
	}
	return starts
}

func lineEnd(starts []int, text []byte, n int) int {
	if n+1 < len(starts) {
		return starts[n+1]
	}
	return len(text)
}

func lineOf(starts []int, at int) int {
	n := 0
	for n < len(starts) && starts[n] <= at {
		n++
	}
	return n
}

// samplePositions returns at least 300 positions: spread over the file, and densely in the
// header, the first event, an event with an envelope, a checkpoint and the trailer, and on line
// feeds.
func samplePositions(t *testing.T, text []byte, starts []int) []int {
	t.Helper()
	chosen := make(map[int]bool)
	spread := func(from, to, n int) {
		for i := range n {
			chosen[from+i*(to-from)/n] = true
		}
	}
	spread(0, len(text), 150)
	marked := map[string]int{"header": 0, "first event": 1, "trailer": len(starts) - 1, "envelope": -1, "checkpoint": -1}
	for n, start := range starts {
		end := lineEnd(starts, text, n)
		chosen[end-1] = true // its line feed
		line := string(text[start:end])
		switch {
		case strings.Contains(line, `"code":"PAL-X100"`):
			marked["envelope"] = n
		case strings.Contains(line, `"code":"PAL-J102"`):
			marked["checkpoint"] = n
		}
	}
	for what, n := range marked {
		if n < 0 {
			t.Fatalf("the export has no %s", what)
		}
		spread(starts[n], lineEnd(starts, text, n), 50)
	}
	list := make([]int, 0, len(chosen))
	for at := range chosen {
		list = append(list, at)
	}
	if len(list) < 300 {
		t.Fatalf("only %d positions", len(list))
	}
	return list
}

// wantDamageLocation modifies a few bytes and runs palyra without a daemon.
func wantDamageLocation(t *testing.T, c *client, whole []byte, starts []int) {
	last := len(starts) - 1
	for name, at := range map[string]int{
		"header": 40, "first event": starts[1] + 40, "middle": starts[last/2] + 60, "trailer": starts[last] + 40,
		"first line feed": starts[1] - 1, "last line feed": len(whole) - 1,
	} {
		changed := bytes.Clone(whole)
		changed[at] ^= 1
		path := filepath.Join(t.TempDir(), "changed.ndjson")
		must.Do(t, os.WriteFile(path, changed, 0o600))
		r := c.run("journal", "verify", path)
		if r.Code != 8 || !strings.Contains(r.Err, "line ") {
			t.Errorf("%s: exit code %d: %s", name, r.Code, r.Err)
		}
	}
	path := filepath.Join(t.TempDir(), "cut.ndjson")
	must.Do(t, os.WriteFile(path, whole[:starts[last]], 0o600))
	c.run("journal", "verify", path).Want(t, 8, "cut off", fmt.Sprintf("line %d", last+1))
}
