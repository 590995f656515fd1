package hello

import (
	"bytes"
	"crypto/tls"
	"encoding/binary"
	"errors"
	"io"
	"slices"
	"strings"
	"testing"
	"testing/iotest"
	"testing/synctest"

	"palyra/internal/core/must"
)

// part returns contents with a length prefix.
func part(size int, content ...[]byte) []byte {
	all := bytes.Join(content, nil)
	var n [8]byte
	binary.BigEndian.PutUint64(n[:], uint64(len(all)))
	return append(n[8-size:], all...)
}

func extension(kind uint16, content []byte) []byte {
	return append(binary.BigEndian.AppendUint16(nil, kind), part(2, content)...)
}

func name(s string) []byte {
	return extension(extensionServerName, part(2, []byte{0}, part(2, []byte(s))))
}

// body returns the body of a hello.
func body(extensions ...[]byte) []byte {
	start := append([]byte{3, 3}, make([]byte, 32)...)
	start = append(start, "\x00\x00\x02\x13\x01\x01\x00"...)
	if extensions == nil {
		return start
	}
	return append(start, part(2, extensions...)...)
}

func handshake(body []byte) []byte { return append([]byte{1}, part(3, body)...) }

// record splits a message into records of at most size bytes.
func record(message []byte, size int) []byte {
	var all []byte
	for piece := range slices.Chunk(message, size) {
		all = append(append(all, 22, 3, 1), part(2, piece)...)
	}
	return all
}

func hello(extensions ...[]byte) []byte { return record(handshake(body(extensions...)), mostInRecord) }

// odd changes the major version of the first record.
func odd(major byte, said []byte) []byte {
	said[1] = major
	return said
}

