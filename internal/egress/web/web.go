// Package web carries the HTTP of one client's connection to the hosts that the client may
// reach. It supports plain HTTP to one host, requests in absolute form to a proxy, and HTTP
// inside TLS terminated by the gateway. Every request is checked separately. The outgoing
// request is generated from the parsed one, so that the gateway and the host cannot interpret
// the same bytes differently.
package web

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"net"
	"net/http"
	"os"
	"time"

	"palyra/internal/egress"
	"palyra/internal/egress/secret"
)

// Limits per client.
const (
	// MaxHeader is the size in bytes of the line and the header of a request.
	MaxHeader = 16 << 10
	// headerTime is the timeout for receiving the line and the header, and for the TLS handshake
	// before them.
	headerTime = 10 * time.Second
	// maxStreams is how many requests one HTTP/2 connection may carry at a time.
	maxStreams = 32
	// idleTime is how long a connection may wait for its next request.
	idleTime = 2 * time.Minute
)

// Front is the interface of Serve to its caller.
type Front struct {
	// Target is the target of all requests of the connection. The zero Target means a proxy, where
	// each request names its target in absolute form.
	Target egress.Target
	// Connect connects to a target that the client may reach. The connection counts its bytes into
	// its entry, and its Close ends the entry. Connect is called once for every required
	// connection, also concurrently. Its errors are a *reason.Error with a message that is safe for
	// the client, and the record's reason in the field "reason".
	Connect func(ctx context.Context, t egress.Target) (net.Conn, *egress.Entry, error)
	// Refuse records that a request was refused, with one of the words of
	// package egress. The target is zero when the request named none.
	Refuse func(t egress.Target, why string)
	// Allow counts one request against the budget. Its errors are like those from Connect, and
	// already recorded.
	Allow func(t egress.Target) error
	// Inspect returns the rules for requests to a target, and false if all requests are allowed.
	Inspect func(t egress.Target) (egress.Inspection, bool)
	// Secrets are inserted into requests and removed from answers; nil for none.
	Secrets *secret.Exchange
	// Roots verify the TLS certificates of hosts; nil means the system's.
	Roots *x509.CertPool
}

// Serve carries the requests of a client until either side closes or ctx ends, and closes the
// connection. When conn is a *tls.Conn created with Authority.Config for the host of the
// target, requests are sent by TLS verified for the target. Otherwise they are sent in the
// clear, as received.
func Serve(ctx context.Context, conn net.Conn, f Front) {
	raw := conn
	secure, isTLS := conn.(*tls.Conn)
	if isTLS {
		raw = secure.NetConn()
	}
	defer raw.Close()
	ctx, cancel := context.WithCancel(ctx)
	stop := context.AfterFunc(ctx, func() { raw.Close() })
	defer stop()

	out := newUpstream(ctx, f)
	defer out.close()
	defer cancel() // ends dials in progress
	if !isTLS {
		serve1(ctx, conn, client{front: f, scheme: plain}, out)
		return
	}
	if err := handshake(ctx, secure); err != nil {
		f.Refuse(f.Target, handshakeWord(err))
		return
	}
	state := secure.ConnectionState()
	c := client{front: f, scheme: https, serverName: state.ServerName}
	if state.NegotiatedProtocol == "h2" {
		serve2(ctx, secure, c, out)
		return
	}
	serve1(ctx, secure, c, out)
}

func handshake(ctx context.Context, conn *tls.Conn) error {
	ctx, cancel := context.WithTimeout(ctx, headerTime)
	defer cancel()
	return conn.HandshakeContext(ctx)
}

func handshakeWord(err error) string {
	if errors.Is(err, context.DeadlineExceeded) || errors.Is(err, os.ErrDeadlineExceeded) {
		return egress.ReasonSlow
	}
	return egress.ReasonBadTLS
}

// serve1 serves HTTP/1.0 and 1.1.
func serve1(ctx context.Context, conn net.Conn, c client, out *upstream) {
	c.tap = &tap{Conn: conn, refuse: c.front.refuseRaw}
	b := newBridge(c, out)
	defer b.handlers.close()
	server, over := newServer(ctx, b)
	changed := server.ConnState
	server.ConnState = func(conn net.Conn, state http.ConnState) {
		switch state {
		case http.StateIdle:
			c.tap.idle()
		case http.StateHijacked:
			c.tap.leave()
		}
		changed(conn, state)
	}
	server.MaxHeaderBytes = MaxHeader
	serveOne(server, c.tap, over)
}

// serve2 serves HTTP/2. It reads headers of up to four times the allowed size, so that their
// refusal is recorded.
func serve2(ctx context.Context, conn *tls.Conn, c client, out *upstream) {
	b := newBridge(c, out)
	defer b.handlers.close()
	server, over := newServer(ctx, b)
	server.MaxHeaderBytes = 4 * MaxHeader
	server.HTTP2 = receiveBuffers()
	server.HTTP2.MaxConcurrentStreams = maxStreams
	server.HTTP2.CountError = func(kind string) {
		if !harmless[kind] {
			c.front.Refuse(c.front.Target, egress.ReasonBadHTTP)
		}
	}
	serveOne(server, conn, over)
}

// harmless lists errors of package http's HTTP/2 server caused by a client that had not yet
// received the end of a stream, or that opened one stream too many.
var harmless = map[string]bool{"closed": true, "stream_went_down": true, "over_max_streams_race": true}
