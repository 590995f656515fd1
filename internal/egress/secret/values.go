package secret

import (
	"bytes"
	"cmp"
	"slices"

	"palyra/internal/core/encoded"
	"palyra/internal/core/reason"
)

// Value is a secret and its replacement text.
type Value struct {
	Secret []byte
	Shown  string
}

// Values finds given values in texts, in all their encodings, and replaces them. A nil Values has
// none.
//
// It finds the forms listed by encodings, and any mixture of the escapes of URLs, JSON, string
// literals and HTML, up to three levels deep. It finds base64, base32 and hexadecimal, with or
// without line breaks, alone or within a longer text, nested or in escapes. It also finds a
// value in base64 or hexadecimal with separators that are neither letters nor digits, and
// hexadecimal dumps with offsets. It does not find forms that a program creates to hide the
// value: compressed, encrypted, reversed, split, or in a rarer encoding such as ascii85 or
// base58.
type Values struct {
	*matcher
	replacements [][]byte
}

// NewValues returns Values for a list of values of at least 8 bytes. A value of several lines
// is searched line by line, for lines of at least 8 bytes: line ends change in transit. A value
// of more than 4,096 bytes is searched in parts of that length. The error does not contain the
// value.
func NewValues(list ...Value) (*Values, error) {
	for _, v := range list {
		if len(parts(v.Secret)) == 0 {
			return nil, reason.Errorf(reason.ConfigInvalid, "the value has no line of at least %d bytes", minValue)
		}
	}
	return newValues(list), nil
}

func newValues(list []Value) *Values {
	v := &Values{}
	var needles []needle
	for kind, value := range list {
		for _, part := range parts(value.Secret) {
			for _, form := range encodings(part) {
				needles = append(needles, needle{text: form, kind: kind})
			}
		}
		v.replacements = append(v.replacements, []byte(value.Shown))
	}
	v.matcher = newMatcher(needles)
	return v
}

// parts returns the parts of a value to search for. The armour of a PEM key is not secret.
func parts(value []byte) (list [][]byte) {
	for line := range bytes.FieldsFuncSeq(value, func(r rune) bool { return r < ' ' || r == 0x7f }) {
		if bytes.HasPrefix(line, []byte("-----")) {
			continue
		}
		for part := range slices.Chunk(line, maxValue) {
			if len(part) >= minValue {
				list = append(list, part)
			}
		}
	}
	return list
}

// Wipe wipes the values. Texts are not scrubbed afterwards.
func (v *Values) Wipe() {
	if v == nil {
		return
	}
	for _, n := range v.needles {
		clear(n.text)
	}
}

// escapeRounds is the number of levels at which escapes are decoded, and digitRounds the number
// of levels at which base64, base32 and hexadecimal are decoded. Escapes in decoded base64,
// base32 or hexadecimal are decoded once.
const (
	escapeRounds = 3
	digitRounds  = 2
	// shortestDigits is the length of the shortest value in base64, the shortest of those
	// encodings.
	shortestDigits = (minValue*8 + 5) / 6
)

// find returns the matches in a text, sorted by their start, longer ones first. Its running time
// depends only on the text.
func (v *Values) find(text []byte) []match {
	found := v.read(text, escapeRounds, digitRounds)
	if r, ok := encoded.Unquote(text); ok {
		found = placed(found, r, v.read(r.Text, 0, digitRounds))
	}
	// JSON in a URL: its escapes can only be decoded after the URL's.
	if r, ok := encoded.UnescapeURL(text); ok && bytes.IndexByte(r.Text, '\\') >= 0 {
		found = placed(found, r, v.read(r.Text, 1, digitRounds))
	}
	slices.SortFunc(found, func(a, b match) int { return cmp.Or(a.start-b.start, b.end-a.end, a.kind-b.kind) })
	return found
}

// read finds values in a text and in its decoded forms.
func (v *Values) read(text []byte, escapes, digits int) []match {
	found := v.all(text)
	if escapes > 0 {
		if r, ok := encoded.Unescape(text); ok {
			found = placed(found, r, v.read(r.Text, escapes-1, digits))
		}
	}
	if digits == 0 || len(text) < shortestDigits {
		return found
	}
	// These are four loops and not one over a list of functions: called through a list, the
	// iterators take 13 more allocations for each text.
	for r := range encoded.Base64(text, minValue) {
		found = placed(found, r, v.read(r.Text, 1, digits-1))
	}
	for r := range encoded.Base32(text, minValue) {
		found = placed(found, r, v.read(r.Text, 1, digits-1))
	}
	for r := range encoded.Hex(text, minValue) {
		found = placed(found, r, v.read(r.Text, 1, digits-1))
	}
	for r := range encoded.Dump(text, minValue) {
		found = placed(found, r, v.read(r.Text, 1, digits-1))
	}
	if digits == digitRounds {
		for r := range encoded.Joined(text, minValue) {
			found = placed(found, r, v.all(r.Text))
		}
	}
	return found
}

// placed adds the matches of a decoded text at their position in the original, and wipes the
// decoded text.
func placed(found []match, r *encoded.Reading, inside []match) []match {
	for _, m := range inside {
		m.start, m.end = r.Place(m.start, m.end)
		found = append(found, m)
	}
	r.Clear()
	return found
}

// scrub appends b[:until] to out with the values replaced; a value that begins before until is
// processed to its end. It returns out and the number of processed bytes. It wipes the values in b.
func (v *Values) scrub(out, b []byte, until int) ([]byte, int) {
	if v == nil {
		return append(out, b...), len(b)
	}
	done := 0
	for _, m := range v.find(b[:min(len(b), until+longestForm)]) {
		if m.start < done || m.start >= until {
			continue
		}
		out = append(out, b[done:m.start]...)
		out = append(out, v.replacements[m.kind]...)
		clear(b[m.start:m.end])
		done = m.end
	}
	until = max(done, until)
	return append(out, b[done:until]...), until
}
