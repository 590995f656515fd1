package daemon

import (
	"fmt"
	"log/slog"
	"net"
	"sync"
	"time"

	"palyra/internal/ratelimit"
	"palyra/internal/reason"
)

// acceptor is a listener that bounds the open connections, of all and of each
// address (each network of IPv6), and tells the operator why somebody does not get in. The HTTP server
// tries again by itself; it accepts from one goroutine.
type acceptor struct {
	net.Listener
	log *slog.Logger
	// metrics is true for those of the metrics, which no setting bounds.
	metrics bool
	// most and mostOfOne bound the connections of all addresses and of one; those of
	// this machine, where all have one address, count among all alone.
	most, mostOfOne int
	told            time.Time

	mu   sync.Mutex
	open int
	of   map[string]int
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
		counted, why := a.admit(conn)
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

// admit counts a connection, or says why it is one too many.
func (a *acceptor) admit(conn net.Conn) (net.Conn, string) {
	from, local := conn.RemoteAddr().String(), false
	if addr, ok := conn.RemoteAddr().(*net.TCPAddr); ok {
		from, local = ratelimit.Address(addr.AddrPort().Addr().String()), addr.IP.IsLoopback()
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	switch {
	case a.open >= a.most:
		return nil, fmt.Sprintf("%d connections are open", a.open)
	case !local && a.of[from] >= a.mostOfOne:
		return nil, fmt.Sprintf("%s has %d connections open", from, a.of[from])
	}
	if a.of == nil {
		a.of = make(map[string]int)
	}
	a.open++
	a.of[from]++
	return &countedConn{Conn: conn, leave: func() { a.leave(from) }}, ""
}

func (a *acceptor) leave(from string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.open--
	if a.of[from]--; a.of[from] == 0 {
		delete(a.of, from)
	}
}

// countedConn is counted until it is closed.
type countedConn struct {
	net.Conn
	leave func()
	once  sync.Once
}

// Close implements net.Conn.
func (c *countedConn) Close() error {
	c.once.Do(c.leave)
	return c.Conn.Close()
}
