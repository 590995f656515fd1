package web

import (
	"context"
	"log/slog"
	"net"
	"net/http"
	"sync"
)

// newServer returns a server for one connection, and a channel that is closed when the server has
// released the connection.
func newServer(ctx context.Context, handler http.Handler) (*http.Server, <-chan struct{}) {
	over := make(chan struct{})
	leave := sync.OnceFunc(func() { close(over) })
	return &http.Server{
		Handler:                      handler,
		DisableGeneralOptionsHandler: true,
		ReadHeaderTimeout:            headerTime,
		IdleTimeout:                  idleTime,
		ErrorLog:                     slog.NewLogLogger(slog.DiscardHandler, slog.LevelError),
		BaseContext:                  func(net.Listener) context.Context { return ctx },
		ConnState: func(_ net.Conn, state http.ConnState) {
			if state == http.StateClosed || state == http.StateHijacked {
				leave()
			}
		},
	}, over
}

// serveOne makes a server serve one connection, and returns when over is closed.
func serveOne(server *http.Server, conn net.Conn, over <-chan struct{}) {
	single := &listener{conn: make(chan net.Conn, 1), over: over, addr: conn.LocalAddr()}
	single.conn <- conn
	_ = server.Serve(single) // it ends with net.ErrClosed, from the listener
}

// listener returns one connection, and net.ErrClosed when over is closed.
type listener struct {
	conn chan net.Conn
	over <-chan struct{}
	addr net.Addr
}

func (l *listener) Accept() (net.Conn, error) {
	select {
	case conn := <-l.conn:
		return conn, nil
	default:
	}
	<-l.over
	return nil, net.ErrClosed
}

func (l *listener) Close() error   { return nil }
func (l *listener) Addr() net.Addr { return l.addr }
