package gateway

import (
	"container/list"
	"context"
	"crypto/tls"
	"fmt"
	"log/slog"
	"net"
	"sync"
	"time"

	"palyra/internal/core/limit"
	"palyra/internal/core/reason"
	"palyra/internal/surface/api"
)

// acceptor is a listener that limits the open connections in total and of each address (for
// IPv6, of each network). At a limit, the oldest unauthenticated connection is closed for a new
// one. If all are authenticated, or on the metrics listener, the new one is refused. Idle
// connections therefore do not block authenticated callers. Both cases are logged. After an
// error, the HTTP server calls Accept again; it accepts from one goroutine.
type acceptor struct {
	net.Listener
	log *slog.Logger
	// metrics is true for the metrics listener, which no setting limits.
	metrics bool
	// most and mostOfOne limit the connections of all addresses and of one address. Connections of
	// this machine share one address, so they count only against most. A limit on the
	// authenticated ones would let one user of the machine exclude the others. A limit on the
	// unauthenticated ones made `palyra freeze` fail during a flood
	// (TestFreezeBesideIdleConnections), because fewer places are replaced sooner.
	most, mostOfOne int
	warnedAt        time.Time
	connections
}

// connections are the open connections of a listener.
type connections struct {
	mu   sync.Mutex
	open int
	of   map[string]int
	// unauthenticated are the connections without a request with a valid credential, oldest first.
	unauthenticated list.List // of *countedConn
}

// Accept implements net.Listener.
func (a *acceptor) Accept() (net.Conn, error) {
	for {
		conn, err := a.Listener.Accept()
		if err != nil {
			if step := reason.OutOfFiles(err); step != "" && a.mayTell() {
				a.log.Warn("new connections have to wait", append(a.about(err.Error()), slog.String("remedy", step))...)
			}
			return nil, err
		}
		counted, evicted, why := a.admit(conn, a.most, a.mostOfOne, !a.metrics)
		if evicted && a.mayTell() {
			a.log.Warn("an unauthenticated connection was closed for a new one: find out which address opens so many", a.about("the listener is full")...)
		}
		if why == "" {
			return counted, nil
		}
		switch {
		case !a.mayTell():
		case a.metrics:
			a.log.Warn("a connection to the metrics was refused: see who opens so many", a.about(why)...)
		default:
			a.log.Warn("a connection was refused: raise listen.max_connections or listen.max_connections_per_address, or see who opens so many", a.about(why)...)
		}
		_ = conn.Close()
	}
}

// mayTell limits warnings to the operator to one per minute.
func (a *acceptor) mayTell() bool {
	if !a.warnedAt.IsZero() && time.Since(a.warnedAt) <= time.Minute {
		return false
	}
	a.warnedAt = time.Now()
	return true
}

// about returns the attributes of every warning of this listener.
func (a *acceptor) about(why string) []any {
	name := "api"
	if a.metrics {
		name = "metrics"
	}
	return []any{slog.String(name, a.Addr().String()), slog.String("error", why)}
}

// admit counts a connection, or returns the reason why it exceeds a limit. evicted reports whether
// an unauthenticated connection was closed for it.
func (o *connections) admit(conn net.Conn, most, mostOfOne int, mayEvict bool) (counted net.Conn, evicted bool, why string) {
	from, local := conn.RemoteAddr().String(), false
	if addr, ok := conn.RemoteAddr().(*net.TCPAddr); ok {
		from, local = limit.Address(addr.AddrPort().Addr().String()), addr.IP.IsLoopback()
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	switch {
	case !local && o.of[from] >= mostOfOne:
		if evicted = mayEvict && o.evict(from); !evicted {
			return nil, false, fmt.Sprintf("%s has %d connections open", from, o.of[from])
		}
	case o.open >= most:
		if evicted = mayEvict && o.evict(""); !evicted {
			return nil, false, fmt.Sprintf("%d connections are open", o.open)
		}
	}
	if o.of == nil {
		o.of = make(map[string]int)
	}
	o.open++
	o.of[from]++
	c := &countedConn{Conn: conn, in: o, from: from}
	c.place = o.unauthenticated.PushBack(c)
	return c, evicted, ""
}

// evict closes the oldest unauthenticated connection, of one address unless from is "", and reports
// whether it closed one. The caller holds o.mu.
func (o *connections) evict(from string) bool {
	for e := o.unauthenticated.Front(); e != nil; e = e.Next() {
		if c, ok := e.Value.(*countedConn); ok && (from == "" || c.from == from) {
			o.forget(c)
			// The connection may be in the middle of a write; closing does not wait for it.
			go func() { _ = c.Conn.Close() }()
			return true
		}
	}
	return false
}

// forget ends the count of a connection, once. The caller holds o.mu.
func (o *connections) forget(c *countedConn) {
	if c.gone {
		return
	}
	c.gone = true
	o.open--
	if o.of[c.from]--; o.of[c.from] == 0 {
		delete(o.of, c.from)
	}
	o.unlist(c)
}

// unlist removes a connection from the unauthenticated ones. The caller holds o.mu.
func (o *connections) unlist(c *countedConn) {
	if c.place != nil {
		o.unauthenticated.Remove(c.place)
		c.place = nil
	}
}

// countedConn is a connection that counts against the limits until it is closed.
type countedConn struct {
	net.Conn
	in   *connections
	from string
	// gone and place are guarded by in.mu. gone is true once the connection is no longer counted.
	// place is its place among the unauthenticated ones, nil for an authenticated one.
	gone  bool
	place *list.Element
}

// SetAuthenticated records whether the credential of a request on the connection is valid. A
// connection whose credential was revoked is unauthenticated again.
func (c *countedConn) SetAuthenticated(valid bool) {
	c.in.mu.Lock()
	defer c.in.mu.Unlock()
	switch {
	case valid:
		c.in.unlist(c)
	case c.place == nil && !c.gone:
		c.place = c.in.unauthenticated.PushBack(c)
	}
}

// Close implements net.Conn.
func (c *countedConn) Close() error {
	c.in.mu.Lock()
	c.in.forget(c)
	c.in.mu.Unlock()
	return c.Conn.Close()
}

// countedOf returns the counted connection behind a server's connection, which may be a TLS
// connection; nil for another listener's.
func countedOf(c net.Conn) *countedConn {
	if over, ok := c.(*tls.Conn); ok {
		c = over.NetConn()
	}
	counted, _ := c.(*countedConn)
	return counted
}

// authenticationContext is the ConnContext of the servers: requests report through it whether their
// credential is valid.
func authenticationContext(ctx context.Context, c net.Conn) context.Context {
	if counted := countedOf(c); counted != nil {
		return api.WithAuthenticationReport(ctx, counted.SetAuthenticated)
	}
	return ctx
}
