// Package text formats short texts in messages, prompts and records. It clips them between two
// characters, quotes them for a shell, makes invisible characters visible, folds the case of
// paths, finds the most similar name, and forms plurals.
package text

import (
	"strings"
	"unicode/utf8"
)

// Clip returns the beginning of text, at most most bytes. Bytes that are not UTF-8 count as
// characters of one byte. The result does not keep the remaining text in memory.
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

// Ellipsis is Clip, with three dots appended to a text that was cut.
func Ellipsis(text string, most int) string {
	if len(text) <= most {
		return text
	}
	return Clip(text, most) + "..."
}
