package proxy

import (
	"bufio"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"testing"

	"palyra/internal/core/must"
	"palyra/internal/egress"
)

// echo sends back the received bytes.
func echo(conn net.Conn) {
	_, _ = io.Copy(conn, conn)
	_ = closeWrite(conn)
}

// banner sends a banner, and then echoes.
func banner(conn net.Conn) {
	if _, err := io.WriteString(conn, "220 at your service\r\n"); err == nil {
		echo(conn)
	}
}

// secure runs serve inside TLS, with a certificate for a name.
func (w *world) secure(name string, serve func(net.Conn)) func(net.Conn) {
	config := w.authority.Config(mustHost(w.t, name))
	config.NextProtos = []string{"http/1.1"}
	return func(conn net.Conn) {
		secured := tls.Server(conn, config)
		defer secured.Close()
		serve(secured)
	}
}

// pages answers HTTP requests with their Host.
func pages(conn net.Conn) {
	in := bufio.NewReader(conn)
	for {
		r, err := http.ReadRequest(in)
		if err != nil {
			return
		}
		body, err := io.ReadAll(r.Body)
		if err != nil {
			return
		}
		text := fmt.Sprintf("%s %s %s", r.Method, r.Host, body)
		if _, err := fmt.Fprintf(conn, "HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n%s", len(text), text); err != nil {
			return
		}
	}
}

func mustHost(t testing.TB, name string) egress.Host {
	t.Helper()
	return must.Get(egress.CanonicalHost(name))(t)
}

// client returns a TLS client for a host of the world over a connection.
func (w *world) client(conn net.Conn, name string) *tls.Conn {
	return tls.Client(conn, &tls.Config{RootCAs: w.roots, ServerName: name, MinVersion: tls.VersionTLS12})
}

// exchange writes a line and reads its echo.
func exchange(t testing.TB, conn net.Conn, line string) {
	t.Helper()
	must.Get(io.WriteString(conn, line))(t)
	got := make([]byte, len(line))
	if _, err := io.ReadFull(conn, got); err != nil || string(got) != line {
		t.Fatalf("got %q, %v, want %q", got, err, line)
	}
}

func mustAddr(t testing.TB, s string) netip.Addr {
	t.Helper()
	return must.Get(netip.ParseAddr(s))(t)
}

func mustTarget(t testing.TB, s string) egress.Target {
	t.Helper()
	return must.Get(egress.ParseTarget(s))(t)
}

// trustSession adds the proxy's authority to the clients' roots.
func (w *world) trustSession() {
	w.t.Helper()
	if bundle := w.proxy.Bundle(); bundle != nil && !w.roots.AppendCertsFromPEM(bundle) {
		w.t.Fatal("the bundle holds no certificate")
	}
}

// issuer returns the name of the authority of the world's hosts.
func (w *world) issuer() string {
	block, _ := pem.Decode(w.authority.Bundle(nil))
	certificate := must.Get(x509.ParseCertificate(block.Bytes))(w.t)
	return certificate.Subject.String()
}
