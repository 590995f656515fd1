package spec

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"slices"
)

// The ids of the sections that are rewritten.
const (
	typeSection     = 1
	importSection   = 2
	functionSection = 3
	tableSection    = 4
	memorySection   = 5
	globalSection   = 6
	exportSection   = 7
	elementSection  = 9
	codeSection     = 10
	dataSection     = 11
)

// order is the order of sections in a module.
var order = []byte{1, 2, 3, 4, 5, 6, 7, 8, 9, 12, 10, 11}

// errElsewhere reports a module that imports from another one, which palyrad does not support.
var errElsewhere = errors.New("it imports from another module")

// entries are the entries of a section: their number and their bytes.
type entries struct {
	count int
	bytes []byte
}

func (e entries) encoded() []byte { return append(leb(uint64(e.count)), e.bytes...) }

// before adds entries at the front; after adds entries at the end.
func (e entries) before(count int, bytes []byte) entries {
	return entries{e.count + count, slices.Concat(bytes, e.bytes)}
}

func (e entries) after(count int, bytes []byte) entries {
	return entries{e.count + count, slices.Concat(e.bytes, bytes)}
}

// parts is a valid module in parts. Imports from the specification's host are replaced by
// definitions in front of the module's own, so that every index is unchanged.
type parts struct {
	vectors map[byte]entries
	others  map[byte][]byte // the start and the data count, unchanged
	exports map[string]export
	// globals are the instructions that replace imported globals in constants.
	globals [][]byte
}

type export struct {
	kind  byte
	index uint64
}

// cursor reads well-formed data.
type cursor struct {
	b  []byte
	at int
}

func (c *cursor) byte() byte { c.at++; return c.b[c.at-1] }

func (c *cursor) take(n uint64) []byte {
	c.at += int(n)
	return c.b[c.at-int(n) : c.at]
}

func (c *cursor) u() (n uint64) {
	n, size := binary.Uvarint(c.b[c.at:])
	c.at += size
	return n
}

func (c *cursor) name() string { return string(c.take(c.u())) }

// limits reads the limits of a table or a memory.
func (c *cursor) limits() {
	if c.byte()&1 == 1 {
		c.u()
	}
	c.u()
}

func leb(n uint64) []byte { return binary.AppendUvarint(nil, n) }

// signed returns n as a signed LEB128 number.
func signed(n int64) (out []byte) {
	for {
		b := byte(n & 0x7f)
		n >>= 7
		if n == 0 && b&0x40 == 0 || n == -1 && b&0x40 != 0 {
			return append(out, b)
		}
		out = append(out, b|0x80)
	}
}

// split parses a module.
func split(module []byte) (p parts, err error) {
	p = parts{vectors: map[byte]entries{}, others: map[byte][]byte{}, exports: map[string]export{}}
	bodies := map[byte][]byte{}
	for c := (&cursor{b: module, at: 8}); c.at < len(module); {
		id := c.byte()
		bodies[id] = c.take(c.u())
	}
	for id, body := range bodies {
		c := &cursor{b: body}
		switch id {
		case 0: // names and similar
		case 8, 12:
			p.others[id] = body
		case exportSection:
			for range c.u() {
				name := c.name()
				p.exports[name] = export{c.byte(), c.u()}
			}
		case importSection:
		default:
			count := int(c.u())
			p.vectors[id] = entries{count, body[c.at:]}
		}
	}
	if body := bodies[importSection]; body != nil {
		if err := p.provide(&cursor{b: body}); err != nil {
			return p, err
		}
	}
	for id, rewrite := range map[byte]func(*cursor, *[]byte){globalSection: p.global, elementSection: p.element, dataSection: p.data} {
		old := p.vectors[id]
		made := []byte(nil)
		for c := (&cursor{b: old.bytes}); c.at < len(c.b); {
			rewrite(c, &made)
		}
		p.vectors[id] = entries{old.count, made}
	}
	return p, nil
}

