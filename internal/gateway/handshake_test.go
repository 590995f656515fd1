package gateway

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"io"
	"log/slog"
	"math/big"
	"net"
	"net/http"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"palyra/internal/core/must"
)

// pipes is a listener of in-memory connections.
type pipes struct {
	conns chan net.Conn
	once  sync.Once
}

func (p *pipes) Accept() (net.Conn, error) {
	conn, ok := <-p.conns
	if !ok {
		return nil, net.ErrClosed
	}
	return conn, nil
}

func (p *pipes) Close() error   { p.once.Do(func() { close(p.conns) }); return nil }
func (p *pipes) Addr() net.Addr { return &net.TCPAddr{} }

func (p *pipes) dial() net.Conn {
	client, server := net.Pipe()
	p.conns <- fromMemory{server}
	return client
}

// fromMemory is an in-memory connection with a TCP address.
type fromMemory struct{ net.Conn }

func (fromMemory) RemoteAddr() net.Addr { return &net.TCPAddr{IP: net.IPv4(192, 0, 2, 1), Port: 1} }

// selfSigned returns a self-signed certificate of a server.
func selfSigned(t *testing.T) tls.Certificate {
	t.Helper()
	key := must.Get(ecdsa.GenerateKey(elliptic.P256(), rand.Reader))(t)
	of := &x509.Certificate{SerialNumber: big.NewInt(1), NotBefore: time.Unix(0, 0), NotAfter: time.Unix(1<<33, 0), DNSNames: []string{"gateway.test"}}
	return tls.Certificate{Certificate: [][]byte{must.Get(x509.CreateCertificate(rand.Reader, of, of, key.Public(), key))(t)}, PrivateKey: key}
}

// TestHandshakeTimeout: a connection that does not complete its TLS handshake within 5 seconds
// is closed, also while its bytes arrive. The same applies to a connection without TLS that
// does not complete its request header. Controls: a connection that completed its handshake and
// was served is open for a minute, and without the timeout the silent one is open for an hour.
func TestHandshakeTimeout(t *testing.T) {
	t.Parallel()
	cert := selfSigned(t)
	// hello is the start of a record with a ClientHello of 4096 bytes.
	hello := append([]byte{22, 3, 1, 16, 0, 1, 0, 15, 252}, make([]byte, 60)...)
	request := []byte("GET / HTTP/1.1\r\nHost: gateway.test\r\nX: " + string(make([]byte, 60)))
	for name, c := range map[string]struct {
		overTLS bool
		// sent is written to the server at one byte a second.
		sent    []byte
		unbound bool
		want    time.Duration
	}{
		"a silent connection":                 {overTLS: true, want: 5 * time.Second},
		"a slow handshake":                    {overTLS: true, sent: hello, want: 5 * time.Second},
		"a silent connection without TLS":     {want: 5 * time.Second},
		"a slow header without TLS":           {sent: request, want: 5 * time.Second},
		"the control without a timeout":       {overTLS: true, unbound: true, want: time.Hour},
		"the control without TLS nor timeout": {unbound: true, want: time.Hour},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				in, end := serveInMemory(t, cert, c.overTLS, c.unbound)
				defer end()
				conn, begin := in.dial(), time.Now()
				var sender sync.WaitGroup
				sender.Go(func() {
					for _, b := range c.sent {
						time.Sleep(time.Second)
						if _, err := conn.Write([]byte{b}); err != nil {
							return
						}
					}
				})
				must.Do(t, conn.SetReadDeadline(begin.Add(time.Hour)))
				_, _ = io.Copy(io.Discard, conn) // until the connection is closed, or an hour has passed
				if after := time.Since(begin); after != c.want {
					t.Errorf("it was closed after %v, want %v", after, c.want)
				}
				must.Do(t, conn.Close())
				sender.Wait()
			})
		})
	}
	t.Run("the control with a handshake", func(t *testing.T) {
		t.Parallel()
		synctest.Test(t, func(t *testing.T) {
			in, end := serveInMemory(t, cert, true, false)
			defer end()
			roots := x509.NewCertPool()
			roots.AddCert(must.Get(x509.ParseCertificate(cert.Certificate[0]))(t))
			conn := tls.Client(in.dial(), &tls.Config{RootCAs: roots, ServerName: "gateway.test"})
			for range 2 {
				must.Get(conn.Write([]byte("GET / HTTP/1.1\r\nHost: gateway.test\r\n\r\n")))(t)
				if n, err := conn.Read(make([]byte, 4096)); n == 0 {
					t.Errorf("no answer: %v", err)
				}
				time.Sleep(time.Minute)
			}
			must.Do(t, conn.NetConn().Close())
		})
	})
}

// serveInMemory serves with palyrad's server and acceptor until end is called.
func serveInMemory(t *testing.T, cert tls.Certificate, overTLS, unbound bool) (in *pipes, end func()) {
	t.Helper()
	s := newServer(http.NotFoundHandler(), slog.New(slog.DiscardHandler))
	s.TLSConfig = &tls.Config{Certificates: []tls.Certificate{cert}}
	if unbound {
		s.ReadHeaderTimeout = 0
	}
	in = &pipes{conns: make(chan net.Conn)}
	served := make(chan struct{})
	go func() {
		defer close(served)
		l := &acceptor{Listener: in, log: slog.New(slog.DiscardHandler), most: 16, mostOfOne: 16}
		if overTLS {
			_ = s.ServeTLS(l, "", "")
		} else {
			_ = s.Serve(l)
		}
	}()
	return in, func() {
		must.Check(t, s.Close())
		<-served
	}
}