func TestRead(t *testing.T) {
	t.Parallel()
	sni := name("example.org")
	for _, test := range []struct {
		name  string
		bytes []byte
		want  Hello
		err   error
	}{
		{"all", hello(sni, extension(extensionECH, []byte("x"))), Hello{"example.org", true}, nil},
		{"no extensions", hello(), Hello{}, nil},
		{"empty extensions", hello([]byte{}), Hello{}, nil},
		{"unknown extension", hello(extension(0x4a4a, []byte("grease")), sni), Hello{ServerName: "example.org"}, nil},
		{"in records of one byte", record(handshake(body(sni)), 1), Hello{ServerName: "example.org"}, nil},
		{"in records of seven bytes", record(handshake(body(sni)), 7), Hello{ServerName: "example.org"}, nil},

		{"text", []byte("GET / HTTP/1.1\r\n\r\n"), Hello{}, ErrNotTLS},
		{"telnet", []byte("\xff\xfd\x01"), Hello{}, ErrNotTLS},
		{"a length, lowest byte first", []byte("\x16\x01\x00\x00\x07\x00\x00\x00"), Hello{}, ErrNotTLS},
		{"a length, lowest byte first, before zeroes", []byte("\x16\x01\x00\x00\x00\x00\x00\x00"), Hello{}, ErrNotTLS},
		{"version beyond all servers", []byte("\x16\x10\x01\x00\x2f\x01\x00\x00"), Hello{}, ErrNotTLS},
		{"the name of a method", []byte("\x82\x21\x01\x03put"), Hello{}, ErrNotTLS}, // Thrift
		{"little that may become TLS", []byte("\x15\x02"), Hello{}, ErrNotTLS},
		{"little that may become SSLv2", []byte("\x80\x2e\x01\x03"), Hello{}, ErrNotTLS},

		{"SSLv2", []byte("\x80\x2e\x01\x03\x01\x00\x15\x00\x00\x00\x10"), Hello{}, ErrMalformed},
		{"SSLv2 of its own version", []byte("\x80\x2e\x01\x00\x02\x00\x15\x00\x00\x00\x10"), Hello{}, ErrMalformed},
		{"warning", append([]byte("\x15\x03\x01\x00\x02\x01\x5a"), hello(sni)...), Hello{}, ErrMalformed},
		{"warning of an odd version", append([]byte("\x15\x02\x01\x00\x02\x01\x5a"), hello(sni)...), Hello{}, ErrMalformed},
		{"change of ciphers", append([]byte("\x14\x03\x03\x00\x01\x01"), hello(sni)...), Hello{}, ErrMalformed},
		{"empty change of ciphers", append([]byte("\x14\x03\x01\x00\x00"), hello(sni)...), Hello{}, ErrMalformed},
		{"empty record of an odd version", append([]byte("\x16\x02\x01\x00\x00"), hello(sni)...), Hello{}, ErrMalformed},
		{"heartbeat", append([]byte("\x18\x03\x01\x00\x03\x01\x00\x00"), hello(sni)...), Hello{}, ErrMalformed},
		{"data", append([]byte("\x17\x03\x03\x00\x02\x01\x00"), hello(sni)...), Hello{}, ErrMalformed},
		{"lower major version", odd(2, hello(sni)), Hello{}, ErrMalformed},
		{"higher major version", odd(4, hello(sni)), Hello{}, ErrMalformed},
		{"highest major version", odd(15, record(handshake(body(sni)), 1)), Hello{}, ErrMalformed},
		{"ServerHello", record(append([]byte{2}, part(3, body(sni))...), mostInRecord), Hello{}, ErrMalformed},
		{"alert within", append(record(handshake(body(sni))[:9], mostInRecord), "\x15\x03\x01\x00\x02\x01\x00"...), Hello{}, ErrMalformed},
		{"empty record", []byte("\x16\x03\x01\x00\x00"), Hello{}, ErrMalformed},
		{"record too large", append([]byte("\x16\x03\x01\x40\x01"), make([]byte, 1<<14+1)...), Hello{}, ErrMalformed},
		{"second message in the record", record(append(handshake(body(sni)), handshake(body(name("other.example")))...), mostInRecord), Hello{}, ErrMalformed},
		{"bytes after the extensions", record(handshake(append(body(sni), 0)), mostInRecord), Hello{}, ErrMalformed},
		{"extensions too short", record(handshake(append(body(), 0, 9, 0)), mostInRecord), Hello{}, ErrMalformed},
		{"extension too short", hello([]byte{0, 0, 0, 9, 1}), Hello{}, ErrMalformed},
		{"no body", record(handshake(nil), mostInRecord), Hello{}, ErrMalformed},
		{"session too long", record(handshake(slices.Concat([]byte{3, 3}, make([]byte, 32), part(1, make([]byte, 33)), part(2, []byte{1, 2}), part(1, []byte{0}))), mostInRecord), Hello{}, ErrMalformed},
		{"no suites", record(handshake(slices.Concat([]byte{3, 3}, make([]byte, 32), part(1), part(2), part(1, []byte{0}))), mostInRecord), Hello{}, ErrMalformed},
		{"half a suite", record(handshake(slices.Concat([]byte{3, 3}, make([]byte, 32), part(1), part(2, []byte{1, 2, 3}), part(1, []byte{0}))), mostInRecord), Hello{}, ErrMalformed},
		{"no compression", record(handshake(slices.Concat([]byte{3, 3}, make([]byte, 32), part(1), part(2, []byte{1, 2}), part(1))), mostInRecord), Hello{}, ErrMalformed},
		{"name twice", hello(sni, sni), Hello{}, ErrMalformed},
		{"two names", hello(extension(0, part(2, []byte{0}, part(2, []byte("a")), []byte{0}, part(2, []byte("b"))))), Hello{}, ErrMalformed},
		{"name of another kind", hello(extension(0, part(2, []byte{1}, part(2, []byte("a"))))), Hello{}, ErrMalformed},
		{"empty name", hello(name("")), Hello{}, ErrMalformed},
		{"empty list of names", hello(extension(0, part(2))), Hello{}, ErrMalformed},
		{"bytes after the names", hello(extension(0, append(part(2, []byte{0}, part(2, []byte("a"))), 0))), Hello{}, ErrMalformed},
		{"dot after the name", hello(name("example.org.")), Hello{}, ErrMalformed},
		{"too long by its own word", record([]byte{1, 0xff, 0xff, 0xff, 0}, mostInRecord), Hello{}, ErrTooLong},
		{"too long in records", record(handshake(body(extension(9, make([]byte, 1<<14)))), 1), Hello{}, ErrTooLong},

		{"nothing", nil, Hello{}, io.EOF},
		{"ends in the header", []byte("\x16\x03\x01"), Hello{}, io.ErrUnexpectedEOF},
		{"ends after the header", []byte("\x16\x03\x01\x00\x09"), Hello{}, io.ErrUnexpectedEOF},
		{"ends in the message", hello(sni)[:30], Hello{}, io.ErrUnexpectedEOF},
		{"ends between records", record(handshake(body(sni)), 30)[:35], Hello{}, io.ErrUnexpectedEOF},
	} {
		t.Run(test.name, func(t *testing.T) {
			for how, reader := range map[string]func(io.Reader) io.Reader{"at once": whole, "byte by byte": iotest.OneByteReader, "error with data": iotest.DataErrReader} {
				in := bytes.NewReader(test.bytes)
				got, raw, err := Read(reader(in), Most)
				if test.err == nil {
					if err != nil || got != test.want || !bytes.Equal(raw, test.bytes) {
						t.Errorf("%s: %+v, %v, %d of %d bytes", how, got, err, len(raw), len(test.bytes))
					}
					continue
				}
				if !errors.Is(err, test.err) || got != (Hello{}) {
					t.Errorf("%s: %+v, %v", how, got, err)
				}
				if !bytes.HasPrefix(test.bytes, raw) || errors.Is(err, ErrNotTLS) && len(raw) > recordHeader+1 {
					t.Errorf("%s: %x was read", how, raw)
				}
			}
		})
	}
}

