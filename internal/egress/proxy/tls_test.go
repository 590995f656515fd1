package proxy

import (
	"bytes"
	"crypto/tls"
	"encoding/binary"
	"errors"
	"io"
	"net"
	"syscall"
	"testing"

	"palyra/internal/core/must"
	"palyra/internal/egress"
)

// clientHello returns the first message of a TLS client, in one record.
func clientHello(t testing.TB, name string) []byte {
	t.Helper()
	here, there := net.Pipe()
	defer here.Close()
	defer there.Close()
	client := tls.Client(there, &tls.Config{ServerName: name, InsecureSkipVerify: true})
	go func() { _ = client.Handshake() }()
	head := make([]byte, 5)
	must.Get(io.ReadFull(here, head))(t)
	body := make([]byte, binary.BigEndian.Uint16(head[3:]))
	must.Get(io.ReadFull(here, body))(t)
	return append(head, body...)
}

// records splits the message of one record into records of at most size bytes.
func records(record []byte, size int) []byte {
	var out []byte
	for rest := record[5:]; len(rest) > 0; {
		n := min(size, len(rest))
		out = append(out, record[0], record[1], record[2], byte(n>>8), byte(n))
		out = append(out, rest[:n]...)
		rest = rest[n:]
	}
	return out
}

// withECH adds an extension that looks like an encrypted ClientHello.
func withECH(t testing.TB, record []byte) []byte {
	t.Helper()
	extension := []byte{0xfe, 0x0d, 0, 4, 1, 2, 3, 4}
	out := append(bytes.Clone(record), extension...)
	add := func(at int) {
		binary.BigEndian.PutUint16(out[at:], binary.BigEndian.Uint16(out[at:])+uint16(len(extension)))
	}
	add(3) // the record
	add(7) // the message, whose length has three bytes
	at := 5 + 4 + 2 + 32
	at += 1 + int(out[at])                               // session
	at += 2 + int(binary.BigEndian.Uint16(out[at:at+2])) // suites
	at += 1 + int(out[at])                               // compressions
	if int(binary.BigEndian.Uint16(out[at:]))+at+2 != len(record) {
		t.Fatal("the extensions are somewhere else")
	}
	add(at)
	return out
}

func TestTLSThatDoesNotAskForTheTarget(t *testing.T) {
	t.Parallel()
	good := clientHello(t, "api.test")
	for name, c := range map[string]struct {
		target string
		says   []byte
		reason string
	}{
		"another name":                {"api.test:443", clientHello(t, "evil.test"), egress.ReasonNameMismatch},
		"another allowed name":        {"api.test:443", clientHello(t, "www.api.test"), egress.ReasonNameMismatch},
		"no name":                     {"api.test:443", clientHello(t, ""), egress.ReasonNoName},
		"a name for an address":       {"11.9.9.9:443", clientHello(t, "api.test"), egress.ReasonNameMismatch},
		"another name, split":         {"api.test:443", records(clientHello(t, "evil.test"), 7), egress.ReasonNameMismatch},
		"encrypted, outer name":       {"api.test:443", withECH(t, clientHello(t, "cdn.test")), egress.ReasonEncryptedName},
		"encrypted, no outer name":    {"api.test:443", withECH(t, clientHello(t, "")), egress.ReasonEncryptedName},
		"encrypted, for an address":   {"11.9.9.9:443", withECH(t, clientHello(t, "")), egress.ReasonEncryptedName},
		"plain text":                  {"api.test:443", []byte("hello there"), egress.ReasonBadTLS},
		"one byte of plain text":      {"api.test:443", []byte("h"), egress.ReasonBadTLS},
		"an alert":                    {"api.test:443", []byte{21, 3, 1, 0, 2, 1, 0}, egress.ReasonBadTLS},
		"another message":             {"api.test:443", []byte{22, 3, 1, 0, 4, 2, 0, 0, 0}, egress.ReasonBadTLS},
		"a record without end":        {"api.test:443", []byte{22, 3, 1, 0xff, 0xff, 1}, egress.ReasonBadTLS},
		"a hello cut short":           {"api.test:443", append([]byte{22, 3, 1, 0, 9, 1, 0, 0, 5}, good[11:16]...), egress.ReasonBadTLS},
		"another name on any port":    {"api.test:8443", clientHello(t, "evil.test"), egress.ReasonNameMismatch},
		"no name on any port":         {"api.test:8443", clientHello(t, ""), egress.ReasonNoName},
		"malformed on any port":       {"api.test:8443", []byte{22, 3, 1, 0, 4, 2, 0, 0, 0}, egress.ReasonBadTLS},
		"another version on any port": {"api.test:8443", append([]byte{22, 2}, clientHello(t, "api.test")[2:]...), egress.ReasonBadTLS},
		"an alert before on any port": {"api.test:8443", append([]byte{21, 3, 1, 0, 2, 1, 90}, clientHello(t, "api.test")...), egress.ReasonBadTLS},
		"a balancer's line":           {"api.test:8443", []byte("PROXY TCP4 1.2.3.4 5.6.7.8 1 2\r\n"), egress.ReasonBadHTTP},
		"a balancer's binary line":    {"api.test:8443", []byte("\r\n\r\n\x00\r\nQUIT\n\x21\x11\x00\x0c"), egress.ReasonBadHTTP},
		"no version on any port":      {"api.test:8443", []byte("GET /\r\n"), egress.ReasonBadHTTP},
		"another name, inspected":     {"seen.test:443", clientHello(t, "api.test"), egress.ReasonNameMismatch},
		"no name, inspected":          {"seen.test:443", clientHello(t, ""), egress.ReasonNoName},
		"plain text, inspected":       {"seen.test:443", []byte("hello there"), egress.ReasonBadTLS},
		"another name, port of HTTP":  {"api.test:80", clientHello(t, "evil.test"), egress.ReasonBadHTTP},
	} {
		for leg, connect := range legs {
			t.Run(leg+" "+name, func(t *testing.T) {
				w := newWorld(t)
				heard := w.listening(c.target)
				grant := grantOf(t, "*.test:443", "*.test:8443", "*.test:80", "11.9.9.9:443")
				grant.Inspect = []egress.Inspection{{Host: grantOf(t, "seen.test:443").Rules.Allow[0]}}
				w.serve(grant)
				conn := w.must(connect(w, c.target))
				w.wantDisconnect(conn, c.says)
				got := w.only()
				if got.Verdict != egress.VerdictDenied || got.Reason != c.reason || got.BytesOut != 0 {
					t.Errorf("ledger: %+v, want %s", got, c.reason)
				}
				w.nothing(heard)
			})
		}
	}
}

