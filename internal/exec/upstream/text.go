package upstream

import (
	"strings"
	"unicode/utf8"

	"palyra/internal/core/text"
)

// clean returns text of a server as people and models may see it. Characters that a reader
// cannot see become U+FFFD each, since they hide from a person what a model reads, and those
// that look like a space become one.
func clean(content string, most int) string {
	content = strings.Map(func(r rune) rune {
		switch class := text.ClassOf(r); {
		case r == '\n' || r == '\t':
			return r
		case r == utf8.RuneError || class == text.Hidden:
			return '\ufffd'
		case class == text.Blank:
			return ' '
		}
		return r
	}, content)
	return text.Ellipsis(content, most)
}
