package tool

import (
	"cmp"
	"slices"
	"strings"
	"sync"

	"palyra/internal/core/encoded"
	"palyra/internal/core/lazyregexp"
)

// shape is the form of a well-known kind of key. Every match begins with one of the hints. A
// search looks for the hints first, and tries the regular expression only where it finds one:
// texts can be a mebibyte long.
type shape struct {
	// hints are compared in lower case, and have at least three characters.
	hints []string
	// form is anchored at the hint.
	form *lazyregexp.Regexp
	// words is set if words such as task-list or principal_name contain the hint. A hint after a
	// letter then does not count.
	words bool
}

// secretShapes are the known forms. A match is a secret wherever it occurs, also in lower case
// as in Facts.PathFolded. Without words, a match also counts directly after letters, such as a
// variable name or a prefix.
var secretShapes = []shape{
	{hints: []string{"-----begin "}, // private key
		form: lazyregexp.New(`^-----(BEGIN [A-Z ]*PRIVATE KEY|begin [a-z ]*private key)-----[\s\S]*?(-----(END [A-Z ]*PRIVATE KEY|end [a-z ]*private key)-----|$)`)},
	{hints: []string{"akia", "asia"}, form: lazyregexp.New(`^(AKIA|ASIA)[A-Z0-9]{16,}`)},                                               // AWS access key
	{hints: []string{"akia", "asia"}, form: lazyregexp.New(`^(akia|asia)[a-z0-9]{16}\b`), words: true},                                 // the same, folded
	{hints: []string{"ghp_", "gho_", "ghu_", "ghs_", "ghr_"}, form: lazyregexp.New(`^(?i:gh[pousr]_)[A-Za-z0-9]{36,}`)},                // GitHub token
	{hints: []string{"github_pat_"}, form: lazyregexp.New(`^(?i:github_pat_)[A-Za-z0-9_]{22,}`)},                                       // GitHub token
	{hints: []string{"glpat-"}, form: lazyregexp.New(`^(?i:glpat-)[A-Za-z0-9_-]{20,}`)},                                                // GitLab token
	{hints: []string{"xox"}, form: lazyregexp.New(`^(?i:xox[abeoprs]-)[A-Za-z0-9-]{10,}`)},                                             // Slack token
	{hints: []string{"sk-"}, form: lazyregexp.New(`^(?i:sk-(ant|proj|svcacct|or-v1)-)[A-Za-z0-9_-]{20,}`)},                             // API key
	{hints: []string{"sk-"}, form: lazyregexp.New(`^(?i:sk-)[A-Za-z0-9_-]{20,}`), words: true},                                         // API key
	{hints: []string{"aiza"}, form: lazyregexp.New(`^AIza[A-Za-z0-9_-]{35,}`)},                                                         // Google API key
	{hints: []string{"aiza"}, form: lazyregexp.New(`^aiza[a-z0-9_-]{35,}`), words: true},                                               // the same, folded
	{hints: []string{"pal_"}, form: lazyregexp.New(`^(?i:pal_[0-9a-z]{26}_[0-9a-f]{64})`)},                                             // Palyra token
	{hints: []string{"pal_"}, form: lazyregexp.New(`^(?i:pal_)[A-Za-z0-9]+_[A-Za-z0-9_-]{20,}`), words: true},                          // possible token
	{hints: []string{"eyj"}, form: lazyregexp.New(`^[eE][yY][Jj][A-Za-z0-9_-]{8,}\.[eE][yY][Jj][A-Za-z0-9_-]{8,}\.[A-Za-z0-9_-]{8,}`)}, // JSON Web Token
	{hints: []string{"bearer"}, form: lazyregexp.New(`^(?i:bearer)\s+[A-Za-z0-9._~+/-]{16,}=*`), words: true},                          // bearer token
}

// shortestForm is the minimum number of bytes of decoded base64, the length of the shortest
// form. encodedRounds is the maximum depth of nested base64.
const (
	shortestForm  = 20
	encodedRounds = 2
)

// RedactText returns plain text, such as a summary, a diff or a message, with text in the form of a
// well-known key replaced by Redaction, also inside base64. Text without any is returned unchanged.
// Use Redact for JSON: an escape before a key could hide it here.
func RedactText(text string) string {
	found := secretSpans(text, encodedRounds)
	if len(found) == 0 {
		return text
	}
	slices.SortFunc(found, func(a, b span) int { return cmp.Or(a.start-b.start, a.end-b.end) })
	var out strings.Builder
	kept := 0
	for i, s := range found {
		// A secret that begins within another one is part of it.
		if i == 0 || s.start >= kept {
			out.WriteString(text[kept:s.start])
			out.WriteString(Redaction)
		}
		kept = max(kept, s.end)
	}
	out.WriteString(text[kept:])
	return out.String()
}