// listening adds hosts that send nothing. The channel receives the data of each connection once
// it has ended.
func (w *world) listening(targets ...string) <-chan []byte {
	heard := make(chan []byte, 10)
	for _, target := range targets {
		w.host(target, func(conn net.Conn) {
			all, _ := io.ReadAll(conn) // may end with a reset
			heard <- all
		})
	}
	return heard
}

// nothing checks that no host received any data. The proxy MUST have ended.
func (w *world) nothing(heard <-chan []byte) {
	w.t.Helper()
	for range w.dialled {
		if said := <-heard; len(said) != 0 {
			w.t.Errorf("the host heard %q", said)
		}
	}
}

// wantDisconnect sends a text and checks that the connection is closed, with at most an HTTP
// refusal before.
func (w *world) wantDisconnect(conn net.Conn, says []byte) {
	w.t.Helper()
	defer conn.Close()
	withDeadline(w.t, conn)
	must.Get(conn.Write(says))(w.t)
	got, err := io.ReadAll(conn)
	switch {
	case bytes.HasPrefix(got, []byte("HTTP/1.1 4")):
	case len(got) > 0 || !errors.Is(err, syscall.ECONNRESET):
		w.t.Errorf("the program sees %q, %v, want a reset", got, err)
	}
}

// slicer changes how the first message of a client is written.
type slicer struct {
	net.Conn
	slice func(net.Conn, []byte) error
	done  bool
}

func (s *slicer) Write(b []byte) (int, error) {
	if s.done {
		return s.Conn.Write(b)
	}
	s.done = true
	return len(b), s.slice(s.Conn, b)
}

func TestTLSThatAsksForTheTarget(t *testing.T) {
	t.Parallel()
	for name, slice := range map[string]func(net.Conn, []byte) error{
		"at once": func(conn net.Conn, b []byte) error {
			_, err := conn.Write(b)
			return err
		},
		"byte by byte": func(conn net.Conn, b []byte) error {
			for i := range b {
				if _, err := conn.Write(b[i : i+1]); err != nil {
					return err
				}
			}
			return nil
		},
		"in many records": func(conn net.Conn, b []byte) error {
			_, err := conn.Write(records(b, 20))
			return err
		},
	} {
		for _, target := range []string{"API.test.:443", "api.test:8443", "seen.test:443"} {
			t.Run(name+" "+target, func(t *testing.T) {
				w := newWorld(t)
				w.host("api.test:443", w.secure("api.test", pages))
				w.host("api.test:8443", w.secure("api.test", pages))
				w.host("seen.test:443", w.secure("seen.test", pages))
				grant := grantOf(t, "*.test:443", "*.test:8443")
				grant.Inspect = []egress.Inspection{{Host: grantOf(t, "seen.test:443").Rules.Allow[0]}}
				w.serve(grant)
				w.trustSession()
				conn := w.must(w.connect(target))
				host := mustTarget(t, target)
				secured := w.client(&slicer{Conn: conn, slice: slice}, host.Host.String())
				defer secured.Close()
				get(t, secured, target, "GET ")
				issuer := secured.ConnectionState().PeerCertificates[0].Issuer.String()
				if inspected := issuer != w.issuer(); inspected != (host.Host == mustHost(t, "seen.test")) {
					t.Errorf("the issuer is %s", issuer)
				}
			})
		}
	}
}

// A hello without a name is allowed only to a target that is an address.
func TestTLSToAnAddressHasNoName(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	said := clientHello(t, "")
	heard := w.listening("11.9.9.9:443")
	w.serve(grantOf(t, "11.9.9.9:443"))
	conn := w.must(w.transparent("11.9.9.9:443"))
	must.Get(conn.Write(said))(t)
	conn.Close()
	if got := <-heard; !bytes.Equal(got, said) {
		t.Errorf("the host heard %x", got)
	}
}

func TestAnEncryptedHelloWithTheRightOuterNamePasses(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	said := withECH(t, clientHello(t, "api.test"))
	heard := w.listening("api.test:443")
	w.serve(grantOf(t, "api.test:443"))
	conn := w.must(w.socks5("api.test:443"))
	must.Get(conn.Write(said))(t)
	conn.Close()
	if got := <-heard; !bytes.Equal(got, said) {
		t.Errorf("the host heard %x", got)
	}
}
