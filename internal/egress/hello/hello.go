// Package hello reads the first message of a TLS client, which says in the
// clear whom the client wants to talk to. It is stricter than a TLS server has
// to be: where two readers might take different names out of one message,
// there is none.
package hello

import (
	"errors"
	"fmt"
	"io"
)

// Hello is what a client asks for (RFC 8446, section 4.1.2).
type Hello struct {
	// ServerName is as the client wrote it, "" when it named nobody (RFC 6066,
	// section 3).
	ServerName string
	// ECH is true when a second message, with perhaps another name, is
	// encrypted within (RFC 9849), or when the client makes it look so.
	ECH bool
}

// Why a stream holds no hello. Any other error is that of reading it.
var (
	ErrNotTLS    = errors.New("the client does not speak TLS")
	ErrMalformed = errors.New("the TLS ClientHello is malformed")
	ErrTooLong   = errors.New("the TLS ClientHello is too long")
)

// Most is a size, in bytes, that no honest hello comes near: with all its
// extensions and the keys of post-quantum ciphers it has 2 KiB.
const Most = 16 << 10

// The records and messages of TLS (RFC 8446, sections 4 and 5.1).
const (
	recordHandshake    = 22
	recordHeader       = 5
	mostInRecord       = 1 << 14
	messageClientHello = 1
	messageHeader      = 4
)

// Read reads the records that hold a hello, of which the whole has at most
// most bytes, and not a byte beyond them. It returns the bytes that it has read
// whatever comes of it, for they are to be passed on. What does not begin as
// TLS does is ErrNotTLS after a single read of at most five bytes.
func Read(r io.Reader, most int) (Hello, []byte, error) {
	in := records{r: r, most: most}
	for whole := false; !whole; {
		err := in.next()
		if err == nil {
			whole, err = in.complete()
		}
		if err != nil {
			return Hello{}, in.raw, err
		}
	}
	h, err := parse(in.message[messageHeader:])
	if err != nil {
		return Hello{}, in.raw, err
	}
	return h, in.raw, nil
}

// records puts the handshake message together that lies in the records of a
// stream.
type records struct {
	r    io.Reader
	most int
	// raw is all that was read, message the content of its records.
	raw, message []byte
}

// next reads one more record.
func (in *records) next() error {
	first := len(in.raw) == 0
	header, err := in.read(recordHeader)
	switch {
	case first && len(header) > 0 && !looksLikeTLS(header):
		return ErrNotTLS
	case err != nil:
		return err
	case !looksLikeTLS(header):
		return malformed("another record stands within it")
	}
	size := int(header[3])<<8 | int(header[4])
	if size == 0 || size > mostInRecord {
		return malformed("a record has %d bytes", size)
	}
	content, err := in.read(size)
	in.message = append(in.message, content...)
	return err
}

// looksLikeTLS judges a header of which perhaps not all is there. The minor
// version says nothing.
func looksLikeTLS(header []byte) bool {
	return header[0] == recordHandshake && (len(header) == 1 || header[1] == 3)
}

// read returns the next n bytes. The first five come from a single read where
// there is nothing that looks like TLS: who says less then waits for an answer.
func (in *records) read(n int) ([]byte, error) {
	start := len(in.raw)
	if start+n > in.most {
		return nil, ErrTooLong
	}
	in.raw = append(in.raw, make([]byte, n)...)
	got := 0
	if start == 0 {
		var err error
		if got, err = io.ReadAtLeast(in.r, in.raw, 1); err != nil || !looksLikeTLS(in.raw[:got]) {
			in.raw = in.raw[:got]
			return in.raw, err
		}
	}
	rest, err := io.ReadFull(in.r, in.raw[start+got:])
	in.raw = in.raw[:start+got+rest]
	if errors.Is(err, io.EOF) {
		err = io.ErrUnexpectedEOF
	}
	return in.raw[start:], err
}

// complete reports whether the message is all there.
func (in *records) complete() (bool, error) {
	m := in.message
	if m[0] != messageClientHello {
		return false, malformed("it is another message")
	}
	if len(m) < messageHeader {
		return false, nil
	}
	size := messageHeader + int(m[1])<<16 + int(m[2])<<8 + int(m[3])
	switch {
	case size > in.most:
		return false, ErrTooLong
	case len(m) > size:
		return false, malformed("something follows it in its record")
	}
	return len(m) == size, nil
}

func malformed(format string, args ...any) error {
	return fmt.Errorf("%w: %s", ErrMalformed, fmt.Sprintf(format, args...))
}
