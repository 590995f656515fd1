package tool

import (
	"cmp"
	"slices"
	"strings"
	"sync"

	"palyra/internal/core/encoded"
	"palyra/internal/core/lazyregexp"
)

// shape is a well-known form of a key. Every match begins with one of the hints.
// A text is searched for the hints first, and the regular expression is tried only
// where one is found: texts can be a mebibyte long.
type shape struct {
	// hints are compared in lower case, and have three characters at least.
	hints []string
	// form is anchored at the hint.
	form *lazyregexp.Regexp
	// words have a letter before the hint, as in task-list or principal_name: after
	// one, it is none.
	words bool
}

// secretShapes are those forms: what matches is a secret wherever it stands, in
// small letters, too, as in Facts.PathFolded. Forms that no word has count in the
// middle of one, where a variable or a prefix stands before a key without a space.
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
	{hints: []string{"pal_"}, form: lazyregexp.New(`^(?i:pal_)[A-Za-z0-9]+_[A-Za-z0-9_-]{20,}`), words: true},                          // what may become one
	{hints: []string{"eyj"}, form: lazyregexp.New(`^[eE][yY][Jj][A-Za-z0-9_-]{8,}\.[eE][yY][Jj][A-Za-z0-9_-]{8,}\.[A-Za-z0-9_-]{8,}`)}, // JSON Web Token
	{hints: []string{"bearer"}, form: lazyregexp.New(`^(?i:bearer)\s+[A-Za-z0-9._~+/-]{16,}=*`), words: true},                          // bearer token
}

// Of base64, what has fewer bytes than the shortest form is not read, and base64 of
// base64 of base64 is not.
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
		// What begins within another is part of it.
		if i == 0 || s.start >= kept {
			out.WriteString(text[kept:s.start])
			out.WriteString(Redaction)
		}
		kept = max(kept, s.end)
	}
	out.WriteString(text[kept:])
	return out.String()
}

// span is a secret of a text.
type span struct{ start, end int }

// secretSpans returns where secrets stand in a text and in the base64 of it, so
// many times over.
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

// find adds what has the form and begins with the hint. lowered is text in lower
// case.
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

// match returns where a secret that begins at a place ends, or -1.
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

// hintIndex is how hints are found: few places of a text begin like one.
type hintIndex struct {
	beginnings encoded.Beginnings
	// by has the hints by their first character, in lower case.
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

// hinted reports whether a hint stands in a text.
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

// begins reports whether a text begins with a word that is in lower case.
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

// hintedWithin reports whether a hint stands in the base64 of a text, so many times
// over.
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

// mayHint reports whether it is worth while to read the base64 of a text: few have
// three characters in it that a hint begins with, or more base64.
func mayHint(text []byte) bool {
	return encoded.MayHold(text, shortestForm, &hintsIndexed().beginnings)
}

// lower lowers an ASCII letter alone.
func lower(b byte) byte {
	if b >= 'A' && b <= 'Z' {
		return b + 'a' - 'A'
	}
	return b
}

// asciiLower lowers ASCII letters only, so that positions stay unchanged.
func asciiLower(text string) string {
	lowered := []byte(text)
	for i, b := range lowered {
		lowered[i] = lower(b)
	}
	return string(lowered)
}
