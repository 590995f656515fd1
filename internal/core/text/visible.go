package text

import (
	"fmt"
	"strings"
	"unicode/utf8"
)

// Visible returns s with all Lookalikes, and all characters that a reader cannot see (Unseen)
// except newline and tab, written as \u{hex}. Bytes that are not UTF-8 become \x{hex}.
func Visible(s string) string {
	return writeOut(s, func(r rune) bool { return r != '\n' && r != '\t' && Unseen(r) })
}

// VisibleLine is Visible for one line: it also escapes newline and tab.
func VisibleLine(s string) string { return writeOut(s, Unseen) }

func writeOut(s string, hidden func(rune) bool) string {
	lookalikes := Lookalikes(s)
	if lookalikes == nil && !strings.ContainsFunc(s, hidden) && utf8.ValidString(s) {
		return s
	}
	var out strings.Builder
	out.Grow(len(s) + 16)
	for i := 0; i < len(s); {
		r, size := utf8.DecodeRuneInString(s[i:])
		switch {
		case r == utf8.RuneError && size == 1:
			fmt.Fprintf(&out, `\x{%02x}`, s[i])
		case hidden(r), lookalikes[i]:
			fmt.Fprintf(&out, `\u{%x}`, r)
		default:
			out.WriteString(s[i : i+size])
		}
		i += size
	}
	return out.String()
}
