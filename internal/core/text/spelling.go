package text

import (
	"strings"
	"unicode"
	"unicode/utf8"

	"golang.org/x/text/cases"
	"golang.org/x/text/unicode/norm"
)

// FoldCase returns one form for all spellings of a path that a file system may treat as the
// same file if it folds case or normalizes names: "README" and "readme" both become "readme".
// It drops ignorable characters, because Linux (chattr +F) and HFS+ open the same file without
// them. It then applies Unicode's full case folding, and normalizes to NFC. Folding twice
// changes nothing. Bytes that are not UTF-8 become U+FFFD. Other forms that Windows accepts
// (short names, streams, trailing dots) are not folded: rules must name them.
func FoldCase(path string) string {
	if isASCII(path) {
		return strings.ToLower(path)
	}
	path = strings.Map(func(r rune) rune {
		if Ignorable(r) {
			return -1
		}
		return r
	}, path)
	// Decompose first: case folding does not support all letters with accents.
	path = cases.Fold().String(norm.NFD.String(path))
	// Package cases swaps the two cases of Cherokee; they fold to capitals.
	path = strings.Map(func(r rune) rune {
		if unicode.Is(unicode.Cherokee, r) {
			return unicode.ToUpper(r)
		}
		return r
	}, path)
	return norm.NFC.String(path)
}

func isASCII(text string) bool {
	for i := range len(text) {
		if text[i] >= utf8.RuneSelf {
			return false
		}
	}
	return true
}

// Ignorable reports whether a file system that folds case may ignore the character when it
// compares names.
func Ignorable(r rune) bool {
	return unicode.In(r, unicode.Cf, unicode.Variation_Selector, unicode.Other_Default_Ignorable_Code_Point)
}
