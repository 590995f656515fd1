package inside

import (
	"cmp"
	"encoding/binary"
	"errors"
	"maps"
	"slices"
)

// Message is one of the messages between both sides: a Spec, an Order, a Report or an Attempt.
// The encoding is custom, because palyra-init starts again for each sandbox. encoding/json
// would need a tenth of the time of a sandbox to inspect a type.
type Message interface {
	// code writes the message to c or reads it from c.
	code(c *coder)
}

var errMalformed = errors.New("a message is malformed")

// Encode returns the encoded message. Every value is a little-endian word of 64 bits, or a word
// with a length followed by as many bytes or elements.
func Encode(m Message) []byte {
	c := &coder{bytes: make([]byte, 0, 1024)}
	m.code(c)
	return c.bytes
}

// Decode decodes the output of Encode into an empty message. It is strict: missing or extra bytes
// and any other encoding are an error. An empty list is decoded as nil.
func Decode(text []byte, into Message) error {
	c := &coder{bytes: text, reading: true}
	into.code(c)
	if c.failed || len(c.bytes) > 0 {
		return errMalformed
	}
	return nil
}

// coder processes the fields of a message, with one field list for both directions. After a
// failure it reads zeros.
type coder struct {
	// bytes are the bytes written so far, or the bytes left to read.
	bytes           []byte
	reading, failed bool
}

const wordSize = 8

func (c *coder) fail() { c.bytes, c.failed = nil, true }

// word writes and returns w, or reads and returns the next word.
func (c *coder) word(w uint64) uint64 {
	if !c.reading {
		c.bytes = binary.LittleEndian.AppendUint64(c.bytes, w)
		return w
	}
	if len(c.bytes) < wordSize {
		c.fail()
		return 0
	}
	w = binary.LittleEndian.Uint64(c.bytes)
	c.bytes = c.bytes[wordSize:]
	return w
}

// size processes the length of a list whose elements take at least one byte each.
func (c *coder) size(n int) int {
	got := c.word(uint64(n))
	if c.reading && got > uint64(len(c.bytes)) {
		c.fail()
		return 0
	}
	return int(got) // at most the length of a slice
}

func number[T ~int | ~int64 | ~uint16 | ~uint32 | ~uint64](p *T, c *coder) {
	w := c.word(uint64(*p))
	if *p = T(w); uint64(*p) != w {
		c.fail()
	}
}

func flag(p *bool, c *coder) {
	var w uint64
	if *p {
		w = 1
	}
	w = c.word(w)
	if *p = w == 1; w > 1 {
		c.fail()
	}
}

func text[T ~string](p *T, c *coder) {
	n := c.size(len(*p))
	if !c.reading {
		c.bytes = append(c.bytes, *p...)
		return
	}
	*p, c.bytes = T(c.bytes[:n]), c.bytes[n:]
}

func list[T any](p *[]T, c *coder, element func(*T, *coder)) {
	n := c.size(len(*p))
	if c.reading {
		*p = nil
	}
	for i := 0; i < n && !c.failed; i++ {
		if c.reading {
			var next T
			*p = append(*p, next)
		}
		element(&(*p)[i], c)
	}
}

func optional[T any](p **T, c *coder, element func(*T, *coder)) {
	there := *p != nil
	flag(&there, c)
	if c.reading && there {
		*p = new(T)
	}
	if there {
		element(*p, c)
	}
}

// named is one entry of a map.
type named struct {
	name  string
	value uint64
}

func (n *named) code(c *coder) { text(&n.name, c); number(&n.value, c) }

// table processes a map as a list of its entries, sorted by name.
func table(p *map[string]uint64, c *coder) {
	entries := make([]named, 0, len(*p))
	for _, name := range slices.Sorted(maps.Keys(*p)) {
		entries = append(entries, named{name, (*p)[name]})
	}
	list(&entries, c, (*named).code)
	if !c.reading || len(entries) == 0 {
		return
	}
	if !slices.IsSortedFunc(entries, func(a, b named) int { return cmp.Or(cmp.Compare(a.name, b.name), -1) }) {
		c.fail()
	}
	*p = make(map[string]uint64, len(entries))
	for _, e := range entries {
		(*p)[e.name] = e.value
	}
}
