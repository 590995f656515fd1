// Package text has what is done to short texts in messages, prompts and records: it clips them
// between two characters, quotes them for a shell, shows the characters that a reader cannot
// see, folds the case of paths, finds the name that was most likely meant, and puts nouns into
// the plural.
package text

import (
	"strings"
	"unicode/utf8"
)

// Clip returns the beginning of text, at most so many bytes. Bytes that are no
// UTF-8 count as characters of one byte. What it returns keeps none of the rest
// in memory.
func Clip(text string, most int) string {
	if len(text) <= most {
		return text
	}
	for n := most; n >= 0 && n > most-utf8.UTFMax; n-- {
		if utf8.RuneStart(text[n]) {
			return strings.Clone(text[:n])
		}
	}
	return strings.Clone(text[:most])
}

// Ellipsis is To, with three dots behind a text that was cut.
func Ellipsis(text string, most int) string {
	if len(text) <= most {
		return text
	}
	return Clip(text, most) + "..."
}
