package cli

import (
	"strings"

	"charm.land/lipgloss/v2"
)

// wrapper breaks text that comes in pieces between words, at the width of the
// terminal, and makes it visible. A word is written once its end is known.
type wrapper struct {
	// width in cells; 0 breaks nothing.
	width int
	// column is where the next cell goes.
	column int
	// gap and word are read and not written yet.
	gap, word strings.Builder
}

// add reads a piece and returns what can be written.
func (w *wrapper) add(text string) string {
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
			w.word.WriteString(visibleLine(string(r)))
		}
	}
	return out.String()
}

// end returns what is left, with the end of a line that was begun.
func (w *wrapper) end() string {
	var out strings.Builder
	w.finish(&out)
	if w.column > 0 {
		out.WriteByte('\n')
		w.column = 0
	}
	return out.String()
}

// finish writes the word with the gap before it, on a line of its own when it
// does not fit. A gap at the end of a line is left out.
func (w *wrapper) finish(out *strings.Builder) {
	gap, word := w.gap.String(), w.word.String()
	w.gap.Reset()
	w.word.Reset()
	if word == "" {
		return
	}
	if w.width > 0 && w.column > 0 && w.column+len(gap)+lipgloss.Width(word) > w.width {
		out.WriteByte('\n')
		gap, w.column = "", 0
	}
	out.WriteString(gap + word)
	w.column += len(gap) + lipgloss.Width(word)
	if w.width > 0 && w.column > w.width {
		w.column %= w.width // the terminal broke a word that is longer than a line
	}
}
