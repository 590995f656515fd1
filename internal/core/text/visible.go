package text

import (
	"fmt"
	"strings"
	"unicode/utf8"
)

// Visible returns text with all characters that a reader cannot see (Unseen), but newline and
// tab, written out as \u{hex}. Bytes that are not UTF-8 become \x{hex}.
func Visible(text string) string {
	if !strings.ContainsFunc(text, hidden) && utf8.ValidString(text) {
		return text
	}
	var out strings.Builder
	for i := 0; i < len(text); {
		r, size := utf8.DecodeRuneInString(text[i:])
		switch {
		case r == utf8.RuneError && size == 1:
			fmt.Fprintf(&out, `\x{%02x}`, text[i])
		case hidden(r):
			fmt.Fprintf(&out, `\u{%x}`, r)
		default:
			out.WriteString(text[i : i+size])
		}
		i += size
	}
	return out.String()
}

func hidden(r rune) bool { return r != '\n' && r != '\t' && Unseen(r) }
