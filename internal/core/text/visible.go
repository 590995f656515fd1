package text

import (
	"fmt"
	"strings"
	"unicode"
	"unicode/utf8"
)

// Visible returns text with everything that a screen would hide or obey
// written out as \u{hex}: control characters but newline and tab, format
// characters (bidirectional overrides, zero-width characters, tags), line and
// paragraph separators, variation selectors and blank letters. Bytes that are
// not UTF-8 become \x{hex}.
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

func hidden(r rune) bool {
	switch r {
	case '\n', '\t':
		return false
	case 0x034f, 0x115f, 0x1160, 0x17b4, 0x17b5, 0x2800, 0x3164, 0xffa0:
		return true // letters and marks that draw nothing
	}
	return unicode.In(r, unicode.Cc, unicode.Cf, unicode.Zl, unicode.Zp, unicode.Co, unicode.Variation_Selector)
}
