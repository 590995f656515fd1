// Package encoded decodes text within a text: escapes, base64, hexadecimal. It serves searches for
// a text that may occur in such a form, and maps matches to their position. It never fails: text
// without an encoding yields no reading.
package encoded

import "math"

// Reading is a text as a decoder reads it.
type Reading struct {
	Text []byte
	// read decodes again to compute the positions, because few texts contain a match.
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

// newReading reads into a buffer.
func newReading(buffer []byte, read func(*sink)) *Reading {
	s := sink{text: buffer[:0]}
	read(&s)
	return &Reading{Text: s.text, read: read}
}

// Place returns where the source of Text[start:end] begins and ends; start is
// below end, and the source is as it was.
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

// longest is as much of a text as is read: places are kept in 32 bits.
const longest = math.MaxInt32

// set has a bit for each byte.
type set [256]bool

func setOf(bytes string) (s set) {
	for i := range len(bytes) {
		s[bytes[i]] = true
	}
	return s
}

// stretch returns the next stretch of at least least bytes of a set, from at on; start is len(text)
// without one. It inspects only every least-th byte while no stretch is found.
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
