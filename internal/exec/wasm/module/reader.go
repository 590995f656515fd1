package module

import (
	"math/bits"
	"unicode/utf8"
)

// reader reads the parts of a module and keeps its first error.
type reader struct {
	data []byte
	at   int
	// end is the end of the current part; 0 selects the end of data.
	end int
	err error
}

func (r *reader) fail(err error) {
	if r.err == nil {
		r.err = err
	}
}

func (r *reader) limit() int {
	if r.end > 0 {
		return r.end
	}
	return len(r.data)
}

// more reports whether the current part has remaining bytes and no error occurred.
func (r *reader) more() bool { return r.err == nil && r.at < r.limit() }

func (r *reader) byte() byte {
	if r.err != nil {
		return 0
	}
	if r.at >= r.limit() {
		r.malformed("it ends too early")
		return 0
	}
	r.at++
	return r.data[r.at-1]
}

// bytes reads n bytes.
func (r *reader) bytes(n uint32) []byte {
	if r.err != nil {
		return nil
	}
	if uint64(n) > uint64(r.limit()-r.at) {
		r.malformed("it ends too early: it declares %d bytes, but %d are left", n, r.limit()-r.at)
		return nil
	}
	r.at += int(n)
	return r.data[r.at-int(n) : r.at]
}

// unsigned reads a LEB128 number of at most size bits.
func (r *reader) unsigned(size int) uint64 {
	var value uint64
	for shift := 0; r.err == nil; shift += 7 {
		b := r.byte()
		if shift+7 > size && bits.Len8(b&0x7f) > size-shift || shift >= size {
			r.malformed("a number has more than %d bits", size)
			return 0
		}
		value |= uint64(b&0x7f) << shift
		if b < 0x80 {
			return value
		}
	}
	return 0
}

func (r *reader) u32() uint32 { return uint32(r.unsigned(32)) }

// skipSigned skips a signed LEB128 number of at most size bits.
func (r *reader) skipSigned(size int) {
	for shift := 0; r.err == nil; shift += 7 {
		b := r.byte()
		last := size - shift
		if shift >= size || last < 7 && b < 0x80 && !signExtends(b, last) {
			r.malformed("a number has more than %d bits", size)
			return
		}
		if b < 0x80 {
			return
		}
	}
}

// signExtends reports whether the bits of b above the first n equal the sign.
func signExtends(b byte, n int) bool {
	rest := int8(b<<1) >> n
	return rest == 0 || rest == -1
}

// count reads the number of following entries; each entry takes at least one byte.
func (r *reader) count(what string, most int) int {
	n := r.u32()
	switch {
	case r.err != nil:
		return 0
	case uint64(n) > uint64(max(most, 0)):
		r.tooMany(what, uint64(n), uint64(max(most, 0)))
		return 0
	case uint64(n) > uint64(r.limit()-r.at):
		r.malformed("it declares %d %s, but %d bytes are left", n, what, r.limit()-r.at)
		return 0
	}
	return int(n)
}

func (r *reader) name() string {
	text := r.bytes(r.u32())
	if r.err == nil && !utf8.Valid(text) {
		r.malformed("a name is not valid UTF-8")
	}
	return string(text)
}

// index reads an index below count.
func (r *reader) index(what string, count int) int {
	n := r.u32()
	if r.err == nil && uint64(n) >= uint64(count) {
		r.malformed("the %s %d does not exist", what, n)
		return 0
	}
	return int(n)
}
