package builtin

import (
	"strconv"
	"strings"
	"unicode"

	"palyra/internal/lazyregexp"
)

// shownCommand is how many characters of a command line a summary shows.
const shownCommand = 120

// plainWord is an argument that a shell takes as it is written.
var plainWord = lazyregexp.New(`^[A-Za-z0-9_@%+=:,./-]+$`)

// commandLine writes arguments as somebody would type them, so that two calls
// that differ read differently: git commit -m 'two words'. A long line loses its
// middle, since its beginning says what runs and its end often what it is done
// to: rm -rf a b c ... y z. Arguments that no terminal shows as they are stand in
// double quotes with escapes.
func commandLine(argv []string, most int) string {
	words := make([]string, len(argv))
	for i, word := range argv {
		words[i] = quotedWord(word)
	}
	line := []rune(strings.Join(words, " "))
	if len(line) <= most {
		return string(line)
	}
	const gap = " ... "
	tail := (most - len(gap)) / 3
	return string(line[:most-len(gap)-tail]) + gap + string(line[len(line)-tail:])
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