func whole(r io.Reader) io.Reader { return r }

// TestNothingBeyondIsRead: bytes after a hello, and bytes beyond the limit, stay in the stream.
func TestNothingBeyondIsRead(t *testing.T) {
	t.Parallel()
	first := record(handshake(body(name("example.org"))), 20)
	in := bytes.NewReader(append(slices.Clone(first), "early data"...))
	if _, raw, err := Read(in, len(first)); err != nil || !bytes.Equal(raw, first) || in.Len() != len("early data") {
		t.Errorf("%v, read %d of %d bytes, %d are left", err, len(raw), len(first), in.Len())
	}
	in.Reset(first)
	if _, raw, err := Read(in, len(first)-1); !errors.Is(err, ErrTooLong) || len(raw) > len(first)-1 {
		t.Errorf("one byte over the limit: %v, read %d", err, len(raw))
	}
}

// TestShortInputIsNotAwaited: a client of another protocol, such as telnet, may send less than a
// TLS record header and wait for a response.
func TestShortInputIsNotAwaited(t *testing.T) {
	t.Parallel()
	for _, word := range []string{"x", "\xff\xfd\x01", "\x80\x01\x00", "\x16\x10", "\x19\x03"} {
		synctest.Test(t, func(t *testing.T) {
			near, far := io.Pipe()
			defer near.Close()
			go func() { _, _ = far.Write([]byte(word)) }()
			if _, raw, err := Read(near, Most); !errors.Is(err, ErrNotTLS) || string(raw) != word {
				t.Errorf("%v, %q", err, raw)
			}
		})
	}
}

// TestClients reads the hello of crypto/tls for several configurations.
func TestClients(t *testing.T) {
	t.Parallel()
	for _, config := range []*tls.Config{
		{ServerName: "example.org"},
		{ServerName: "EXAMPLE.org", NextProtos: []string{"h2", "http/1.1"}},
		{ServerName: "example.org", MaxVersion: tls.VersionTLS12},
		{ServerName: "example.org", MinVersion: tls.VersionTLS13, CurvePreferences: []tls.CurveID{tls.X25519MLKEM768}},
		{ServerName: "192.0.2.1"}, // clients send no name for an address
		{ServerName: strings.Repeat("a.", 126) + "a", NextProtos: []string{strings.Repeat("p", 255)}},
	} {
		sent := clientHello(t, config)
		got, raw, err := Read(bytes.NewReader(sent), Most)
		if err != nil || !bytes.Equal(raw, sent) {
			t.Fatalf("%+v: %v", config, err)
		}
		seen := must.Get(serverSees(sent))(t)
		if !got.agrees(seen) {
			t.Errorf("parsed %+v, the server sees %q %q", got, seen.ServerName, seen.SupportedProtos)
		}
	}
}
