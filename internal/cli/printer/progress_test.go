package printer_test

import (
	"bytes"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"palyra/internal/cli/printer"
	"palyra/internal/core/progress"
)

// screen returns the final content of a line of a terminal, and the length of the longest line
// that was written.
func screen(written string, cells int) (shown string, longest int) {
	line := make([]rune, 0, cells)
	at := 0
	for _, r := range written {
		if r == '\r' {
			at = 0
			continue
		}
		if at == len(line) {
			line = append(line, r)
		}
		line[at] = r
		at++
		longest = max(longest, at)
	}
	return strings.TrimRight(string(line), " "), longest
}

// watch returns the output of the progress of a task that counts 100 items each second.
func watch(t *testing.T, s printer.Streams, output string, takes time.Duration, total int64) (during, after string) {
	t.Helper()
	var said bytes.Buffer
	synctest.Test(t, func(t *testing.T) {
		s.Err = &said
		a := printer.New(s)
		a.Output = output
		m := &progress.Meter{}
		m.Expect(total)
		end := a.Progress(m, "verifying", "events")
		for range takes / time.Second {
			time.Sleep(time.Second)
			m.Add(100)
		}
		time.Sleep(progress.Patience / 10)
		synctest.Wait()
		during = said.String()
		end()
		end()
		after = said.String()
	})
	return during, after
}

// TestProgress: on a terminal a count is displayed after two seconds, and the line is cleared
// at the end. Without one no progress is displayed.
func TestProgress(t *testing.T) {
	t.Parallel()
	person := printer.Streams{ErrTerminal: true, Width: 80}
	narrow := printer.Streams{ErrTerminal: true, Width: 20}
	ci := printer.Streams{ErrTerminal: true, Getenv: func(name string) string { return map[string]string{"CI": "true"}[name] }}
	for _, c := range []struct {
		name    string
		streams printer.Streams
		output  string
		takes   time.Duration
		total   int64
		want    string
	}{
		{"of a known number", person, "", 3 * time.Second, 1000, "verifying: 300 of 1000 events (30 %)"},
		{"of an unknown number", person, "wide", 3 * time.Second, 0, "verifying: 300 events"},
		{"all are counted", person, "", 3 * time.Second, 300, "verifying: all 300 events, finishing"},
		{"a narrow terminal", narrow, "", 3 * time.Second, 1000, "verifying: 300 of …"},
		{"quick", person, "", time.Second, 1000, ""},
		{"a pipe", printer.Streams{}, "", 3 * time.Second, 1000, ""},
		{"CI", ci, "", 3 * time.Second, 1000, ""},
		{"json", person, "json", 3 * time.Second, 1000, ""},
		{"ndjson", person, "ndjson", 3 * time.Second, 1000, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			during, after := watch(t, c.streams, c.output, c.takes, c.total)
			shown, longest := screen(during, 80)
			if shown != c.want || c.want == "" && after != "" {
				t.Errorf("shown is %q, want %q; written was %q", shown, c.want, after)
			}
			if left, _ := screen(after, 80); left != "" || strings.ContainsAny(after, "\n\x1b") {
				t.Errorf("%q is left of %q", left, after)
			}
			if c.streams.Width > 0 && longest >= c.streams.Width {
				t.Errorf("a line has %d cells of %d", longest, c.streams.Width)
			}
			if c.want != "" && !strings.HasSuffix(after, "\r") {
				t.Errorf("the cursor is not at the beginning: %q", after)
			}
		})
	}
}
