package proxy

import (
	"bufio"
	"bytes"
	"crypto/tls"
	"io"
	"net"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"palyra/internal/core/must"
	"palyra/internal/egress"
)

// lenient is a server that reads evil.test, a name of the same length, from the data of a
// client that should request good.test.
type lenient struct {
	// start starts the server for one connection. After that connection has ended, asked reports
	// whether the client requested evil.test.
	start func(*testing.T) (address string, asked func() bool)
	// port is the port for programs.
	port string
	// say changes a single write of a client that requests good.test; nth numbers the writes.
	say    func(nth int, b []byte) []byte
	reason string
}

func lenientServers() map[string]lenient {
	evil := func(b []byte) []byte { return bytes.ReplaceAll(b, []byte("good.test"), []byte("evil.test")) }
	// before inserts a prefix before the hello.
	before := func(prefix string) func(int, []byte) []byte {
		return func(nth int, b []byte) []byte {
			if nth == 0 {
				b = append([]byte(prefix), b...)
			}
			return evil(b)
		}
	}
	version := func(major byte) func(int, []byte) []byte {
		return func(nth int, b []byte) []byte {
			if b = evil(b); nth == 0 {
				b[1] = major
			}
			return b
		}
	}
	second := func(nth int, b []byte) []byte {
		if nth == 0 {
			return b
		}
		return evil(b)
	}
	inPieces := func(nth int, b []byte) []byte {
		if nth == 0 || b[0] != recordHandshake {
			return b
		}
		return records(evil(b), 9)
	}
	retrying := func(t *testing.T) (string, func() bool) { return openSSL(t, "-groups", "P-384") }
	plain := func(t *testing.T) (string, func() bool) { return openSSL(t) }
	return map[string]lenient{
		"a second hello":                        {retrying, "443", second, egress.ReasonNameMismatch},
		"a second hello in pieces":              {retrying, "443", inPieces, egress.ReasonNameMismatch},
		"a second hello on any port":            {retrying, "8443", second, egress.ReasonNameMismatch},
		"an empty record before":                {plain, "8443", before("\x14\x03\x01\x00\x00"), egress.ReasonBadTLS},
		"an empty record of the handshake":      {plain, "8443", before("\x16\x03\x01\x00\x00"), egress.ReasonBadTLS},
		"a warning before":                      {goTLS, "8443", before("\x15\x03\x01\x00\x02\x01\x5a"), egress.ReasonBadTLS},
		"a warning of an odd version before":    {goTLS, "8443", before("\x15\x0f\x01\x00\x02\x01\x5a"), egress.ReasonBadTLS},
		"a lower version":                       {goTLS, "8443", version(0), egress.ReasonBadTLS},
		"a higher version":                      {goTLS, "8443", version(15), egress.ReasonBadTLS},
		"a version that is right, another name": {goTLS, "8443", version(3), egress.ReasonNameMismatch},
	}
}

// altered is a connection that changes its writes.
type altered struct {
	net.Conn
	say func(int, []byte) []byte
	nth int
}

func (a *altered) Write(b []byte) (int, error) {
	said := a.say(a.nth, bytes.Clone(b))
	a.nth++
	if _, err := a.Conn.Write(said); err != nil {
		return 0, err
	}
	return len(b), nil
}

// handshake attempts TLS for good.test.
func (l lenient) handshake(conn net.Conn) {
	defer conn.Close()
	_ = tls.Client(&altered{Conn: conn, say: l.say}, &tls.Config{
		ServerName: "good.test", InsecureSkipVerify: true, CurvePreferences: []tls.CurveID{tls.X25519, tls.CurveP384},
	}).Handshake()
}

// If some server accepts data as TLS, the proxy judges it as TLS, and judges the name that the
// server reads. Without the proxy, each server reads the other name.
func TestLenientServers(t *testing.T) {
	t.Parallel()
	for name, l := range lenientServers() {
		t.Run(name+", nobody between", func(t *testing.T) {
			address, asked := l.start(t)
			conn := must.Get(net.Dial("tcp", address))(t)
			l.handshake(withDeadline(t, conn))
			if !asked() {
				t.Error("this server does not take the name at all")
			}
		})
		for leg, connect := range legs {
			t.Run(name+", "+leg, func(t *testing.T) {
				address, asked := l.start(t)
				w := newWorld(t)
				w.host("good.test:"+l.port, func(conn net.Conn) { join(conn, address) })
				w.serve(grantOf(t, "good.test:"+l.port))
				conn := must.Get(connect(w, "good.test:"+l.port))(t)
				l.handshake(withDeadline(t, conn))
				if got := w.only(); got.Verdict != egress.VerdictDenied || got.Reason != l.reason {
					t.Errorf("ledger: %+v, want %s", got, l.reason)
				}
				if asked() {
					t.Error("the server was asked for evil.test")
				}
			})
		}
	}
}

// join connects a connection with a server until either side ends.
func join(conn net.Conn, address string) {
	server, err := net.Dial("tcp", address)
	if err != nil {
		return
	}
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		_, _ = io.Copy(conn, server)
		conn.Close()
	}()
	_, _ = io.Copy(server, conn)
	server.Close()
	<-ended
}

// goTLS is a server with crypto/tls.
func goTLS(t *testing.T) (string, func() bool) {
	l := listen(t)
	seen := make(chan string, 1)
	go func() {
		defer close(seen)
		defer l.Close()
		conn, err := l.Accept()
		if err != nil {
			return
		}
		defer conn.Close()
		_ = tls.Server(conn, &tls.Config{GetConfigForClient: func(h *tls.ClientHelloInfo) (*tls.Config, error) {
			seen <- h.ServerName
			return nil, io.EOF
		}}).Handshake()
	}()
	return l.Addr().String(), func() bool { return <-seen == "evil.test" }
}

// openSSL is a server with a second host evil.test.
func openSSL(t *testing.T, options ...string) (string, func() bool) {
	t.Helper()
	key, certificate := filepath.Join(t.TempDir(), "key"), filepath.Join(t.TempDir(), "certificate")
	made, err := exec.Command("openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes",
		"-subj", "/CN=test", "-keyout", key, "-out", certificate).CombinedOutput()
	if err != nil {
		t.Fatalf("openssl (Debian: apt install openssl): %v\n%s", err, made)
	}
	server := exec.Command("openssl", slices.Concat([]string{"s_server", "-accept", "127.0.0.1:0", "-naccept", "1", "-www",
		"-cert", certificate, "-key", key, "-servername", "evil.test", "-cert2", certificate, "-key2", key}, options)...)
	out := must.Get(server.StdoutPipe())(t)
	must.Do(t, server.Start())
	t.Cleanup(func() {
		_ = server.Process.Kill() // it has usually exited already
		_ = server.Wait()
	})
	lines := bufio.NewScanner(out)
	for lines.Scan() {
		if _, address, ok := strings.Cut(lines.Text(), "ACCEPT "); ok {
			return address, func() bool {
				switched := false
				for lines.Scan() {
					switched = switched || lines.Text() == "Switching server context."
				}
				return switched
			}
		}
	}
	t.Fatal("openssl s_server does not begin")
	return "", nil
}
