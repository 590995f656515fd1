package tool

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"palyra/internal/canonical"
	"palyra/internal/lazyregexp"
)

// Redaction is what stands in the place of a secret.
const Redaction = "[redacted]"

// shape is a well-known form of a key. Every match begins with one of the hints.
// A text is searched for the hints first, and the regular expression is tried only
// where one is found: texts can be a mebibyte long.
type shape struct {
	// hints are compared in lower case.
	hints []string
	// form is anchored at the hint.
	form *lazyregexp.Regexp
	// anywhere lets the form begin inside a word.
	anywhere bool
}

// secretShapes are those forms: what matches is a secret wherever it stands, in
// small letters, too, as in Facts.PathFolded.
var secretShapes = []shape{
	{hints: []string{"-----begin "}, anywhere: true, // private key
		form: lazyregexp.New(`^-----(BEGIN [A-Z ]*PRIVATE KEY|begin [a-z ]*private key)-----[\s\S]*?(-----(END [A-Z ]*PRIVATE KEY|end [a-z ]*private key)-----|$)`)},
	{hints: []string{"akia", "asia"}, form: lazyregexp.New(`^((AKIA|ASIA)[A-Z0-9]{16}|(akia|asia)[a-z0-9]{16})\b`)},        // AWS access key
	{hints: []string{"ghp_", "gho_", "ghu_", "ghs_", "ghr_"}, form: lazyregexp.New(`^gh[pousr]_[A-Za-z0-9]{36,}\b`)},       // GitHub token
	{hints: []string{"github_pat_"}, form: lazyregexp.New(`^github_pat_[A-Za-z0-9_]{22,}\b`)},                              // GitHub token
	{hints: []string{"glpat-"}, form: lazyregexp.New(`^glpat-[A-Za-z0-9_-]{20,}`)},                                         // GitLab token
	{hints: []string{"xox"}, form: lazyregexp.New(`^xox[abeoprs]-[A-Za-z0-9-]{10,}`)},                                      // Slack token
	{hints: []string{"sk-"}, form: lazyregexp.New(`^sk-(ant-|proj-)?[A-Za-z0-9_-]{20,}`)},                                  // API key
	{hints: []string{"aiza"}, form: lazyregexp.New(`^(AIza|aiza)[A-Za-z0-9_-]{35}\b`)},                                     // Google API key
	{hints: []string{"pal_"}, form: lazyregexp.New(`^pal_[A-Za-z0-9]+_[A-Za-z0-9_-]{20,}`)},                                // Palyra token
	{hints: []string{"eyj"}, form: lazyregexp.New(`^ey[Jj][A-Za-z0-9_-]{8,}\.ey[Jj][A-Za-z0-9_-]{8,}\.[A-Za-z0-9_-]{8,}`)}, // JSON Web Token
	{hints: []string{"bearer"}, form: lazyregexp.New(`^(?i:bearer)\s+[A-Za-z0-9._~+/-]{16,}=*`)},                           // bearer token
}

// Redact returns the canonical JSON of an input with secrets replaced by
// Redaction, and the JSON Pointers (RFC 6901) of what was replaced, sorted:
// the values at the pointers that the tool declares, and whatever has the form
// of a well-known key, in values and in the names of members. Without any, it
// returns input itself.
func Redact(input json.RawMessage, secretPaths []string) (json.RawMessage, []string, error) {
	if len(input) == 0 || len(secretPaths) == 0 && clean(input) && json.Valid(input) {
		return input, nil, nil
	}
	return redact(input, secretPaths)
}

// clean reports whether no string of a JSON text can hold the form of a key:
// none of the hints stands in it, and no escape that could spell one.
func clean(text []byte) bool {
	if bytes.Contains(text, []byte(`\u`)) {
		return false
	}
	lower := asciiLower(string(text))
	for _, sh := range secretShapes {
		for _, hint := range sh.hints {
			if strings.Contains(lower, hint) {
				return false
			}
		}
	}
	return true
}

