package printer_test

import (
	"bytes"
	"strings"
	"testing"
	"unicode/utf8"

	"charm.land/lipgloss/v2"
	"github.com/google/go-cmp/cmp"

	"palyra/internal/cli/printer"
)

// FuzzWrap: wrapped text has the words of the text in order, regardless of its pieces. No line
// is longer than the terminal, unless a word is.
func FuzzWrap(f *testing.F) {
	f.Add("the quick brown fox\n  jumps over", 3, 10)
	f.Add("x\t\ty", 1, 4)
	f.Add("wide 世界 words", 2, 6)
	f.Fuzz(func(t *testing.T, text string, piece, width int) {
		if !utf8.ValidString(text) || piece < 1 || width < 1 || width > 200 {
			t.Skip()
		}
		w, whole := printer.Wrapper{Width: width}, printer.Wrapper{Width: width}
		var out bytes.Buffer
		runes := []rune(text)
		for len(runes) > 0 {
			n := min(piece, len(runes))
			out.WriteString(w.Add(string(runes[:n])))
			runes = runes[n:]
		}
		out.WriteString(w.End())
		if once := whole.Add(text) + whole.End(); out.String() != once {
			t.Errorf("in pieces %q, at once %q", out.String(), once)
		}
		if got, want := strings.Fields(out.String()), strings.Fields(printer.VisibleText(text)); strings.Join(got, " ") != strings.Join(want, " ") {
			t.Errorf("words %q, want %q", got, want)
		}
	})
}

func TestWrap(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		text  string
		cells int
		want  []string
	}{
		{"", 20, []string{""}},
		{"one two", 20, []string{"one two"}},
		{"one two three four five six", 20, []string{"one two three four", "five six"}},
		{strings.Repeat("x", 45), 20, []string{strings.Repeat("x", 20), strings.Repeat("x", 20), "xxxxx"}},
		{strings.Repeat("漢", 15), 21, []string{strings.Repeat("漢", 10), strings.Repeat("漢", 5)}},
	} {
		if got := printer.Wrap(c.text, c.cells); !cmp.Equal(got, c.want) {
			t.Errorf("wrap(%q, %d) = %q", c.text, c.cells, got)
		}
	}
}

// TestHanging: the whole text is kept, no line is too long, and all lines but the first are
// indented.
func TestHanging(t *testing.T) {
	t.Parallel()
	for _, text := range []string{"", "git status", strings.Repeat("x", 80), strings.Repeat("x", 81), strings.Repeat(" ", 300) + "a", strings.Repeat("漢 ", 120), "a\nb\x1b[2J" + strings.Repeat("\t", 90)} {
		lines := strings.Split(printer.Hanging(text), "\n")
		whole := ""
		for i, line := range lines {
			if lipgloss.Width(line) > printer.PageWidth {
				t.Errorf("%q is too long", line)
			}
			rest, indented := strings.CutPrefix(line, "  ")
			if i > 0 {
				line = rest
			}
			if i > 0 && !indented {
				t.Errorf("%q is not indented", line)
			}
			whole += line
		}
		if whole != printer.VisibleLine(text) {
			t.Errorf("%q became %q", text, whole)
		}
	}
}
