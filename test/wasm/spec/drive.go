package spec

import (
	"encoding/binary"
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// selected is the size to which a table first grows. The size to which the table may grow
// further selects the trap that a call tests. One module thus has all assertions of an instance
// without an import, which would move the indices of its functions.
const selected = 50_000

// driven is a module of the palyra ABI whose run makes the assertions of a script.
type driven struct {
	bytes []byte
	// asserted are the included commands, in order. traps are the commands that must trap: the n-th
	// runs if the table may grow to selected + n + 1 elements.
	asserted, traps []command
	// left is the number of commands that cannot be included.
	left int
}

// drive returns the module. A successful run has a result of zero bytes. The length of another
// result is the number of the failed assertion, from 1.
func drive(module []byte, commands []command) (driven, error) {
	p, err := split(module)
	if err != nil {
		return driven{}, err
	}
	var d driven
	types, functions := uint64(p.vectors[typeSection].count), uint64(p.vectors[functionSection].count)
	var bodies []byte
	add := func(kind uint64, body []byte) (index uint64) {
		p.vectors[functionSection] = p.vectors[functionSection].after(1, leb(types+kind))
		p.vectors[codeSection] = p.vectors[codeSection].after(1, append(leb(uint64(len(body))), body...))
		functions++
		return functions - 1
	}
	// () -> i32, (i32) -> i32, (i32, i32) -> i64
	p.vectors[typeSection] = p.vectors[typeSection].after(3, []byte("\x60\x00\x01\x7f\x60\x01\x7f\x01\x7f\x60\x02\x7f\x7f\x01\x7e"))
	if p.vectors[memorySection].count == 0 {
		p.vectors[memorySection] = entries{1, []byte{0, 1}}
	}
	table := uint64(p.vectors[tableSection].count)
	for _, c := range commands {
		body, ok := assertion(c, p.exports)
		if !ok || d.left > 0 { // later commands may depend on it
			d.left++
			continue
		}
		d.asserted = append(d.asserted, c)
		at := add(0, body)
		place := append(append([]byte{0x42}, signed(int64(len(d.asserted)))...), 0x0f) // i64.const, return
		call := append([]byte{0x10}, leb(at)...)
		if c.Type == "assert_return" || c.Type == "action" {
			// a failure is reported if no trap is selected
			bodies = slices.Concat(bodies, call, []byte{0x45, 0x20, 2, 0x45, 0x71, 0x04, 0x40}, place, []byte{0x0b})
			continue
		}
		d.traps = append(d.traps, c)
		bodies = slices.Concat(bodies, []byte{0x20, 2, 0x41}, signed(int64(len(d.traps))), []byte{0x46, 0x04, 0x40}, call, []byte{0x1a}, place, []byte{0x0b})
	}
	run := []byte{1, 1, 0x7f} // a local: the number of the selected trap
	if len(d.traps) > 0 {
		p.vectors[tableSection] = p.vectors[tableSection].after(1, []byte{0x70, 0, 0})
		grow := func(by int64) []byte {
			return slices.Concat([]byte{0xd0, 0x70, 0x41}, signed(by), []byte{0xfc, 0x0f}, leb(table))
		}
		run = slices.Concat(run, grow(selected), []byte{0x1a, 0x03, 0x40}, grow(1), []byte{0x41, 0x7f, 0x47, 0x04, 0x40, 0x20, 2, 0x41, 1, 0x6a, 0x21, 2, 0x0c, 1, 0x0b, 0x0b})
	}
	run = slices.Concat(run, bodies, []byte{0x42, 0, 0x0b})
	alloc := add(1, []byte{0, 0x41, 0, 0x0b})
	exports := entries{3, slices.Concat([]byte("\x06memory\x02\x00\x0cpalyra_alloc\x00"), leb(alloc), []byte("\x03run\x00"), leb(add(2, run)))}
	for name, e := range p.exports {
		if e.kind == 0 { // the code may refer to a function because it is exported
			exports = exports.after(1, slices.Concat(leb(uint64(len(name)+1)), []byte("~"+name), []byte{0}, leb(e.index)))
		}
	}
	d.bytes = p.joined(exports)
	return d, nil
}

// kinds are the encodings of value types.
var kinds = map[string]byte{"i32": 0x7f, "i64": 0x7e, "f32": 0x7d, "f64": 0x7c, "v128": 0x7b, "funcref": 0x70, "externref": 0x6f}

// assertion returns the body of a function that runs a command and returns 1 if the results are as
// expected. ok is false for a command that only a host can run, for example with a reference to an
// object of the host.
func assertion(c command, exports map[string]export) (body []byte, ok bool) {
	e, there := exports[c.Action.Field]
	if !there {
		return nil, false
	}
	body = leb(uint64(len(c.Expected)))
	for _, v := range c.Expected {
		body = append(body, 1, kinds[v.Type])
	}
	for _, v := range c.Action.Args {
		push, ok := constantOf(v)
		if !ok {
			return nil, false
		}
		body = append(body, push...)
	}
	if c.Action.Type == "get" {
		body = append(body, 0x23)
	} else {
		body = append(body, 0x10)
	}
	body = append(body, leb(e.index)...)
	for i := range slices.Backward(c.Expected) {
		body = append(append(body, 0x21), leb(uint64(i))...)
	}
	body = append(body, 0x41, 1)
	if c.Type == "assert_return" {
		for i, v := range c.Expected {
			test, ok := equals(i, v)
			if !ok {
				return nil, false
			}
			body = append(append(body, test...), 0x71)
		}
	}
	return append(body, 0x0b), true
}

// bitsOf parses a number of at most size bits.
func bitsOf(text string, size int) (uint64, bool) {
	if n, err := strconv.ParseUint(text, 10, size); err == nil {
		return n, true
	}
	n, err := strconv.ParseInt(text, 10, size)
	return uint64(n), err == nil
}

// constantOf pushes a value.
func constantOf(v value) ([]byte, bool) {
	switch v.Type {
	case "i32":
		n, ok := bitsOf(v.word(), 32)
		return append([]byte{0x41}, signed(int64(int32(uint32(n))))...), ok
	case "i64":
		n, ok := bitsOf(v.word(), 64)
		return append([]byte{0x42}, signed(int64(n))...), ok
	case "f32":
		n, ok := bitsOf(v.word(), 32)
		return binary.LittleEndian.AppendUint32([]byte{0x43}, uint32(n)), ok
	case "f64":
		n, ok := bitsOf(v.word(), 64)
		return binary.LittleEndian.AppendUint64([]byte{0x44}, n), ok
	case "v128":
		low, high, ok := halves(v)
		return binary.LittleEndian.AppendUint64(binary.LittleEndian.AppendUint64([]byte{0xfd, 0x0c}, low), high), ok
	case "funcref", "externref":
		return []byte{0xd0, kinds[v.Type]}, v.word() == "null"
	}
	return nil, false
}

// laneBits returns the size of a lane in bits.
func laneBits(v value) int {
	n, err := strconv.Atoi(strings.TrimLeft(v.Lane, "if"))
	if err != nil {
		return 0
	}
	return n
}

// halves returns the bits of a vector.
func halves(v value) (low, high uint64, ok bool) {
	var all []byte
	size := laneBits(v)
	for _, lane := range v.lanes() {
		n, ok := bitsOf(lane, size)
		if !ok {
			return 0, 0, false
		}
		all = append(all, binary.LittleEndian.AppendUint64(nil, n)[:size/8]...)
	}
	if len(all) != 16 {
		return 0, 0, false
	}
	return binary.LittleEndian.Uint64(all), binary.LittleEndian.Uint64(all[8:]), true
}

// equals returns code that pushes 1 if a local is as expected.
func equals(local int, v value) ([]byte, bool) {
	get := append([]byte{0x20}, leb(uint64(local))...)
	switch v.Type {
	case "i32", "i64":
		want, ok := constantOf(v)
		return slices.Concat(get, want, []byte{map[string]byte{"i32": 0x46, "i64": 0x51}[v.Type]}), ok
	case "f32":
		return same(append(get, 0xbc), v.word(), 32)
	case "f64":
		return same(append(get, 0xbd), v.word(), 64)
	case "funcref", "externref":
		if v.Text == nil { // any reference except null
			return append(get, 0xd1, 0x45), true
		}
		return append(get, 0xd1), v.word() == "null"
	case "v128":
		if low, high, ok := halves(v); ok {
			first, _ := same(append(slices.Clone(get), 0xfd, 0x1d, 0), fmt.Sprint(low), 64)
			second, _ := same(append(slices.Clone(get), 0xfd, 0x1d, 1), fmt.Sprint(high), 64)
			return slices.Concat(first, second, []byte{0x71}), true
		}
		return lanewise(get, v)
	}
	return nil, false
}

// lanewise compares a vector that contains a NaN.
func lanewise(get []byte, v value) ([]byte, bool) {
	out, size := []byte{0x41, 1}, laneBits(v)
	if size < 32 {
		return nil, false
	}
	for i, lane := range v.lanes() {
		test, ok := same(append(slices.Clone(get), 0xfd, map[int]byte{32: 0x1b, 64: 0x1d}[size], byte(i)), lane, size)
		if !ok {
			return nil, false
		}
		out = append(append(out, test...), 0x71)
	}
	return out, true
}

// same compares the bits that get pushes with a number, or with a kind of NaN. A canonical NaN has
// any sign and only the quiet bit; an arithmetic NaN has the quiet bit.
func same(get []byte, want string, size int) ([]byte, bool) {
	sign, quiet := uint64(1)<<(size-1), map[int]uint64{32: 0x7fc0_0000, 64: 0x7ff8_0000_0000_0000}[size]
	mask, bits := ^uint64(0), uint64(0)
	switch want {
	case "nan:canonical":
		mask, bits = ^sign, quiet
	case "nan:arithmetic":
		mask, bits = quiet, quiet
	default:
		n, ok := bitsOf(want, size)
		if !ok {
			return nil, false
		}
		bits = n
	}
	number := func(n uint64) []byte {
		if size == 32 {
			return append([]byte{0x41}, signed(int64(int32(uint32(n))))...)
		}
		return append([]byte{0x42}, signed(int64(n))...)
	}
	and, eq := byte(0x71), byte(0x46)
	if size == 64 {
		and, eq = 0x83, 0x51
	}
	return slices.Concat(get, number(mask), []byte{and}, number(bits), []byte{eq}), true
}
