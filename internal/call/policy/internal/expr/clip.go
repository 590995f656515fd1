package expr

import (
	"slices"
	"unicode"

	"palyra/internal/core/text"
)

// Clip keeps a text to one line and maxCondition characters.
func Clip(text string) string {
	runes := []rune(text)
	if len(runes) > maxCondition {
		runes = append(runes[:maxCondition-3], []rune("...")...)
	}
	for i, r := range runes {
		if unicode.IsControl(r) {
			runes[i] = ' ' // a string may span lines
		}
	}
	return string(slices.Clip(runes))
}

// ClipText bounds a text in bytes.
func ClipText(s string) string { return text.Ellipsis(s, 400) }
