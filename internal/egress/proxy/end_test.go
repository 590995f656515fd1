package proxy

import (
	"bytes"
	"context"
	"crypto/rand"
	"io"
	"net"
	"testing"
	"time"

	"palyra/internal/egress"
	"palyra/internal/must"
)

// What a program said just before it ended reaches its host, though nobody has
// accepted the connection yet when the end comes.
func TestLastWords(t *testing.T) {
	t.Parallel()
	for name, size := range map[string]int{"accepted": 3 << 20, "not accepted": 10_000} { // what fits before anybody reads
		t.Run(name, func(t *testing.T) {
			said, accepted := make([]byte, size), name == "accepted"
			_, _ = rand.Read(said) // never fails
			w := newWorld(t)
			heard := make(chan []byte, 1)
			w.host("api.test:9", func(conn net.Conn) {
				time.Sleep(50 * time.Millisecond) // longer than the proxy would last otherwise
				all, _ := io.ReadAll(conn)
				heard <- all
			})
			proxy := must.Get(New(grantOf(t, "api.test:9"), Outward{Resolver: w, Dial: w.dial}))(t)
			proxy.waits.last = time.Minute // on a slow machine it takes longer
			w.http = listen(t)
			// speak leaves as a program does that has said all. Who leaves with the
			// proxy's answer unread breaks its own connection off.
			speak := func() {
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
			if got := <-heard; !bytes.Equal(got, said) {
				t.Errorf("the host heard %d bytes of %d", len(got), len(said))
			}
			list, _ := proxy.Connections()
			if len(list) != 1 || list[0].BytesOut != int64(len(said)) || list[0].Reason != "" {
				t.Errorf("ledger: %+v", list)
			}
		})
	}
}

// A proxy does not wait for those who say no more, nor for long.
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
