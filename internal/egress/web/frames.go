package web

import (
	"bufio"
	"crypto/rand"
	"encoding/binary"
	"errors"
	"io"

	"palyra/internal/egress/secret"
)

// frames reads one direction of a WebSocket (RFC 6455 section 5) and re-frames it: messages of a
// host are scrubbed, messages of a client are searched for placeholders. A message does not wait
// for the next one, because a match never spans two messages. Extensions are not supported.
type frames struct {
	from *bufio.Reader
	// masked is true for frames sent by clients.
	masked bool
	// messages processes messages, and aside control frames, which may interrupt a message.
	messages, aside passage

	// frame is the current frame, left the number of its unread bytes, and open means that more
	// frames of the message follow.
	frame header
	left  uint64
	open  bool
	// opcode is the opcode of the next outgoing frame of the message.
	opcode byte

	// piece and number are buffers for payload and parts of headers.
	piece  []byte
	number [8]byte

	out  []byte // outgoing bytes; the first sent bytes are already returned
	sent int
	err  error
}

// passage processes a text in pieces. The returned bytes are valid until the next piece; last marks
// the end of the text.
type passage interface {
	Next(piece []byte, last bool) ([]byte, error)
}

func newFrames(from io.Reader, secrets *secret.Exchange, masked bool) *frames {
	f := &frames{from: bufio.NewReader(from), masked: masked, messages: secrets.Scrubber(), aside: secrets.Scrubber(), piece: make([]byte, mostPayload)}
	if masked {
		f.messages, f.aside = &secret.Watcher{}, &secret.Watcher{}
	}
	return f
}

// Bits and opcodes in the first byte of a frame.
const (
	finBit       = 0x80
	reservedBits = 0x70
	opcodeBits   = 0x0f
	controlBit   = 0x08
	continuation = 0 // an opcode; text and binary are 1 and 2
	binaryOpcode = 2
)

// The mask bit of the second byte, and lengths.
const (
	maskBit     = 0x80
	length16    = 126
	length64    = 127
	mostControl = 125
	mostLength  = 1<<63 - 1
	mostPayload = 16 << 10 // of an outgoing frame
)

var errFrame = errors.New("the received data is not a frame of a WebSocket without extensions")

func (f *frames) Read(p []byte) (int, error) {
	if f.sent == len(f.out) {
		f.out, f.sent = f.out[:0], 0
	}
	// Short frames that arrived together are passed on together.
	for f.err == nil && (len(f.out) == 0 || f.hasShort()) {
		f.err = f.step()
	}
	n := copy(p, f.out[f.sent:])
	if f.sent += n; n > 0 || len(p) == 0 {
		return n, nil
	}
	return 0, f.err
}

// hasShort reports whether the next frame is short and completely received, so that reading it does
// not block.
func (f *frames) hasShort() bool {
	if f.left > 0 || f.from.Buffered() < 2 {
		return false
	}
	head, err := f.from.Peek(2)
	whole := 2 + int(head[1]&^maskBit)
	if f.masked {
		whole += len(header{}.key)
	}
	return err == nil && head[1]&^maskBit < length16 && f.from.Buffered() >= whole
}

// step reads a control frame, or a part of a message.
func (f *frames) step() error {
	if f.left == 0 {
		h, err := f.header()
		switch {
		case err != nil && f.open:
			return unexpected(err)
		case err != nil:
			return err
		case h.isControl():
			return f.control(h)
		case f.open != (h.opcode() == continuation):
			return errFrame
		case !f.open:
			f.opcode = h.opcode()
		}
		f.frame, f.left, f.open = h, h.length, !h.isLast()
	}
	piece, err := f.read()
	if err != nil {
		return err
	}
	last := f.left == 0 && f.frame.isLast()
	text, err := f.messages.Next(piece, last)
	if err == nil {
		f.hand(text, last)
	}
	return err
}

// read returns the available bytes of the frame, at least one if the frame is not empty.
func (f *frames) read() ([]byte, error) {
	if f.left == 0 {
		return nil, nil
	}
	b := f.piece[:min(f.left, mostPayload)]
	n, err := io.ReadAtLeast(f.from, b, 1)
	if f.masked {
		toggle(b[:n], f.frame.key, int((f.frame.length-f.left)%4))
	}
	f.left -= uint64(n)
	return b[:n], unexpected(err)
}

// control passes on a control frame.
func (f *frames) control(h header) error {
	b := f.piece[:h.length]
	if _, err := io.ReadFull(f.from, b); err != nil {
		return unexpected(err)
	}
	if f.masked {
		toggle(b, h.key, 0)
	}
	text, err := f.aside.Next(b, true)
	if err == nil && len(text) > mostControl {
		err = errFrame
	}
	if err == nil {
		f.write(h.first, text)
	}
	return err
}

// hand passes on a part of a message. The last frame of a message may be empty.
func (f *frames) hand(text []byte, last bool) {
	for len(text) > mostPayload {
		f.write(f.opcode, text[:mostPayload])
		f.opcode, text = continuation, text[mostPayload:]
	}
	if last {
		f.write(finBit|f.opcode, text)
	} else if len(text) > 0 {
		f.write(f.opcode, text)
		f.opcode = continuation
	}
}

func (f *frames) write(first byte, text []byte) {
	f.out = append(f.out, first)
	mask := byte(0)
	if f.masked {
		mask = maskBit
	}
	if n := len(text); n < length16 {
		f.out = append(f.out, mask|byte(n))
	} else { // at most mostPayload
		f.out = append(f.out, mask|length16)
		f.out = binary.BigEndian.AppendUint16(f.out, uint16(n))
	}
	if !f.masked {
		f.out = append(f.out, text...)
		return
	}
	_, _ = rand.Read(f.number[:4]) // it cannot fail
	key := [4]byte(f.number[:4])
	f.out = append(f.out, key[:]...)
	at := len(f.out)
	f.out = append(f.out, text...)
	toggle(f.out[at:], key, 0)
}

// toggle masks or unmasks the bytes at an offset of a payload.
func toggle(b []byte, key [4]byte, offset int) {
	for i := range b {
		b[i] ^= key[(offset+i)%4]
	}
}

// header is the header of one frame.
type header struct {
	first  byte
	length uint64
	key    [4]byte
}

func (h header) opcode() byte    { return h.first & opcodeBits }
func (h header) isControl() bool { return h.first&controlBit != 0 }
func (h header) isLast() bool    { return h.first&finBit != 0 }

// header reads the next header. It returns io.EOF only if no byte of the header was received.
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
	switch h.length {
	case length16:
		_, err = io.ReadFull(f.from, f.number[:2])
		h.length = uint64(binary.BigEndian.Uint16(f.number[:2]))
	case length64:
		_, err = io.ReadFull(f.from, f.number[:])
		h.length = binary.BigEndian.Uint64(f.number[:])
	}
	if h.length > mostLength {
		return header{}, errFrame
	}
	if err == nil && f.masked {
		_, err = io.ReadFull(f.from, f.number[:len(h.key)])
		copy(h.key[:], f.number[:])
	}
	return h, unexpected(err)
}

func unexpected(err error) error {
	if errors.Is(err, io.EOF) {
		return io.ErrUnexpectedEOF
	}
	return err
}
