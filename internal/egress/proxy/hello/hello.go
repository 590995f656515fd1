// Package hello reads the first message of a TLS client, which contains the server name in the
// clear. It is stricter than a TLS server: it rejects a message from which two readers might derive
// different names.
package hello

import (
	"errors"
	"fmt"
	"io"
)

// Hello is the request of a client (RFC 8446, section 4.1.2).
type Hello struct {
	// ServerName is the name as sent by the client, or "" without one (RFC 6066, section 3).
	ServerName string
	// ECH is true if the client sends, or pretends to send, an encrypted second hello (RFC 9849),
	// which may have another name.
	ECH bool
}

// Errors of a stream without a valid hello. Any other error is a read error.
var (
	ErrNotTLS    = errors.New("the client does not speak TLS")
	ErrMalformed = errors.New("the TLS ClientHello is malformed")
	ErrTooLong   = errors.New("the TLS ClientHello is too long")
)

// Most is a size in bytes far above any ordinary hello. A hello with all its extensions and
// post-quantum keys has 2 KiB.
const Most = 16 << 10

// The records and messages of TLS (RFC 8446, sections 4 and 5.1).
const (
	recordHandshake    = 22
	recordHeader       = 5
	mostInRecord       = 1 << 14
	messageClientHello = 1
	messageHeader      = 4
)

// Read reads the records that contain a hello of at most most bytes in total, and not a byte beyond
// them. It always returns the bytes that it has read, because they must be passed on. A stream that
// is not TLS to any server returns ErrNotTLS after at most six bytes; while it may be TLS, Read
// waits for more. A stream that some server might accept, but that is not a hello as sent by
// current clients, returns ErrMalformed.
func Read(r io.Reader, most int) (Hello, []byte, error) {
	in := records{r: r, most: most}
	err := in.begin()
	for whole := false; err == nil && !whole; {
		if err = in.next(); err == nil {
			whole, err = in.complete()
		}
	}
	if err != nil {
		return Hello{}, in.raw, err
	}
	h, err := parse(in.message[messageHeader:])
	if err != nil {
		return Hello{}, in.raw, err
	}
	return h, in.raw, nil
}

// records assembles the handshake message from the records of a stream.
type records struct {
	r    io.Reader
	most int
	// raw holds all bytes read, of which at bytes are consumed; message is the content of the
	// consumed records.
	raw     []byte
	at      int
	message []byte
}

// begin reads enough bytes to recognise TLS. It returns ErrNotTLS as early as possible, because
// a client of another protocol may send fewer bytes and wait for an answer.
func (in *records) begin() error {
	const enough = recordHeader + 1
	if in.most < enough {
		return ErrTooLong
	}
	in.raw = make([]byte, 0, enough)
	for len(in.raw) < enough && !today(in.raw) {
		n, err := in.r.Read(in.raw[len(in.raw):enough])
		in.raw = in.raw[:len(in.raw)+n]
		switch {
		case len(in.raw) > 0 && !maybeTLS(in.raw):
			return ErrNotTLS
		case n == 0 && len(in.raw) > 0 && errors.Is(err, io.EOF):
			return ErrNotTLS // it can no longer become TLS
		case n == 0 && err != nil:
			return err
		}
	}
	if !today(in.raw) {
		return malformed("no client begins like this today")
	}
	return nil
}

// today reports whether a record header belongs to a handshake in SSL 3.0 or TLS. The minor version
// is not checked.
func today(header []byte) bool {
	return len(header) >= 2 && header[0] == recordHandshake && header[1] == 3
}

// maybeTLS reports whether any server might accept a stream with this beginning as TLS. Some ignore
// the version; some skip alerts, cipher changes and empty records before the hello; some accept the
// hello of SSL 2.0 (RFC 5246, appendix E.2). Numbers at the start of other protocols may look like
// a version. But every message that a server skips or reads has a 1 as its first byte: a hello, a
// warning, a cipher change or a heartbeat.
func maybeTLS(b []byte) bool {
	switch {
	case b[0]&0xc0 == 0x80: // a length of less than 0x4000
		return (len(b) < 3 || b[2] == messageClientHello) && (len(b) < 4 || b[3] < 0x10) && (len(b) < 5 || b[4] < 0x10)
	case !recordType(b[0]) || len(b) > 1 && b[1] >= 0x10:
		return false
	case len(b) <= recordHeader || b[1] == 3:
		return true
	case b[3] == 0 && b[4] == 0:
		return recordType(b[recordHeader])
	}
	return b[recordHeader] == 1
}

// recordType is true from change_cipher_spec to heartbeat (RFC 6520).
func recordType(b byte) bool { return 20 <= b && b <= 24 }

// next reads one more record.
func (in *records) next() error {
	header, err := in.take(recordHeader)
	if err != nil {
		return err
	}
	if !today(header) {
		return malformed("another record stands within it")
	}
	size := int(header[3])<<8 | int(header[4])
	if size == 0 || size > mostInRecord {
		return malformed("a record has %d bytes", size)
	}
	content, err := in.take(size)
	in.message = append(in.message, content...)
	return err
}

// take returns the next n bytes, some of which may already be read.
func (in *records) take(n int) ([]byte, error) {
	had, end := len(in.raw), in.at+n
	if end > in.most {
		return nil, ErrTooLong
	}
	if had < end {
		in.raw = append(in.raw, make([]byte, end-had)...)
		got, err := io.ReadFull(in.r, in.raw[had:])
		if in.raw = in.raw[:had+got]; err != nil {
			if errors.Is(err, io.EOF) {
				err = io.ErrUnexpectedEOF
			}
			return nil, err
		}
	}
	taken := in.raw[in.at:end]
	in.at = end
	return taken, nil
}

// complete reports whether the whole message is read.
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
