package printer

import (
	"fmt"
	"strings"
	"unicode/utf8"

	"palyra/internal/core/text"
)

// VisibleLine returns s on one line with everything that a terminal would act
// on or not show written out: control characters and escape sequences as
// \u{1b}, bidirectional and zero-width characters likewise, bytes that are no
// UTF-8 as \x{ff}. The gateway writes the texts of an approval in the same
// form; this is the last guard, for everything that is printed.
func VisibleLine(s string) string { return visible(s, false) }

// VisibleText is visibleLine for text that may have lines and tabs.
func VisibleText(s string) string { return visible(s, true) }

func visible(s string, lines bool) string {
	if plain(s) {
		return s
	}
	var b strings.Builder
	b.Grow(len(s) + 16)
	for i := 0; i < len(s); {
		r, size := utf8.DecodeRuneInString(s[i:])
		switch {
		case r == utf8.RuneError && size == 1:
			fmt.Fprintf(&b, `\x{%02x}`, s[i])
		case lines && (r == '\n' || r == '\t'):
			b.WriteByte(byte(r))
		case shows(r):
			b.WriteString(s[i : i+size])
		default:
			fmt.Fprintf(&b, `\u{%x}`, r)
		}
		i += size
	}
	return b.String()
}

// plain is the short cut for printable ASCII.
func plain(s string) bool {
	for i := range len(s) {
		if s[i] < ' ' || s[i] > '~' {
			return false
		}
	}
	return true
}

// shows reports whether a terminal shows r as itself, in its place.
func shows(r rune) bool { return !text.Unseen(r) }

// VisibleJSON writes the same characters of a JSON text as \u escapes: the
// value stays the same, and the text can be shown. In JSON they can only be
// inside strings.
func VisibleJSON(value []byte) []byte {
	var out []byte
	for i := 0; i < len(value); {
		r, size := utf8.DecodeRune(value[i:])
		switch {
		case r == '\n', shows(r) && (r != utf8.RuneError || size > 1):
			out = append(out, value[i:i+size]...)
		case r == '\t', r == '\r':
			out = append(out, ' ') // between tokens; inside a string JSON forbids both
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
