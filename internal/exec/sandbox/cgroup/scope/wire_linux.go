package scope

import (
	"bufio"
	"encoding/binary"
	"errors"
	"io"
)

// The wire format of the D-Bus specification, little-endian.

// Message types.
const (
	request = 1
	reply   = 2
	failure = 3
	signal  = 4
)

// Header fields.
const (
	fieldPath, fieldInterface, fieldMember, fieldError = 1, 2, 3, 4
	fieldAnswers, fieldDestination, fieldSignature     = 5, 6, 8
	fixedHeader, mostMessage                           = 16, 1 << 20
)

var errMalformed = errors.New("the bus sent a malformed message")

// message is a received message. name is the name of an error.
type message struct {
	kind            byte
	serial, answers uint32
	member, name    string
	body            []byte
}

type encoder struct{ bytes []byte }

func (e *encoder) align(n int) {
	for len(e.bytes)%n != 0 {
		e.bytes = append(e.bytes, 0)
	}
}

func (e *encoder) word(w uint32) {
	e.align(4)
	e.bytes = binary.LittleEndian.AppendUint32(e.bytes, w)
}

func (e *encoder) text(s string) {
	e.word(uint32(len(s)))
	e.bytes = append(append(e.bytes, s...), 0)
}

func (e *encoder) signature(s string) {
	e.bytes = append(append(append(e.bytes, byte(len(s))), s...), 0)
}

// array writes elements that are aligned to a multiple of align.
func (e *encoder) array(align int, elements func()) {
	e.word(0)
	at := len(e.bytes) - 4
	e.align(align)
	start := len(e.bytes)
	elements()
	binary.LittleEndian.PutUint32(e.bytes[at:], uint32(len(e.bytes)-start))
}

func (c call) encode(serial uint32) []byte {
	e := encoder{bytes: []byte{'l', request, 0, 1}}
	e.word(uint32(len(c.body)))
	e.word(serial)
	e.array(8, func() {
		for _, f := range []struct {
			code        byte
			kind, value string
		}{
			{fieldPath, "o", c.path}, {fieldInterface, "s", c.face}, {fieldMember, "s", c.member}, {fieldDestination, "s", c.to},
		} {
			e.align(8)
			e.bytes = append(e.bytes, f.code)
			e.signature(f.kind)
			e.text(f.value)
		}
		if c.signature != "" {
			e.align(8)
			e.bytes = append(e.bytes, fieldSignature)
			e.signature("g")
			e.signature(c.signature)
		}
	})
	e.align(8)
	return append(e.bytes, c.body...)
}

// read reads one message.
func read(from *bufio.Reader) (message, error) {
	head := make([]byte, fixedHeader)
	if _, err := io.ReadFull(from, head); err != nil {
		return message{}, err
	}
	order := binary.LittleEndian
	if head[0] != 'l' {
		return message{}, errMalformed
	}
	body, fields := order.Uint32(head[4:]), order.Uint32(head[12:])
	if body > mostMessage || fields > mostMessage {
		return message{}, errMalformed
	}
	padded := (fields + 7) &^ 7
	rest := make([]byte, padded+body)
	if _, err := io.ReadFull(from, rest); err != nil {
		return message{}, err
	}
	m := message{kind: head[1], serial: order.Uint32(head[8:]), body: rest[padded:]}
	return m, m.read(rest[:fields])
}

// read reads the required header fields.
func (m *message) read(fields []byte) error {
	for d := (decoder{bytes: fields}); d.at < len(fields) && !d.failed; {
		d.align(8)
		code := d.octet()
		switch kind := d.signature(); kind {
		case "s", "o":
			switch value := d.text(); code {
			case fieldMember:
				m.member = value
			case fieldError:
				m.name = value
			}
		case "u":
			if value := d.word(); code == fieldAnswers {
				m.answers = value
			}
		case "g":
			d.signature()
		default:
			return errMalformed
		}
		if d.failed {
			return errMalformed
		}
	}
	return nil
}

// decoder reads values; after a failure it returns zeros.
type decoder struct {
	bytes  []byte
	at     int
	failed bool
}

func (d *decoder) take(n int) []byte {
	if d.failed || n < 0 || n > len(d.bytes)-d.at {
		d.failed = true
		return nil
	}
	d.at += n
	return d.bytes[d.at-n : d.at]
}

func (d *decoder) align(n int) { d.take((n - d.at%n) % n) }

func (d *decoder) octet() byte {
	b := d.take(1)
	if b == nil {
		return 0
	}
	return b[0]
}

func (d *decoder) word() uint32 {
	d.align(4)
	b := d.take(4)
	if b == nil {
		return 0
	}
	return binary.LittleEndian.Uint32(b)
}

func (d *decoder) text() string {
	s := string(d.take(int(d.word())))
	d.take(1)
	return s
}

func (d *decoder) signature() string {
	s := string(d.take(int(d.octet())))
	d.take(1)
	return s
}
