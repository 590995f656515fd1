package web

import (
	"context"
	"crypto/tls"
	"errors"
	"net"
	"net/http"
	"net/netip"
	"sync"
	"time"

	"palyra/internal/core/reason"
	"palyra/internal/egress"
)

// handshakeTime bounds TLS with a host.
const handshakeTime = 10 * time.Second

// maxConns bounds the connections of one client to one host.
const maxConns = 8

// receiveBuffers limits the buffered bodies of one HTTP/2 connection when no reader consumes them.
func receiveBuffers() *http.HTTP2Config {
	return &http.HTTP2Config{MaxReceiveBufferPerStream: 256 << 10, MaxReceiveBufferPerConnection: 1 << 20}
}

// upstream holds the outgoing connections of one client's connection. They serve only that client
// and end with it.
type upstream struct {
	front     Front
	transport *http.Transport

	mu    sync.Mutex
	over  bool
	open  map[*pinned]struct{}
	dials sync.WaitGroup
}

// newUpstream returns a transport whose connections are opened while ctx lasts.
func newUpstream(ctx context.Context, f Front) *upstream {
	u := &upstream{front: f, open: map[*pinned]struct{}{}}
	// The context that package http passes to a dial function outlives the request, because another
	// request may use the connection. It must not outlive the client.
	within := func(dial func(context.Context, egress.Target) (net.Conn, error)) func(context.Context, string, string) (net.Conn, error) {
		return func(dialing context.Context, _, address string) (net.Conn, error) {
			target, err := egress.ParseTarget(address)
			if err != nil {
				return nil, err
			}
			if !u.begin() {
				return nil, net.ErrClosed
			}
			defer u.dials.Done()
			dialing, cancel := context.WithCancel(dialing)
			defer cancel()
			defer context.AfterFunc(ctx, cancel)()
			return dial(dialing, target)
		}
	}
	u.transport = &http.Transport{
		Proxy:                  nil, // regardless of the daemon's environment
		DialContext:            within(u.dialPlain),
		DialTLSContext:         within(u.dialTLS),
		ForceAttemptHTTP2:      true,
		DisableCompression:     true, // answers pass unchanged
		MaxIdleConns:           16,
		MaxIdleConnsPerHost:    maxConns,
		MaxConnsPerHost:        maxConns, // further requests wait
		HTTP2:                  receiveBuffers(),
		IdleConnTimeout:        idleTime,
		MaxResponseHeaderBytes: 256 << 10,
	}
	return u
}

// pinned is a connection to a host at the checked address.
type pinned struct {
	net.Conn
	entry *egress.Entry
	of    *upstream
}

// Close closes the connection and thereby ends its entry.
func (p *pinned) Close() error {
	p.of.mu.Lock()
	delete(p.of.open, p)
	p.of.mu.Unlock()
	return p.Conn.Close()
}

// pinnedOf returns the connection that package http has wrapped.
func pinnedOf(conn net.Conn) (*pinned, bool) {
	if secure, ok := conn.(*tls.Conn); ok {
		conn = secure.NetConn()
	}
	p, ok := conn.(*pinned)
	return p, ok
}

func (u *upstream) dial(ctx context.Context, t egress.Target) (*pinned, error) {
	conn, entry, err := u.front.Connect(ctx, t)
	if err != nil {
		return nil, err
	}
	p := &pinned{Conn: conn, entry: entry, of: u}
	u.mu.Lock()
	u.open[p] = struct{}{}
	late := u.over
	u.mu.Unlock()
	if late {
		_ = p.Close()
		return nil, net.ErrClosed
	}
	return p, nil
}

func (u *upstream) dialPlain(ctx context.Context, t egress.Target) (net.Conn, error) {
	p, err := u.dial(ctx, t)
	if err != nil {
		return nil, err // not a nil *pinned in an interface
	}
	return p, nil
}

// begin counts a new dial, unless the client has disconnected.
func (u *upstream) begin() bool {
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.over {
		return false
	}
	u.dials.Add(1)
	return true
}

// dialTLS connects and verifies by TLS that the host is the target.
func (u *upstream) dialTLS(ctx context.Context, t egress.Target) (net.Conn, error) {
	p, err := u.dial(ctx, t)
	if err != nil {
		return nil, err
	}
	config := &tls.Config{RootCAs: u.front.Roots, ServerName: t.Host.String(), MinVersion: tls.VersionTLS12, NextProtos: []string{"h2", "http/1.1"}}
	if exchangeOf(ctx).key != "" {
		config.NextProtos = []string{"http/1.1"}
	}
	ctx, cancel := context.WithTimeout(ctx, handshakeTime)
	defer cancel()
	secure := tls.Client(p, config)
	if err := secure.HandshakeContext(ctx); err != nil {
		p.entry.Decide(egress.VerdictFailed, egress.ReasonBadTLS, egress.Rule{}, netip.Addr{})
		_ = p.Close()
		return nil, unverified(t, err)
	}
	return secure, nil
}

// unverified describes the defect of a host's certificate. Other errors concern the connection and
// contain its address.
func unverified(target egress.Target, err error) error {
	var wrong *tls.CertificateVerificationError
	if errors.As(err, &wrong) {
		return reason.Errorf(reason.FetchFailed, "the certificate of %s cannot be verified: %w", target, wrong.Err).
			WithField("reason", egress.ReasonBadTLS)
	}
	return reason.Errorf(reason.FetchFailed, "%s does not complete a TLS handshake", target).WithField("reason", egress.ReasonBadTLS)
}

// close closes the remaining connections and waits for dials. No request may be running.
func (u *upstream) close() {
	u.mu.Lock()
	u.over = true
	left := make([]*pinned, 0, len(u.open))
	for p := range u.open {
		left = append(left, p)
	}
	u.mu.Unlock()
	for _, p := range left {
		_ = p.Close()
	}
	u.dials.Wait()
	u.transport.CloseIdleConnections()
}
