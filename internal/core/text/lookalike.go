package text

import (
	_ "embed"
	"strconv"
	"strings"
	"sync"
	"unicode"
	"unicode/utf8"

	"golang.org/x/text/unicode/norm"
)

//go:embed confusables.txt
var confusables string

// prototypes maps characters to the text that they are confusable with (UTS 39, section 4).
var prototypes = sync.OnceValue(func() map[rune]string {
	table := make(map[rune]string, 6400)
	for line := range strings.Lines(confusables) {
		fields := strings.Fields(line)
		if len(fields) < 2 || fields[0] == "#" {
			continue
		}
		var prototype strings.Builder
		for _, f := range fields[1:] {
			prototype.WriteRune(character(f))
		}
		table[character(fields[0])] = prototype.String()
	}
	return table
})

func character(hex string) rune {
	n, err := strconv.ParseUint(hex, 16, 21)
	if err != nil {
		panic("confusables.txt: " + err.Error())
	}
	return rune(n)
}

// Skeleton returns the skeleton of a name as UTS 39 defines it: two names with equal skeletons look
// alike. It is not a text for display.
func Skeleton(name string) string {
	var b strings.Builder
	for _, r := range norm.NFD.String(name) {
		if prototype, ok := prototypes()[r]; ok {
			b.WriteString(prototype)
		} else {
			b.WriteRune(r)
		}
	}
	return norm.NFD.String(b.String())
}

// Lookalikes returns the byte offsets of the characters of s that look like ASCII letters or
// digits but belong to another script, such as a Cyrillic first letter of "аgent". It considers
// only words that also have ASCII letters. It returns nil for most texts.
func Lookalikes(s string) map[int]bool {
	if isASCII(s) {
		return nil
	}
	var found map[int]bool
	for start := 0; start < len(s); {
		end := start + wordLength(s[start:])
		if word := s[start:end]; !isASCII(word) && strings.ContainsFunc(word, asciiLetter) {
			for i, r := range word {
				if imitatesASCII(r) {
					if found == nil {
						found = make(map[int]bool)
					}
					found[start+i] = true
				}
			}
		}
		_, size := utf8.DecodeRuneInString(s[end:])
		start = end + size
	}
	return found
}

// wordLength returns the length in bytes of the letters, digits and marks at the start of s.
func wordLength(s string) int {
	if end := strings.IndexFunc(s, func(r rune) bool { return !unicode.In(r, unicode.L, unicode.N, unicode.M) }); end >= 0 {
		return end
	}
	return len(s)
}

// The supplementary multilingual plane has historic scripts and mathematical letters, which no
// ordinary word mixes with ASCII letters.
const (
	firstSupplementary = 0x10000
	lastSupplementary  = 0x1FFFF
)

// imitatesASCII reports whether a character that is not Latin has ASCII letters or digits as
// its prototype, or belongs to the supplementary multilingual plane. Latin letters, such as the
// Turkish dotless i, are normal in words with ASCII letters.
func imitatesASCII(r rune) bool {
	if r < utf8.RuneSelf || !unicode.In(r, unicode.L, unicode.N) || unicode.Is(unicode.Latin, r) {
		return false
	}
	if r >= firstSupplementary {
		return r <= lastSupplementary
	}
	prototype, ok := prototypes()[r]
	return ok && strings.IndexFunc(prototype, func(c rune) bool { return !asciiLetter(c) && (c < '0' || c > '9') }) < 0
}

func asciiLetter(r rune) bool { return r|0x20 >= 'a' && r|0x20 <= 'z' && r < utf8.RuneSelf }
