package canonical

import (
	"bytes"
	"slices"
	"unicode/utf8"
)

// rewrite returns the RFC 8785 form of text, which must be one JSON value. It is a
// short cut for what the gateway's own records are made of: compact text, integers
// below 10^15, member names in plain ASCII. ok is false for everything else, valid
// JSON or not: the caller then uses the library, which takes several times as long.
func rewrite(text []byte) (out []byte, ok bool) {
	w := rewriter{in: text, out: make([]byte, 0, len(text))}
	if !w.value(0) || len(w.in) > 0 {
		return nil, false
	}
	return w.out, true
}

// rewriter moves from in to out.
type rewriter struct {
	in, out []byte
	// scratch holds the members of an object while they are put in order.
	scratch []byte
}

// member is where a member of an object is in out: its name, in quotes, is
// out[start:colon], and its value ends at end. The type is small, since every open
// object has several of them on the stack.
type member struct{ start, colon, end int }

// value moves one value; false means that it is not one of the plain ones.
func (w *rewriter) value(depth int) bool {
	if len(w.in) == 0 || depth > MaxDepth {
		return false
	}
	switch w.in[0] {
	case '{':
		return w.object(depth)
	case '[':
		return w.array(depth)
	case '"':
		return w.text()
	case 't':
		return w.literal("true")
	case 'f':
		return w.literal("false")
	case 'n':
		return w.literal("null")
	}
	return w.integer()
}

// move moves the next n bytes.
func (w *rewriter) move(n int) {
	w.out = append(w.out, w.in[:n]...)
	w.in = w.in[n:]
}

// mark moves one byte if it comes next.
func (w *rewriter) mark(c byte) bool {
	if len(w.in) == 0 || w.in[0] != c {
		return false
	}
	w.move(1)
	return true
}

func (w *rewriter) literal(word string) bool {
	if !bytes.HasPrefix(w.in, []byte(word)) {
		return false
	}
	w.move(len(word))
	return true
}

// integer moves an integer of at most 15 digits, which a double holds exactly and
// prints as it was written. Of "1.5" and "1e2" it moves the 1; the value does not
// end there, so rewrite fails and the library takes over.
func (w *rewriter) integer() bool {
	const most = 15
	n := 0
	if w.in[0] == '-' {
		n = 1
	}
	digits := n
	for n < len(w.in) && w.in[n] >= '0' && w.in[n] <= '9' {
		n++
	}
	switch {
	case n == digits || n-digits > most:
		return false
	case w.in[digits] == '0' && n > 1: // "-0" and "01" are for the library
		return false
	}
	w.move(n)
	return true
}

// text moves a string. What encoding/json escapes for the sake of HTML is
// written plainly.
func (w *rewriter) text() bool {
	w.move(1)
	for {
		n := 0
		plain := true
		for n < len(w.in) && w.in[n] != '"' && w.in[n] != '\\' {
			if w.in[n] < ' ' {
				return false
			}
			plain = plain && w.in[n] < utf8.RuneSelf
			n++
		}
		if n == len(w.in) || !plain && !utf8.Valid(w.in[:n]) {
			return false
		}
		w.move(n)
		if w.in[0] == '"' {
			w.move(1)
			return true
		}
		if !w.escape() {
			return false
		}
	}
}

// escape moves one escape sequence that RFC 8785 writes in the same way, or
// one of encoding/json's for HTML.
func (w *rewriter) escape() bool {
	if len(w.in) < 2 {
		return false
	}
	switch w.in[1] {
	case '"', '\\', 'b', 'f', 'n', 'r', 't':
		w.move(2)
		return true
	}
	const long = len(`\u003c`)
	if len(w.in) < long {
		return false
	}
	switch string(w.in[:long]) {
	case `\u003c`:
		w.out = append(w.out, '<')
	case `\u003e`:
		w.out = append(w.out, '>')
	case `\u0026`:
		w.out = append(w.out, '&')
	default:
		return false
	}
	w.in = w.in[long:]
	return true
}

func (w *rewriter) array(depth int) bool {
	w.move(1)
	if w.mark(']') {
		return true
	}
	for {
		if !w.value(depth + 1) {
			return false
		}
		if w.mark(']') {
			return true
		}
		if !w.mark(',') {
			return false
		}
	}
}

func (w *rewriter) object(depth int) bool {
	w.move(1)
	if w.mark('}') {
		return true
	}
	var few [16]member
	members := few[:0]
	for {
		m := member{start: len(w.out)}
		if !w.name() {
			return false
		}
		m.colon = len(w.out)
		if !w.mark(':') || !w.value(depth+1) {
			return false
		}
		m.end = len(w.out)
		members = append(members, m)
		if w.mark('}') {
			break
		}
		if !w.mark(',') {
			return false
		}
	}
	return w.order(members)
}

// name moves a member's name in plain ASCII: bytes and UTF-16 code units then
// have the same order.
func (w *rewriter) name() bool {
	if len(w.in) == 0 || w.in[0] != '"' {
		return false
	}
	for n := 1; n < len(w.in); n++ {
		switch c := w.in[n]; {
		case c == '"':
			w.move(n + 1)
			return true
		case c < ' ' || c == '\\' || c >= utf8.RuneSelf:
			return false
		}
	}
	return false
}

// order puts the members that end before the last byte of out in the order of
// their names, each of which may stand there once.
func (w *rewriter) order(members []member) bool {
	name := func(m member) []byte { return w.out[m.start+1 : m.colon-1] }
	byName := func(a, b member) int { return bytes.Compare(name(a), name(b)) }
	first, sorted := members[0].start, slices.IsSortedFunc(members, byName)
	if !sorted {
		slices.SortFunc(members, byName)
	}
	for i := 1; i < len(members); i++ {
		if byName(members[i-1], members[i]) == 0 {
			return false
		}
	}
	if !sorted {
		w.scratch = slices.Grow(w.scratch[:0], cap(w.out))
		for i, m := range members {
			if i > 0 {
				w.scratch = append(w.scratch, ',')
			}
			w.scratch = append(w.scratch, w.out[m.start:m.end]...)
		}
		w.out = append(append(w.out[:first], w.scratch...), '}')
	}
	return true
}
