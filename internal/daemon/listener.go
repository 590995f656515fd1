package daemon

import (
	"container/list"
	"context"
	"crypto/tls"
	"fmt"
	"log/slog"
	"net"
	"sync"
	"time"

	"palyra/internal/ratelimit"
	"palyra/internal/reason"
	"palyra/internal/rpc"
)

// acceptor is a listener that bounds the open connections, of all and of each address (each
// network of IPv6). At a bound a new connection takes the place of the oldest one on which
// nobody has shown a credential, so that strangers keep nobody out; only where there is none
// is it refused, and the operator learns why. The HTTP server tries again by itself; it
// accepts from one goroutine.
type acceptor struct {
	net.Listener
	log *slog.Logger
	// metrics is true for those of the metrics, which no setting bounds.
	metrics bool
	// most and mostOfOne bound the connections of all addresses and of one; those of
	// this machine, where all have one address, count among all alone.
	most, mostOfOne int
	told            time.Time
	connections
}

// connections are those of a listener that are open.
type connections struct {
	mu   sync.Mutex
	open int
	of   map[string]int
	// strangers are the connections without a credential, in the order of their arrival.
	strangers list.List // of *countedConn
	// madeRoom is true when a stranger was closed for the last connection.
	madeRoom bool
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
		counted, why := a.admit(conn, a.most, a.mostOfOne, !a.metrics)
		if a.madeRoom && a.mayTell() {
			a.log.Warn("connections on which nobody shows a credential are closed to make room for others: see who opens so many", a.about("the listener is full")...)
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

// mayTell lets the operator be told at most once a minute.
func (a *acceptor) mayTell() bool {
	if !a.told.IsZero() && time.Since(a.told) <= time.Minute {
		return false
	}
	a.told = time.Now()
	return true
}

// about is what every warning of this listener names.
func (a *acceptor) about(why string) []any {
	name := "api"
	if a.metrics {
		name = "metrics"
	}
	return []any{slog.String(name, a.Addr().String()), slog.String("error", why)}
}

// admit counts a connection, or says why it is one too many. Strangers make room if they may.
func (o *connections) admit(conn net.Conn, most, mostOfOne int, mayEvict bool) (net.Conn, string) {
	from, local := conn.RemoteAddr().String(), false
	if addr, ok := conn.RemoteAddr().(*net.TCPAddr); ok {
		from, local = ratelimit.Address(addr.AddrPort().Addr().String()), addr.IP.IsLoopback()
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	o.madeRoom = false
	switch {
	case !local && o.of[from] >= mostOfOne:
		if !mayEvict || !o.evict(from) {
			return nil, fmt.Sprintf("%s has %d connections open", from, o.of[from])
		}
	case o.open >= most:
		if !mayEvict || !o.evict("") {
			return nil, fmt.Sprintf("%d connections are open", o.open)
		}
	}
	if o.of == nil {
		o.of = make(map[string]int)
	}
	o.open++
	o.of[from]++
	c := &countedConn{Conn: conn, in: o, from: from}
	c.stranger = o.strangers.PushBack(c)
	return c, ""
}

// evict closes the oldest connection without a credential, of one address unless from is "",
// and reports whether there was one. The caller holds o.mu.
func (o *connections) evict(from string) bool {
	for e := o.strangers.Front(); e != nil; e = e.Next() {
		if c, ok := e.Value.(*countedConn); ok && (from == "" || c.from == from) {
			o.madeRoom = true
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
	o.know(c)
}

// know takes a connection from the strangers. The caller holds o.mu.
func (o *connections) know(c *countedConn) {
	if c.stranger != nil {
		o.strangers.Remove(c.stranger)
		c.stranger = nil
	}
}

// countedConn is counted until it is closed.
type countedConn struct {
	net.Conn
	in   *connections
	from string
	// in.mu guards these: whether it is counted no more, and its place among the strangers,
	// nil once somebody showed a credential.
	gone     bool
	stranger *list.Element
}

// Shown says that a request on the connection has shown a credential, and whether it holds. With
// one that does not hold any more the connection is a stranger again.
func (c *countedConn) Shown(holds bool) {
	c.in.mu.Lock()
	defer c.in.mu.Unlock()
	switch {
	case holds:
		c.in.know(c)
	case c.stranger == nil && !c.gone:
		c.stranger = c.in.strangers.PushBack(c)
	}
}

// Close implements net.Conn.
func (c *countedConn) Close() error {
	c.in.mu.Lock()
	c.in.forget(c)
	c.in.mu.Unlock()
	return c.Conn.Close()
}

// countedOf is the counted connection below one of a server, nil where there is none.
func countedOf(c net.Conn) *countedConn {
	if over, ok := c.(*tls.Conn); ok {
		c = over.NetConn()
	}
	counted, _ := c.(*countedConn)
	return counted
}

// shownContext lets requests on a connection say that they have shown a credential.
func shownContext(ctx context.Context, c net.Conn) context.Context {
	if counted := countedOf(c); counted != nil {
		return rpc.ShownContext(ctx, counted.Shown)
	}
	return ctx
}
