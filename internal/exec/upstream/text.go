package upstream

import (
	"strings"
	"unicode"
	"unicode/utf8"

	"palyra/internal/core/text"
)

// clean is text of a server as people and models may see it: control characters and
// what is invisible or turns the direction of writing are replaced by one sign each,
// since they hide from a person what a model reads.
func clean(content string, most int) string {
	content = strings.Map(func(r rune) rune {
		switch {
		case r == '\n' || r == '\t':
			return r
		case r == utf8.RuneError, unicode.IsControl(r), unicode.Is(unicode.Cf, r), unicode.Is(unicode.Co, r),
			r == '\u2028' || r == '\u2029', r >= 0xfe00 && r <= 0xfe0f, r >= 0xe0100 && r <= 0xe01ef, r == 0x115f || r == 0x1160 || r == 0x3164 || r == 0xffa0:
			return '\ufffd'
		}
		return r
	}, content)
	return text.Ellipsis(content, most)
}
