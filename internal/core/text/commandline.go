package text

import (
	"strconv"
	"strings"
	"unicode"

	"palyra/internal/core/lazyregexp"
)

// plainWord matches an argument that needs no quotes in a shell.
var plainWord = lazyregexp.New(`^[A-Za-z0-9_@%+=:,./-]+$`)

// ShellQuote joins words with spaces, each quoted for a shell: git commit -m 'two words'.
// Different lists give different lines. Words with characters that are not printable are in
// double quotes with Go escapes.
func ShellQuote(words []string) string {
	quoted := make([]string, len(words))
	for i, word := range words {
		quoted[i] = quotedWord(word)
	}
	return strings.Join(quoted, " ")
}

func quotedWord(word string) string {
	switch {
	case plainWord.MatchString(word):
		return word
	case strings.ContainsFunc(word, func(r rune) bool { return !unicode.IsPrint(r) }):
		return strconv.Quote(word)
	}
	return "'" + strings.ReplaceAll(word, "'", `'\''`) + "'"
}
