package text

import (
	"strconv"
	"strings"
	"unicode"

	"palyra/internal/core/lazyregexp"
)

// plainWord is an argument that a shell takes as it is written.
var plainWord = lazyregexp.New(`^[A-Za-z0-9_@%+=:,./-]+$`)

// ShellQuote writes words with a space between them: git commit -m 'two words'. Two
// lists that differ give two lines that differ. Words that no terminal shows as
// they are stand in double quotes with escapes.
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
