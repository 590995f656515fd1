package printer

import (
	"strings"
	"unicode/utf8"

	"charm.land/lipgloss/v2"
)

// Wrapper wraps text that is received in parts at the width of the terminal, and escapes it. A word
// is written once its end is known.
type Wrapper struct {
	// Width in cells; 0 disables wrapping.
	Width int
	// column is the position of the next cell.
	column int
	// gap and word have been read, but not written yet.
	gap, word strings.Builder
}

// Add processes a part and returns the text that can be written.
func (w *Wrapper) Add(text string) string {
	var out strings.Builder
	for _, r := range text {
		switch r {
		case '\n':
			w.finish(&out)
			out.WriteByte('\n')
			w.column = 0
		case ' ', '\t':
			if w.word.Len() > 0 {
				w.finish(&out)
			}
			w.gap.WriteString(map[rune]string{' ': " ", '\t': "    "}[r])
		default:
			w.word.WriteString(VisibleLine(string(r)))
		}
	}
	return out.String()
}

// End returns the remaining text, with the end of an incomplete line.
func (w *Wrapper) End() string {
	var out strings.Builder
	w.finish(&out)
	if w.column > 0 {
		out.WriteByte('\n')
		w.column = 0
	}
	return out.String()
}

// finish writes the word with the gap before it, on a new line if it does not fit. A gap at the
// end of a line is left out.
func (w *Wrapper) finish(out *strings.Builder) {
	gap, word := w.gap.String(), w.word.String()
	w.gap.Reset()
	w.word.Reset()
	if word == "" {
		return
	}
	if w.Width > 0 && w.column > 0 && w.column+len(gap)+lipgloss.Width(word) > w.Width {
		out.WriteByte('\n')
		gap, w.column = "", 0
	}
	out.WriteString(gap + word)
	w.column += len(gap) + lipgloss.Width(word)
	if w.Width > 0 && w.column > w.Width {
		w.column %= w.Width // the terminal wrapped a word that is longer than a line
	}
}

// Wrap breaks a line at spaces so that each part fits into a number of cells; a
// longer word is cut.
func Wrap(text string, cells int) []string {
	cells = max(cells, 20)
	if lipgloss.Width(text) <= cells {
		return []string{text}
	}
	var lines []string
	line := ""
	for _, word := range strings.Fields(text) {
		switch {
		case line == "":
			line = word
		case lipgloss.Width(line)+1+lipgloss.Width(word) <= cells:
			line += " " + word
		default:
			lines = append(lines, line)
			line = word
		}
		for lipgloss.Width(line) > cells {
			head := fitting(line, cells)
			lines = append(lines, line[:head])
			line = line[head:]
		}
	}
	return append(lines, line)
}

// hangIndent is the indentation of continuation lines of external text.
const hangIndent = "  "

// Hanging formats an external text for a terminal. It breaks full lines without omitting
// characters, and indents continuation lines, so that spaces in the text cannot fake a line of the
// program's own output.
func Hanging(text string) string {
	text = VisibleLine(text)
	var b strings.Builder
	for room := PageWidth; lipgloss.Width(text) > room; room = PageWidth - len(hangIndent) {
		head := fitting(text, room)
		b.WriteString(text[:head] + "\n" + hangIndent)
		text = text[head:]
	}
	return b.String() + text
}

// fitting is the length of the longest beginning that fits into a number of
// cells, at least one character.
func fitting(s string, cells int) int {
	end := 0
	for i, r := range s {
		if next := i + utf8.RuneLen(r); end == 0 || lipgloss.Width(s[:next]) <= cells {
			end = next
			continue
		}
		break
	}
	return end
}