// provide replaces imports by the definitions of the specification's host.
func (p *parts) provide(c *cursor) error {
	more := map[byte]entries{}
	add := func(section byte, bytes ...byte) { more[section] = more[section].after(1, bytes) }
	for range c.u() {
		from, name, kind := c.name(), c.name(), c.byte()
		if from != "spectest" {
			return fmt.Errorf("%w, %s", errElsewhere, from)
		}
		switch kind {
		case 0: // print and similar functions do nothing
			add(functionSection, leb(c.u())...)
			add(codeSection, 2, 0, 0x0b)
		case 1: // 10 to 20 elements
			c.byte()
			c.limits()
			add(tableSection, 0x70, 1, 10, 20)
		case 2: // 1 to 2 pages
			c.limits()
			add(memorySection, 1, 1, 2)
		case 3:
			value := map[string][]byte{
				"global_i32": append([]byte{0x7f, 0, 0x41}, signed(666)...),
				"global_i64": append([]byte{0x7e, 0, 0x42}, signed(666)...),
				"global_f32": binary.LittleEndian.AppendUint32([]byte{0x7d, 0, 0x43}, math.Float32bits(666.6)),
				"global_f64": binary.LittleEndian.AppendUint64([]byte{0x7c, 0, 0x44}, math.Float64bits(666.6)),
			}[name]
			c.take(2)
			p.globals = append(p.globals, value[2:])
			add(globalSection, append(value, 0x0b)...)
		}
	}
	for section, e := range more {
		p.vectors[section] = p.vectors[section].before(e.count, e.bytes)
	}
	return nil
}

// constant copies an expression, and replaces imported globals by their values.
func (p *parts) constant(c *cursor, to *[]byte) {
	for {
		from := c.at
		switch op := c.byte(); op {
		case 0x0b:
			*to = append(*to, op)
			return
		case 0x23:
			if n := c.u(); n < uint64(len(p.globals)) {
				*to = append(*to, p.globals[n]...)
				continue
			}
		case 0x41, 0x42:
			for c.byte() >= 0x80 {
			}
		case 0x43:
			c.take(4)
		case 0x44:
			c.take(8)
		case 0xd0:
			c.byte()
		case 0xd2:
			c.u()
		case 0xfd: // v128.const
			c.take(17)
		}
		*to = append(*to, c.b[from:c.at]...)
	}
}

func (p *parts) global(c *cursor, to *[]byte) {
	*to = append(*to, c.take(2)...)
	p.constant(c, to)
}

// element copies a segment. Its flags: it is active (bit 0 is 0), it names its table or is
// declarative (bit 1), it has expressions (bit 2).
func (p *parts) element(c *cursor, to *[]byte) {
	flag := c.u()
	*to = append(*to, leb(flag)...)
	if flag&1 == 0 {
		if flag&2 != 0 {
			*to = append(*to, leb(c.u())...)
		}
		p.constant(c, to)
	}
	if flag&3 != 0 {
		*to = append(*to, c.byte())
	}
	n := c.u()
	*to = append(*to, leb(n)...)
	for range n {
		if flag&4 != 0 {
			p.constant(c, to)
		} else {
			*to = append(*to, leb(c.u())...)
		}
	}
}

func (p *parts) data(c *cursor, to *[]byte) {
	flag := c.u()
	*to = append(*to, leb(flag)...)
	if flag == 2 {
		*to = append(*to, leb(c.u())...)
	}
	if flag != 1 {
		p.constant(c, to)
	}
	n := c.u()
	*to = append(append(*to, leb(n)...), c.take(n)...)
}

// joined returns the module with these exports.
func (p *parts) joined(exports entries) []byte {
	p.vectors[exportSection] = exports
	out := []byte("\x00asm\x01\x00\x00\x00")
	for _, id := range order {
		body, there := p.others[id]
		if e := p.vectors[id]; e.count > 0 {
			body, there = e.encoded(), true
		}
		if there {
			out = append(append(append(out, id), leb(uint64(len(body)))...), body...)
		}
	}
	return out
}
