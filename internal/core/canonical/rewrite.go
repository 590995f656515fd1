package canonical

import (
	"bytes"
	"slices"
)

// rewrite returns the RFC 8785 form of text, which must be one JSON value. It is a fast path
// for the gateway's own records: compact text, integers below 10^15, member names in plain
// ASCII. ok is false for all other texts, valid JSON or not. The caller then uses the library,
// which takes several times as long.
func rewrite(text []byte) (out []byte, ok bool) {
	w := rewriter{in: text, out: make([]byte, 0, len(text))}
	if !w.value(0) || len(w.in) > 0 {
		return nil, false
	}
	return w.out, true
}

// rewriter copies a text from in to out.
type rewriter struct {
	in, out []byte
	// scratch holds the members of an object while they are sorted.
	scratch []byte
}

// member gives the position of an object's member in out. Its name, in quotes, is
// out[start:colon], and its value ends at end. The type is small, because every open object has
// several on the stack.
type member struct{ start, colon, end int }

// value moves one value. It returns false if the fast path does not support the value.
func (w *rewriter) value(depth int) bool {
	if len(w.in) == 0 {
		return false
	}
	switch w.in[0] {
	case '{':
		return depth < MaxDepth && w.object(depth)
	case '[':
		return depth < MaxDepth && w.array(depth)
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

// mark moves the next byte if it is c.
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

// integer moves an integer that integerLength accepts.
func (w *rewriter) integer() bool {
	n := integerLength(w.in)
	w.move(n)
	return n > 0
}

// text moves a string, and undoes the HTML escapes of encoding/json.
func (w *rewriter) text() bool {
	w.move(1)
	for {
		n, ok := segment(w.in)
		if !ok {
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

// escape moves one escape sequence that RFC 8785 writes in the same way, or undoes one of
// encoding/json's HTML escapes.
func (w *rewriter) escape() bool {
	if n := escapeLength(w.in); n > 0 {
		w.move(n)
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

// name moves a member's name that nameLength accepts.
func (w *rewriter) name() bool {
	n := nameLength(w.in)
	w.move(n)
	return n > 0
}

// order sorts the members at the end of out, before its last byte, by name. It returns false
// for duplicate names.
func (w *rewriter) order(members []member) bool {
	name := func(m member) []byte { return w.out[m.start+1 : m.colon-1] }
	byName := func(a, b member) int { return bytes.Compare(name(a), name(b)) }
	ordered := func() bool {
		for i := 1; i < len(members); i++ {
			if byName(members[i-1], members[i]) >= 0 {
				return false
			}
		}
		return true
	}
	if ordered() {
		return true
	}
	first := members[0].start
	slices.SortFunc(members, byName)
	if !ordered() {
		return false
	}
	w.scratch = w.scratch[:0]
	for i, m := range members {
		if i > 0 {
			w.scratch = append(w.scratch, ',')
		}
		w.scratch = append(w.scratch, w.out[m.start:m.end]...)
	}
	w.out = append(append(w.out[:first], w.scratch...), '}')
	return true
}
