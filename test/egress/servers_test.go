//go:build linux

package egress

import (
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"io"
	"log/slog"
	"net"
	"net/http"
	"sync"
	"time"

	"palyra/internal/core/must"
	"palyra/internal/identity/ca/catest"
)

// serveWeb serves all hosts by HTTP and HTTPS, including the hosts that must not be reached.
// Otherwise a missing server would look like a denial.
func (w *world) serveWeb() {
	mux := http.NewServeMux()
	mux.HandleFunc("/hello", func(rw http.ResponseWriter, r *http.Request) { _, _ = io.WriteString(rw, "hello from "+r.Host+"\n") })
	mux.Handle(allowedHost+"/redirect", http.RedirectHandler("http://"+deniedHost+"/hello", http.StatusFound))
	w.serveGit(mux)
	w.serveRegistry(mux)
	w.serveIndex(mux)
	plain, secure := w.listen(), tls.NewListener(w.listen(), w.certificate())
	for i, host := range []string{allowedHost, gitHost, npmHost, pypiHost, deniedHost} {
		w.put(host, i+1, 80, plain)
		addresses := w.put(host, i+1, 443, secure)
		if host == deniedHost {
			w.forbidden = append(w.forbidden, addresses...)
		}
	}
	for _, address := range []string{literal4, literal6} {
		w.place(address, 80, plain)
		w.forbidden = append(w.forbidden, address)
	}
	for _, l := range []net.Listener{plain, secure} {
		server := &http.Server{Handler: mux, ErrorLog: slog.NewLogLogger(slog.DiscardHandler, slog.LevelError)}
		go func() { _ = server.Serve(l) }()
		w.t.Cleanup(func() { _ = server.Close() })
	}
}

// certificate creates the authority and the certificate of all hosts.
func (w *world) certificate() *tls.Config {
	w.t.Helper()
	authority := catest.New(w.t, time.Now().Add(-time.Hour), time.Now().Add(time.Hour))
	leaf := authority.Issue(w.t, &x509.Certificate{
		Subject: pkix.Name{CommonName: "the tests' servers"}, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
		DNSNames: []string{allowedHost, gitHost, npmHost, pypiHost, deniedHost},
	})
	w.authority = pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: authority.Cert.Raw})
	return &tls.Config{Certificates: []tls.Certificate{leaf}, NextProtos: []string{"h2", "http/1.1"}, MinVersion: tls.VersionTLS12}
}

// echoPort is neither the HTTP nor the HTTPS port.
const echoPort = 7777

// serveEcho sends back the received bytes.
func (w *world) serveEcho() {
	l := w.listen()
	w.put(echoHost, 9, echoPort, l)
	var conns sync.WaitGroup
	conns.Go(func() {
		for {
			conn, err := l.Accept()
			if errors.Is(err, net.ErrClosed) {
				return
			}
			if err != nil {
				w.t.Error(err)
				return
			}
			conns.Go(func() {
				defer conn.Close()
				_ = conn.SetDeadline(time.Now().Add(must.Patience))
				_, _ = io.Copy(conn, conn)
			})
		}
	})
	w.t.Cleanup(func() {
		l.Close()
		conns.Wait()
	})
}
