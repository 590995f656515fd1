package web

import (
	"bufio"
	"bytes"
	"crypto/rand"
	"encoding/binary"
	"errors"
	"io"

	"palyra/internal/egress/secret"
)

// frames reads one direction of a WebSocket (RFC 6455 section 5) and hands it
// out again, framed anew: messages of a host are scrubbed, those of a client
// watched for placeholders. A message does not wait for the next one, since
// nothing that is looked for goes from one into the other. Extensions are not
// known.
type frames struct {
	from    *bufio.Reader
	secrets *secret.Exchange
	// masked is true for what clients send.
	masked bool

	out     []byte
	err     error
	message io.Reader // what is read, without secrets; nil between messages
	opcode  byte      // of the next frame of that message
	ready   []byte    // the payload of that frame, once it is known
}

// Of the first byte of a frame.
const (
	finBit       = 0x80
	reservedBits = 0x70
	opcodeBits   = 0x0f
	controlBit   = 0x08
	continuation = 0 // an opcode; text and binary are 1 and 2
	binaryOpcode = 2
)

// Of the second byte, and of lengths.
const (
	maskBit     = 0x80
	length16    = 126
	length64    = 127
	mostControl = 125
	mostLength  = 1<<63 - 1
	mostPayload = 16 << 10 // of a frame that is handed out
)

var errFrame = errors.New("what came is no frame of a WebSocket without extensions")

func (f *frames) Read(p []byte) (int, error) {
	for len(f.out) == 0 {
		if f.err != nil {
			return 0, f.err
		}
		f.err = f.step()
	}
	n := copy(p, f.out)
	f.out = f.out[n:]
	return n, nil
}

// through returns what is handed out of a payload.
func (f *frames) through(r io.Reader) io.Reader {
	if f.masked {
		return f.secrets.Watch(r)
	}
	return f.secrets.Scrub(r)
}

// step reads something: the beginning of a message, a part of one, or a control
// frame between two.
func (f *frames) step() error {
	if f.message == nil {
		h, err := f.header()
		switch {
		case err != nil:
			return err
		case h.isControl():
			return f.control(h)
		case h.opcode() == continuation:
			return errFrame
		}
		f.opcode = h.opcode()
		f.message = f.through(&payload{of: f, frame: h})
		return nil
	}
	b := make([]byte, mostPayload)
	n, err := f.message.Read(b)
	if n > 0 {
		f.flush(0)
		f.ready = b[:n]
	}
	if errors.Is(err, io.EOF) {
		f.flush(finBit)
		f.message, err = nil, nil
	}
	return err
}

// flush hands out the frame that is ready. The last one of a message may be
// empty.
func (f *frames) flush(fin byte) {
	if f.ready == nil && fin == 0 {
		return
	}
	f.write(fin|f.opcode, f.ready)
	f.opcode, f.ready = continuation, nil
}

// control hands out a control frame, which may stand in the middle of a message.
func (f *frames) control(h header) error {
	raw, err := io.ReadAll(&payload{of: f, frame: h})
	if err != nil {
		return err
	}
	text, err := io.ReadAll(f.through(bytes.NewReader(raw)))
	if err == nil && len(text) > mostControl {
		err = errFrame
	}
	if err == nil {
		f.write(h.first, text)
	}
	return err
}

func (f *frames) write(first byte, text []byte) {
	f.out = append(f.out, first)
	mask := byte(0)
	if f.masked {
		mask = maskBit
	}
	switch n := len(text); {
	case n < length16:
		f.out = append(f.out, mask|byte(n))
	default: // at most mostPayload
		f.out = append(f.out, mask|length16)
		f.out = binary.BigEndian.AppendUint16(f.out, uint16(n))
	}
	if !f.masked {
		f.out = append(f.out, text...)
		return
	}
	var key [4]byte
	_, _ = rand.Read(key[:]) // it cannot fail
	f.out = append(f.out, key[:]...)
	at := len(f.out)
	f.out = append(f.out, text...)
	toggle(f.out[at:], key, 0)
}

// toggle masks or unmasks what stands at an offset of a payload.
func toggle(b []byte, key [4]byte, offset int) {
	for i := range b {
		b[i] ^= key[(offset+i)%4]
	}
}

// header is that of one frame.
type header struct {
	first  byte
	length uint64
	key    [4]byte
}

func (h header) opcode() byte    { return h.first & opcodeBits }
func (h header) isControl() bool { return h.first&controlBit != 0 }
func (h header) isLast() bool    { return h.first&finBit != 0 }

// header reads the next header. Its error is io.EOF only where nothing of it
// has come.
func (f *frames) header() (header, error) {
	first, err := f.from.ReadByte()
	if err != nil {
		return header{}, err
	}
	second, err := f.from.ReadByte()
	if err != nil {
		return header{}, unexpected(err)
	}
	h := header{first: first, length: uint64(second &^ maskBit)}
	if first&reservedBits != 0 || second&maskBit != 0 != f.masked ||
		h.isControl() && (!h.isLast() || h.length > mostControl) || !h.isControl() && h.opcode() > binaryOpcode {
		return header{}, errFrame
	}
	var wide [8]byte
	switch h.length {
	case length16:
		_, err = io.ReadFull(f.from, wide[6:])
		h.length = binary.BigEndian.Uint64(wide[:])
	case length64:
		_, err = io.ReadFull(f.from, wide[:])
		h.length = binary.BigEndian.Uint64(wide[:])
	}
	if h.length > mostLength {
		return header{}, errFrame
	}
	if err == nil && f.masked {
		_, err = io.ReadFull(f.from, h.key[:])
	}
	return h, unexpected(err)
}

func unexpected(err error) error {
	if errors.Is(err, io.EOF) {
		return io.ErrUnexpectedEOF
	}
	return err
}

// payload reads what a frame holds, and the frames that continue it.
type payload struct {
	of    *frames
	frame header
	read  uint64
}

func (p *payload) Read(b []byte) (int, error) {
	for p.read == p.frame.length {
		if p.frame.isLast() {
			return 0, io.EOF
		}
		h, err := p.of.header()
		if err == nil && h.isControl() {
			if err = p.of.control(h); err == nil {
				continue
			}
		}
		if err == nil && h.opcode() != continuation {
			err = errFrame
		}
		if err != nil {
			return 0, unexpected(err)
		}
		p.frame, p.read = h, 0
	}
	if left := p.frame.length - p.read; uint64(len(b)) > left {
		b = b[:left]
	}
	n, err := p.of.from.Read(b)
	if p.of.masked {
		toggle(b[:n], p.frame.key, int(p.read%4))
	}
	p.read += uint64(n)
	return n, unexpected(err)
}
