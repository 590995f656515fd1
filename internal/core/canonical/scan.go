package canonical

import (
	"bytes"
	"encoding/binary"
	"unicode/utf8"
)

// plain reports whether text is one JSON value in RFC 8785 form, as far as a single pass
// without a copy can determine: member names in plain ASCII, integers below 10^15. If it
// returns false, the text may still be in that form. JSON accepts every plain text: no nesting
// beyond MaxDepth, no NUL.
func plain(text []byte) bool {
	s := scanner{text}
	return s.value(0) && len(s.in) == 0
}

// Members calls each with the name, without quotes, and the value of each member of an object
// in RFC 8785 form. It returns false for any other text, and for an object that plain does not
// recognize (see Valid). each may then already have been called for some members.
func Members(text []byte, each func(name, value []byte)) bool {
	s := scanner{text}
	return s.object(0, each) && len(s.in) == 0
}

// scanner reads a plain text. in is the rest of it.
type scanner struct{ in []byte }

func (s *scanner) value(depth int) bool {
	if len(s.in) == 0 {
		return false
	}
	switch s.in[0] {
	case '{':
		return depth < MaxDepth && s.object(depth, nil)
	case '[':
		return depth < MaxDepth && s.array(depth)
	case '"':
		return s.text()
	case 't':
		return s.word("true")
	case 'f':
		return s.word("false")
	case 'n':
		return s.word("null")
	}
	n := integerLength(s.in)
	s.in = s.in[n:]
	return n > 0
}

// word consumes w if the text continues with it.
func (s *scanner) word(w string) bool {
	if len(s.in) < len(w) || string(s.in[:len(w)]) != w {
		return false
	}
	s.in = s.in[len(w):]
	return true
}

func (s *scanner) array(depth int) bool {
	s.in = s.in[1:]
	if s.word("]") {
		return true
	}
	for s.value(depth + 1) {
		if s.word("]") {
			return true
		}
		if !s.word(",") {
			return false
		}
	}
	return false
}

// object reads an object whose names are in ascending order. It calls each, unless nil, with
// each name and value.
func (s *scanner) object(depth int, each func(name, value []byte)) bool {
	if !s.word("{") {
		return false
	}
	if s.word("}") {
		return true
	}
	var before []byte
	for first := true; ; first = false {
		n := nameLength(s.in)
		if n == 0 {
			return false
		}
		name := s.in[1 : n-1]
		if !first && bytes.Compare(before, name) >= 0 {
			return false
		}
		before, s.in = name, s.in[n:]
		if !s.word(":") {
			return false
		}
		value := s.in
		if !s.value(depth + 1) {
			return false
		}
		if each != nil {
			each(name, value[:len(value)-len(s.in)])
		}
		if s.word("}") {
			return true
		}
		if !s.word(",") {
			return false
		}
	}
}

// text reads a string whose escapes follow RFC 8785.
func (s *scanner) text() bool {
	in := s.in[1:]
	for {
		n, ok := segment(in)
		if !ok {
			return false
		}
		if in[n] == '"' {
			s.in = in[n+1:]
			return true
		}
		in = in[n:]
		if n = escapeLength(in); n == 0 {
			return false
		}
		in = in[n:]
	}
}

// escapeLength returns the length of the escape at the start of in, or 0 if RFC 8785 may not
// write it so. Escapes of control characters without a letter are left to the library.
func escapeLength(in []byte) int {
	if len(in) < 2 {
		return 0
	}
	switch in[1] {
	case '"', '\\', 'b', 'f', 'n', 'r', 't':
		return 2
	}
	return 0
}

// nameLength returns the length of the name at the start of in, including quotes, or 0 if it is
// not plain ASCII. Bytes and UTF-16 code units of such names have the same order.
func nameLength(in []byte) int {
	if len(in) == 0 || in[0] != '"' {
		return 0
	}
	n := 1 + straight(in[1:])
	if n == len(in) || in[n] != '"' {
		return 0
	}
	return n + 1
}

// integerLength returns the length of the integer at the start of in. It returns 0 without an
// integer, for "-0", and for more than 15 digits: a double holds up to 15 digits exactly and
// prints them unchanged. For "1.5" and "1e2" it counts the 1; no value ends there.
func integerLength(in []byte) int {
	const most = 15
	n := 0
	if len(in) > 0 && in[0] == '-' {
		n = 1
	}
	digits := n
	for n < len(in) && in[n] >= '0' && in[n] <= '9' {
		n++
	}
	switch {
	case n == digits || n-digits > most:
		return 0
	case in[digits] == '0' && n > 1: // the library handles "-0" and rejects "01"
		return 0
	}
	return n
}

// segment returns the length of the string part before the next quote or backslash. ok is false
// without either, and for a part with control characters or invalid UTF-8.
func segment(in []byte) (n int, ok bool) {
	ascii := true
	for {
		n += straight(in[n:])
		switch {
		case n == len(in) || in[n] < ' ':
			return n, false
		case in[n] == '"' || in[n] == '\\':
			return n, ascii || utf8.Valid(in[:n])
		}
		ascii = false
		for n < len(in) && in[n] >= utf8.RuneSelf {
			n++
		}
	}
}

// straight returns the number of bytes at the start of text that are ASCII and need no escape
// in a JSON string.
func straight(text []byte) int {
	n := 0
	for ; n+8 <= len(text); n += 8 {
		if !straightWord(binary.LittleEndian.Uint64(text[n:])) {
			break
		}
	}
	for n < len(text) && straightByte(text[n]) {
		n++
	}
	return n
}

func straightByte(b byte) bool { return straightBytes[b] }

var straightBytes = func() (table [256]bool) {
	for b := byte(' '); b < utf8.RuneSelf; b++ {
		table[b] = b != '"' && b != '\\'
	}
	return table
}()

// straightWord reports whether straightByte is true for all eight bytes. Each difference sets
// the high bit of a byte that is a control character, a quote or a backslash. A borrow can only
// affect the bytes above such a byte, so that it does not change the result.
func straightWord(word uint64) bool {
	const each, high = 0x0101010101010101, 0x8080808080808080
	control := word - each*' '
	quote := (word ^ each*'"') - each
	backslash := (word ^ each*'\\') - each
	return (word|control|quote|backslash)&high == 0
}
