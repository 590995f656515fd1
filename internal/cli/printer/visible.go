package printer

import (
	"fmt"
	"strings"
	"unicode"
	"unicode/utf8"
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

// shows reports whether a terminal shows r as itself, in its place. IsPrint
// refuses controls, format characters (bidi, zero-width, tags), separators
// other than the space, private and unassigned code points; what it lets pass
// but nobody sees is in invisible.
func shows(r rune) bool { return unicode.IsPrint(r) && !unicode.Is(invisible, r) }

// invisible are code points of the categories letter, mark and symbol that
// have no ink: fillers, the combining grapheme joiner, variation selectors,
// Mongolian and Khmer ones, and the blank Braille pattern.
var invisible = &unicode.RangeTable{
	R16: []unicode.Range16{
		{Lo: 0x034F, Hi: 0x034F, Stride: 1},
		{Lo: 0x115F, Hi: 0x1160, Stride: 1},
		{Lo: 0x17B4, Hi: 0x17B5, Stride: 1},
		{Lo: 0x180B, Hi: 0x180F, Stride: 1},
		{Lo: 0x2800, Hi: 0x2800, Stride: 1},
		{Lo: 0x3164, Hi: 0x3164, Stride: 1},
		{Lo: 0xFE00, Hi: 0xFE0F, Stride: 1},
		{Lo: 0xFFA0, Hi: 0xFFA0, Stride: 1},
	},
	R32: []unicode.Range32{
		{Lo: 0xE0100, Hi: 0xE01EF, Stride: 1},
	},
}

// VisibleJSON writes the same characters of a JSON text as \u escapes: the
// value stays the same, and the text can be shown. In JSON they can only be
// inside strings.
func VisibleJSON(text []byte) []byte {
	var out []byte
	for i := 0; i < len(text); {
		r, size := utf8.DecodeRune(text[i:])
		switch {
		case r == '\n', shows(r) && (r != utf8.RuneError || size > 1):
			out = append(out, text[i:i+size]...)
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
