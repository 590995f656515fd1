// Package encoded decodes text within a text: escapes, base64, hexadecimal. Searches use it to
// find a text that may occur in such a form, and to map matches to their positions. It never
// fails: text without an encoding yields no reading.
package encoded

import "math"

// Reading is a decoded text.
type Reading struct {
	Text []byte
	// read decodes again to compute the positions; they are rarely needed, as few texts contain a
	// match.
	read     func(*sink)
	from, to []int32
}

// sink collects decoded bytes, with the start and end of the source of each byte.
type sink struct {
	text     []byte
	places   bool
	from, to []int32
}

func (s *sink) add(b byte, from, to int) {
	s.text = append(s.text, b)
	if s.places {
		s.from = append(s.from, int32(from))
		s.to = append(s.to, int32(to))
	}
}

// newReading decodes into a buffer.
func newReading(buffer []byte, read func(*sink)) *Reading {
	s := sink{text: buffer[:0]}
	read(&s)
	return &Reading{Text: s.text, read: read}
}

// Place returns the start and end of the source of Text[start:end]. start MUST be less than
// end, and the source unchanged.
func (r *Reading) Place(start, end int) (from, to int) {
	if r.from == nil {
		s := sink{text: make([]byte, 0, len(r.Text)), places: true}
		r.read(&s)
		clear(s.text)
		r.from, r.to = s.from, s.to
	}
	return int(r.from[start]), int(r.to[end-1])
}

// Clear wipes the text.
func (r *Reading) Clear() { clear(r.Text) }

// longest is the maximum length of a decoded text: places are stored in 32 bits.
const longest = math.MaxInt32

// set holds a flag for each byte.
type set [256]bool

func setOf(bytes string) (s set) {
	for i := range len(bytes) {
		s[bytes[i]] = true
	}
	return s
}

// stretch returns the next stretch of at least least bytes of the set, from at on. Without one,
// start is len(text). It inspects only every least-th byte until it finds a stretch.
func (s *set) stretch(text []byte, at, least int) (start, end int) {
	for last := at + least - 1; last < len(text); last = at + least - 1 {
		for start = last; start >= at && s[text[start]]; {
			start--
		}
		if start < at {
			end = last + 1
			for end < len(text) && s[text[end]] {
				end++
			}
			return at, end
		}
		at = start + 1
	}
	return len(text), len(text)
}