// span is the position of a secret in a text.
type span struct{ start, end int }

// secretSpans returns the positions of secrets in a text, and in base64 nested up to rounds
// levels.
func secretSpans(text string, rounds int) []span {
	var found []span
	if hinted(text) {
		lowered := asciiLower(text)
		for _, sh := range secretShapes {
			for _, hint := range sh.hints {
				found = sh.find(found, text, lowered, hint)
			}
		}
	}
	if rounds == 0 || len(text) < shortestForm {
		return found
	}
	source := []byte(text)
	if !mayHint(source) {
		return found
	}
	for r := range encoded.Base64(source, shortestForm) {
		if !hinted(r.Text) && !hintedWithin(r.Text, rounds-1) {
			continue
		}
		for _, s := range secretSpans(string(r.Text), rounds-1) {
			s.start, s.end = r.Place(s.start, s.end)
			found = append(found, s)
		}
	}
	return found
}

// find adds the matches of the form that begin with the hint. lowered is text in lower case.
func (sh shape) find(found []span, text, lowered, hint string) []span {
	for from := 0; ; {
		i := strings.Index(lowered[from:], hint)
		if i < 0 {
			return found
		}
		at := from + i
		if end := sh.match(text, at); end > 0 {
			found = append(found, span{at, end})
			from = end
			continue
		}
		from = at + 1
	}
}

// match returns the end of a secret that begins at a position, or -1.
func (sh shape) match(text string, at int) int {
	if sh.words && at > 0 && letter(text[at-1]) {
		return -1
	}
	loc := sh.form.FindStringIndex(text[at:])
	if loc == nil {
		return -1
	}
	return at + loc[1]
}

func letter(b byte) bool { return 'a' <= b|0x20 && b|0x20 <= 'z' }

// hintIndex is an index of the hints, for a fast search.
type hintIndex struct {
	beginnings encoded.Beginnings
	// by maps the first character, in lower case, to hints.
	by [256][]string
}

var hintsIndexed = sync.OnceValue(func() *hintIndex {
	index := &hintIndex{}
	for _, sh := range secretShapes {
		for _, hint := range sh.hints {
			index.beginnings.Add(hint)
			if list := &index.by[hint[0]]; !slices.Contains(*list, hint) {
				*list = append(*list, hint)
			}
		}
	}
	return index
})

// hinted reports whether a text contains a hint.
func hinted[text string | []byte](t text) bool {
	index := hintsIndexed()
	for at := encoded.Next(&index.beginnings, t, 0); at >= 0; at = encoded.Next(&index.beginnings, t, at+1) {
		for _, hint := range index.by[lower(t[at])] {
			if begins(t[at:], hint) {
				return true
			}
		}
	}
	return false
}

// begins reports whether a text begins with a word, ignoring case. word is in lower case.
func begins[text string | []byte](t text, word string) bool {
	if len(t) < len(word) {
		return false
	}
	for i := range len(word) {
		if lower(t[i]) != word[i] {
			return false
		}
	}
	return true
}

// hintedWithin reports whether base64 in a text, nested up to rounds levels, contains a hint.
func hintedWithin(text []byte, rounds int) bool {
	if rounds == 0 || !mayHint(text) {
		return false
	}
	for r := range encoded.Base64(text, shortestForm) {
		if hinted(r.Text) || hintedWithin(r.Text, rounds-1) {
			return true
		}
	}
	return false
}

// mayHint reports whether decoding the base64 of a text is necessary: it is false for most
// texts, whose base64 contains neither the first three characters of a hint nor more base64.
func mayHint(text []byte) bool {
	return encoded.MayHold(text, shortestForm, &hintsIndexed().beginnings)
}

// lower converts an ASCII letter to lower case.
func lower(b byte) byte {
	if b >= 'A' && b <= 'Z' {
		return b + 'a' - 'A'
	}
	return b
}

// asciiLower converts only ASCII letters to lower case, so that positions stay unchanged.
func asciiLower(text string) string {
	lowered := []byte(text)
	for i, b := range lowered {
		lowered[i] = lower(b)
	}
	return string(lowered)
}
