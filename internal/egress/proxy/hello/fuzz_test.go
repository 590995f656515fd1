package hello

import (
	"bytes"
	"crypto/tls"
	"errors"
	"io"
	"net"
	"strings"
	"testing"
	"time"

	"palyra/internal/core/must"
)

// tape is a connection that replays one side's data, or records it.
type tape struct {
	net.Conn
	in  io.Reader
	out bytes.Buffer
}

func (c *tape) Read(b []byte) (int, error)       { return c.in.Read(b) }
func (c *tape) Write(b []byte) (int, error)      { return c.out.Write(b) }
func (c *tape) SetDeadline(time.Time) error      { return nil }
func (c *tape) SetWriteDeadline(time.Time) error { return nil }
func (c *tape) Close() error                     { return nil }

// clientHello returns the ClientHello of crypto/tls for a valid configuration.
func clientHello(t testing.TB, c *tls.Config) []byte {
	t.Helper()
	return must.Get(helloOf(c))(t)
}

func helloOf(c *tls.Config) ([]byte, error) {
	said := &tape{in: bytes.NewReader(nil)}
	if err := tls.Client(said, c).Handshake(); !errors.Is(err, io.EOF) {
		return nil, err
	}
	return said.out.Bytes(), nil
}

var errSeen = errors.New("seen")

// serverSees returns the contents of a hello as crypto/tls parses it.
func serverSees(said []byte) (*tls.ClientHelloInfo, error) {
	var seen *tls.ClientHelloInfo
	err := tls.Server(&tape{in: bytes.NewReader(said)}, &tls.Config{GetConfigForClient: func(info *tls.ClientHelloInfo) (*tls.Config, error) {
		seen = info
		return nil, errSeen
	}}).Handshake()
	if seen != nil {
		return seen, nil
	}
	return nil, err
}

// agrees reports whether a server reads the same contents from a hello as this package.
func (h Hello) agrees(seen *tls.ClientHelloInfo) bool {
	return h.ServerName == seen.ServerName
}

// FuzzRead: for any data from a client, also in well-formed records, reading ends within the
// limit. crypto/tls reads the same contents from an accepted hello, if it accepts it. Data that
// crypto/tls accepts as a hello is never reported as no TLS.
func FuzzRead(f *testing.F) {
	f.Add(hello(name("example.org")), uint16(Most))
	f.Add(record(handshake(body(name("example.org"), name("other.example"))), 9), uint16(Most))
	f.Add(clientHello(f, &tls.Config{ServerName: "example.org", NextProtos: []string{"h2"}}), uint16(Most))
	f.Add(clientHello(f, &tls.Config{ServerName: "example.org", MaxVersion: tls.VersionTLS12}), uint16(100))
	f.Add(name("example.org"), uint16(Most))
	f.Add(odd(2, hello(name("example.org"))), uint16(Most))
	f.Add(append([]byte("\x15\x04\x01\x00\x02\x01\x5a"), clientHello(f, &tls.Config{ServerName: "example.org"})...), uint16(Most))
	f.Fuzz(func(t *testing.T, bytes []byte, most uint16) {
		checkRead(t, bytes, int(most))
		checkRead(t, hello(bytes), Most)
	})
}

func checkRead(t *testing.T, said []byte, most int) {
	t.Helper()
	in := bytes.NewReader(said)
	h, raw, err := Read(in, most)
	if !bytes.Equal(raw, said[:len(said)-in.Len()]) || len(raw) > most {
		t.Fatalf("read %d bytes, returned %d of at most %d", len(said)-in.Len(), len(raw), most)
	}
	if errors.Is(err, ErrNotTLS) {
		if seen, err := serverSees(said); err == nil {
			t.Errorf("no TLS, and the server sees %q", seen.ServerName)
		}
	}
	if err != nil {
		return
	}
	if seen, err := serverSees(raw); err == nil && !h.agrees(seen) {
		t.Errorf("parsed %+v, the server sees %q %q", h, seen.ServerName, seen.SupportedProtos)
	}
}

// FuzzClient: every hello of crypto/tls is read, in records of any size, with the contents that
// the server sees. With one byte changed, it is refused or has the contents that the server
// sees.
func FuzzClient(f *testing.F) {
	f.Add("example.org", "h2,http/1.1", uint16(tls.VersionTLS13), uint16(100), uint16(60), byte(1))
	f.Add("a", "", uint16(tls.VersionTLS12), uint16(1), uint16(5), byte(0))
	f.Add("xn--bcher-kva.example", "acme-tls/1", uint16(tls.VersionTLS10), uint16(9999), uint16(200), byte(0xff))
	f.Fuzz(func(t *testing.T, host, protocols string, version, size, at uint16, change byte) {
		c := &tls.Config{ServerName: host, MinVersion: tls.VersionTLS10, MaxVersion: version, InsecureSkipVerify: host == ""}
		if protocols != "" {
			c.NextProtos = strings.Split(protocols, ",")
		}
		said, err := helloOf(c)
		if err != nil {
			return // crypto/tls refuses this configuration
		}
		seen, err := serverSees(said)
		if err != nil {
			return // servers refuse this name
		}
		h, _, err := Read(bytes.NewReader(said), 1<<16)
		if err != nil || !h.agrees(seen) {
			t.Fatalf("parsed %+v, %v, the server sees %q %q", h, err, seen.ServerName, seen.SupportedProtos)
		}
		cut := record(said[recordHeader:], int(size%mostInRecord)+1)
		if again, raw, err := Read(bytes.NewReader(cut), len(cut)); err != nil || again != h || len(raw) != len(cut) {
			t.Errorf("in records of %d bytes: %+v, %v", size, again, err)
		}
		said[int(at)%len(said)] ^= change
		checkRead(t, append([]byte{21, 3 ^ change, 1, 0, 2, 1, change}, said...), 1<<16)
		if h, _, err = Read(bytes.NewReader(said), 1<<16); err != nil {
			checkRead(t, said, 1<<16)
			return
		}
		if seen, err := serverSees(said); err == nil && !h.agrees(seen) {
			t.Errorf("changed: parsed %+v, the server sees %q %q", h, seen.ServerName, seen.SupportedProtos)
		}
	})
}
