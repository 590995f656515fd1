package secret

import (
	"bytes"
	"cmp"
	"slices"

	"palyra/internal/core/encoded"
	"palyra/internal/core/reason"
)

// Value is a secret and what is shown in its place.
type Value struct {
	Secret []byte
	Shown  string
}

// Values finds given values in texts, in all their encodings, and puts what is
// shown in their place. A nil one has no values.
//
// Found are the forms that encodings lists; whatever mixture of the escapes of
// URLs, JSON, string literals and HTML says a value, up to three times over;
// whatever base64, base32 and hexadecimal say one, broken into lines or not, alone or in
// the middle of something longer, in one another or in escapes; a value in base64 or
// hexadecimal with separators that are no letters or digits; and hexadecimal dumps with
// offsets. Not found is a form that a program makes to hide the value: compressed,
// encrypted, reversed, cut into pieces, or in a rarer encoding such as ascii85 or base58.
type Values struct {
	*matcher
	shown [][]byte
}

// NewValues takes values of at least 8 bytes. One that has more than a line is
// looked for line by line, as far as a line has 8 bytes: line ends change on
// their way. One of more than 4,096 bytes is looked for in parts of so many. The
// error does not tell the value.
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
		v.shown = append(v.shown, []byte(value.Shown))
	}
	v.matcher = newMatcher(needles)
	return v
}

// parts are what is looked for of a value. The armour of a key in PEM is no
// secret.
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

// Wipe forgets the values. Nothing is scrubbed any more.
func (v *Values) Wipe() {
	if v == nil {
		return
	}
	for _, n := range v.needles {
		clear(n.text)
	}
}

// How often escapes are undone, and how often base64, base32 and hexadecimal are: in
// what one of those said, escapes are undone once.
const (
	escapeRounds = 3
	digitRounds  = 2
	// shortestDigits is the length of the shortest value in base64, which is the shortest of
	// those encodings.
	shortestDigits = (minValue*8 + 5) / 6
)

// find returns the matches in a text, sorted by where they begin, longer ones
// first. How long it takes and what it looks at depends on the text alone.
func (v *Values) find(text []byte) []match {
	found := v.read(text, escapeRounds, digitRounds)
	if r, ok := encoded.Unquote(text); ok {
		found = placed(found, r, v.read(r.Text, 0, digitRounds))
	}
	// JSON in a URL: its escapes may only be undone after those of the URL.
	if r, ok := encoded.UnescapeURL(text); ok && bytes.IndexByte(r.Text, '\\') >= 0 {
		found = placed(found, r, v.read(r.Text, 1, digitRounds))
	}
	slices.SortFunc(found, func(a, b match) int { return cmp.Or(a.start-b.start, b.end-a.end, a.kind-b.kind) })
	return found
}

// read finds values in a text and in what decoders read in it.
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

// placed adds what was found in a reading, where it stands in the text, and wipes
// the reading.
func placed(found []match, r *encoded.Reading, inside []match) []match {
	for _, m := range inside {
		m.start, m.end = r.Place(m.start, m.end)
		found = append(found, m)
	}
	r.Clear()
	return found
}

// scrub appends b without values to out, up to until or the end of a value that
// begins before it, and returns how far it came. It wipes the values in b.
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
		out = append(out, v.shown[m.kind]...)
		clear(b[m.start:m.end])
		done = m.end
	}
	until = max(done, until)
	return append(out, b[done:until]...), until
}
