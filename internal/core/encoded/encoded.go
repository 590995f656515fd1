// Package encoded reads what a text says in another encoding: in escapes, in
// base64, in hexadecimal. It is for those who look for something in a text that
// may hold it in such a form, and have to know where it stands. It never fails:
// what is in no encoding gives no reading.
package encoded

import "math"

// Reading is a text as a decoder reads it.
type Reading struct {
	Text []byte
	// read reads it again, to know the places: few texts hold what is looked for.
	read     func(*sink)
	from, to []int32
}

// sink takes what is read, and where the source of each byte begins and ends.
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

// stretch returns the next stretch of at least so many bytes of a set, from a
// place on; start is len(text) when there is none. It looks at one byte of so
// many where there is none.
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
