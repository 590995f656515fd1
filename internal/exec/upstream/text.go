package upstream

import (
	"fmt"
	"strings"
	"unicode/utf8"

	"palyra/internal/core/text"
)

// clean returns a server's text for display to people and models. Invisible characters become
// U+FFFD, because they could hide text from a person that a model reads. Characters that look like
// a space become a space, and letters that look like ASCII are written out (text.Lookalikes).
func clean(content string, most int) string {
	lookalikes := text.Lookalikes(content)
	var b strings.Builder
	for i, r := range content {
		switch class := text.ClassOf(r); {
		case r == '\n' || r == '\t':
			b.WriteRune(r)
		case r == utf8.RuneError || class == text.Hidden:
			b.WriteRune(utf8.RuneError)
		case class == text.Blank:
			b.WriteByte(' ')
		case lookalikes[i]:
			fmt.Fprintf(&b, `\u{%x}`, r)
		default:
			b.WriteRune(r)
		}
	}
	return text.Ellipsis(b.String(), most)
}
