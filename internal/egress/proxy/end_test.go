package proxy

import (
	"bytes"
	"context"
	"crypto/rand"
	"io"
	"net"
	"net/netip"
	"testing"
	"time"

	"palyra/internal/core/must"
	"palyra/internal/egress"
)

// TestLastBytesAreDelivered: bytes that a program sends just before it ends reach their host, even
// if the connection was not accepted before the end.
func TestLastBytesAreDelivered(t *testing.T) {
	t.Parallel()
	for name, size := range map[string]int{"accepted": 3 << 20, "not accepted": 10_000} { // fits into the buffers
		t.Run(name, func(t *testing.T) {
			said, accepted := make([]byte, size), name == "accepted"
			_, _ = rand.Read(said) // never fails
			w := newWorld(t)
			heard, written := make(chan []byte, 1), make(chan struct{})
			w.http = listen(t)
			beside := w.beside()
			w.host("api.test:9", func(conn net.Conn) { heard <- readAfterEnd(conn, written, w.http, beside) })
			proxy := must.Get(New(grantOf(t, "api.test:9"), Outward{Resolver: w, Dial: w.dial}))(t)
			proxy.waits.last = must.Patience // allows for a slow machine
			// speak writes everything and closes, as an ending program does. A client that closes with
			// unread data resets its own connection.
			speak := func() {
				defer close(written)
				conn := w.must(net.Dial("tcp", w.http.Addr().String()))
				early := said
				if accepted {
					early = nil
				} else {
					t.Cleanup(func() { conn.Close() })
				}
				must.Get(conn.Write(append([]byte("CONNECT api.test:9 HTTP/1.1\r\n\r\n"), early...)))(t)
				if !accepted {
					_ = closeWrite(conn)
					return
				}
				must.Get(io.ReadFull(conn, make([]byte, len(established))))(t)
				must.Get(conn.Write(said))(t)
				conn.Close()
			}
			ctx, cancel := context.WithCancelCause(t.Context())
			if !accepted {
				speak()
				cancel(ErrEnded)
			}
			served := make(chan error, 1)
			go func() { served <- proxy.Serve(ctx, Listeners{HTTP: w.http}) }()
			if accepted {
				speak()
			}
			cancel(ErrEnded)
			must.Check(t, <-served)
			if got := must.Receive(t, "the host gets a connection", heard); !bytes.Equal(got, said) {
				t.Errorf("the host heard %d bytes of %d", len(got), len(said))
			}
			list, _ := proxy.Connections()
			if len(list) != 1 || list[0].BytesOut != int64(len(said)) || list[0].Reason != "" {
				t.Errorf("ledger: %+v", list)
			}
		})
	}
}

// readAfterEnd reads everything from conn. While the sender writes, it reads so slowly that the
// buffers stay full. It reads the rest only after the proxy has closed its listener, and so has
// detected the end of the program. It also waits until many bytes were exchanged on a
// connection without the proxy, a time in which the proxy could have ended.
func readAfterEnd(conn net.Conn, written <-chan struct{}, l net.Listener, beside net.Conn) []byte {
	var all bytes.Buffer
	slowly := time.NewTicker(time.Millisecond)
	defer slowly.Stop()
	for open := true; open; {
		select {
		case <-written:
			open = false
		case <-slowly.C:
			_, _ = io.CopyN(&all, conn, 16<<10)
		}
	}
	must.Wait(func() bool { return isClosed(l) })
	for b := make([]byte, 1); len(b) < 500; b = append(b, 0) {
		if _, err := beside.Write(b); err != nil {
			return nil
		}
		if _, err := io.ReadFull(beside, b); err != nil {
			return nil
		}
	}
	_, _ = io.Copy(&all, conn)
	return all.Bytes()
}

// beside returns a connection to an echo server without the proxy.
func (w *world) beside() net.Conn {
	w.t.Helper()
	w.host("beside.test:9", echo)
	w.mu.Lock()
	at := w.servers[netip.AddrPortFrom(w.addresses["beside.test"], 9).String()]
	w.mu.Unlock()
	conn := must.Get(net.Dial("tcp", at))(w.t)
	w.t.Cleanup(func() { conn.Close() })
	return conn
}

// isClosed reports whether this process has closed l.
func isClosed(l net.Listener) bool {
	raw, err := l.(*net.TCPListener).SyscallConn()
	return err != nil || raw.Control(func(uintptr) {}) != nil
}

// At the end of a program, the proxy does not wait for silent connections, and waits only for a
// limited time.
func TestTheEndOfAProgramIsThatOfItsSession(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		connections int
		cause       error
		most        time.Duration
	}{
		"without a connection":       {0, ErrEnded, 0},
		"with one that stays open":   {1, ErrEnded, lastWords},
		"that was stopped":           {1, context.Canceled, 0},
		"of which some have a limit": {3, ErrEnded, lastWords},
	} {
		t.Run(name, func(t *testing.T) {
			inTime(t, egress.Budget{}, func(conn net.Conn) { _, _ = io.Copy(conn, conn) }, func(w *timed) {
				for range c.connections {
					exchange(t, w.connect(w.ports, 7), "hello\n")
				}
				started := time.Now()
				must.Check(t, w.stop(c.cause))
				if took := time.Since(started); took != c.most {
					t.Errorf("the end took %v, want %v", took, c.most)
				}
			})
		})
	}
}