// redact is Redact for a text that may hold a secret.
func redact(input json.RawMessage, secretPaths []string) (json.RawMessage, []string, error) {
	dec := json.NewDecoder(bytes.NewReader(input))
	dec.UseNumber()
	var value any
	if err := dec.Decode(&value); err != nil {
		return nil, nil, fmt.Errorf("reading JSON to redact: %w", err)
	}
	r := redactor{declared: secretPaths}
	value = r.walk("", value)
	if len(r.found) == 0 {
		return input, nil, nil
	}
	for i, pointer := range r.found {
		r.found[i] = RedactText(pointer) // it holds the names of members
	}
	slices.Sort(r.found)
	text, err := canonical.Marshal(value)
	return text, slices.Compact(r.found), err
}

// RedactText returns plain text, such as a summary, a diff or a message, with
// whatever has the form of a well-known key replaced by Redaction. Text without
// any comes back as it is. JSON is for Redact: an escape before a key could
// hide it here.
func RedactText(text string) string {
	lower := asciiLower(text)
	for _, sh := range secretShapes {
		for _, hint := range sh.hints {
			if clean := sh.replace(text, lower, hint); clean != text {
				text, lower = clean, asciiLower(clean)
			}
		}
	}
	return text
}

// replace replaces what has the form and begins with the hint. lower is text
// in lower case.
func (sh shape) replace(text, lower, hint string) string {
	var out strings.Builder
	kept, from := 0, 0
	for {
		i := strings.Index(lower[from:], hint)
		if i < 0 {
			break
		}
		at := from + i
		end := sh.match(text, at)
		if end < 0 {
			from = at + 1
			continue
		}
		out.WriteString(text[kept:at])
		out.WriteString(Redaction)
		kept, from = end, end
	}
	if kept == 0 {
		return text
	}
	out.WriteString(text[kept:])
	return out.String()
}

// match returns where a secret that begins at a place ends, or -1.
func (sh shape) match(text string, at int) int {
	if !sh.anywhere && at > 0 && wordByte(text[at-1]) {
		return -1
	}
	loc := sh.form.FindStringIndex(text[at:])
	if loc == nil {
		return -1
	}
	return at + loc[1]
}

// wordByte reports whether a byte belongs to a word, as in \b of the forms.
func wordByte(b byte) bool {
	return b == '_' || b >= '0' && b <= '9' || b >= 'a' && b <= 'z' || b >= 'A' && b <= 'Z'
}

// asciiLower lowers ASCII letters alone, so that places stay what they are.
func asciiLower(text string) string {
	lower := []byte(text)
	for i, b := range lower {
		if b >= 'A' && b <= 'Z' {
			lower[i] = b + 'a' - 'A'
		}
	}
	return string(lower)
}

type redactor struct {
	// declared are the JSON Pointers (RFC 6901) that the tool names.
	declared []string
	found    []string
}

func (r *redactor) walk(pointer string, value any) any {
	if slices.Contains(r.declared, pointer) {
		r.found = append(r.found, pointer)
		return Redaction
	}
	switch v := value.(type) {
	case map[string]any:
		return r.object(pointer, v)
	case []any:
		for i, member := range v {
			v[i] = r.walk(pointer+"/"+strconv.Itoa(i), member)
		}
	case string:
		return r.text(pointer, v)
	}
	return value
}

// object redacts the members and their names: a name is text like any other.
func (r *redactor) object(pointer string, members map[string]any) map[string]any {
	out := make(map[string]any, len(members))
	for _, name := range slices.Sorted(maps.Keys(members)) {
		at := pointer + "/" + escapePointer(name)
		shown := r.text(at, name)
		for n := 2; shown != name && taken(shown, out, members); n++ {
			shown = RedactText(name) + " " + strconv.Itoa(n)
		}
		out[shown] = r.walk(at, members[name])
	}
	return out
}

// taken reports whether a member has, or will have, that name.
func taken(name string, objects ...map[string]any) bool {
	return slices.ContainsFunc(objects, func(o map[string]any) bool {
		_, there := o[name]
		return there
	})
}

func (r *redactor) text(pointer, text string) string {
	clean := RedactText(text)
	if clean != text {
		r.found = append(r.found, pointer)
	}
	return clean
}
