package printer

import (
	"fmt"
	"unicode/utf8"

	"palyra/internal/core/text"
)

// VisibleLine returns text.VisibleLine. The gateway writes the texts of an approval in the same
// form; this is the last protection for everything that is printed.
func VisibleLine(s string) string { return text.VisibleLine(s) }

// VisibleText is VisibleLine for text that may have lines and tabs.
func VisibleText(s string) string { return text.Visible(s) }

// VisibleJSON writes the same characters of a JSON text as \u escapes, which preserves the value.
// In JSON they can occur only inside strings.
func VisibleJSON(value []byte) []byte {
	lookalikes := text.Lookalikes(string(value))
	var out []byte
	for i := 0; i < len(value); {
		r, size := utf8.DecodeRune(value[i:])
		switch {
		case r == '\n', !text.Unseen(r) && !lookalikes[i] && (r != utf8.RuneError || size > 1):
			out = append(out, value[i:i+size]...)
		case r == '\t', r == '\r':
			out = append(out, ' ') // between tokens; JSON forbids both inside strings
		case r >= 0x10000:
			high, low := surrogates(r)
			out = fmt.Appendf(out, `\u%04x\u%04x`, high, low)
		default:
			out = fmt.Appendf(out, `\u%04x`, r)
		}
		i += size
	}
	return out
}

func surrogates(r rune) (high, low rune) {
	r -= 0x10000
	return 0xD800 + r>>10, 0xDC00 + r&0x3FF
}
