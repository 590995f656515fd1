package web

import (
	"bufio"
	"context"
	"crypto/tls"
	"io"
	"net"
	"net/http"
	"reflect"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"palyra/internal/core/must"
	"palyra/internal/egress"
)

// inBubble runs Serve over a pipe, in a synctest bubble, which fails if a goroutine remains.
// The host accepts connections and sends nothing.
func inBubble(t *testing.T, target string, server func(net.Conn) net.Conn, check func(w *world, c net.Conn, leave context.CancelFunc, done <-chan struct{})) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, target)
		w.front.Connect = func(_ context.Context, to egress.Target) (net.Conn, *egress.Entry, error) {
			near, far := net.Pipe()
			go io.Copy(io.Discard, far)
			return near, w.log.Begin(egress.LegTransparent, to), nil
		}
		client, accepted := net.Pipe()
		ctx, leave := context.WithCancel(context.Background())
		done := make(chan struct{})
		go func() {
			defer close(done)
			Serve(ctx, server(accepted), w.front)
		}()
		check(w, client, leave, done)
		client.Close()
		leave()
		<-done
	})
}

func asItIs(c net.Conn) net.Conn { return c }

func TestSlowHeader(t *testing.T) {
	t.Parallel()
	for name, send := range map[string]func(c net.Conn){
		"nothing": func(net.Conn) {},
		"half":    func(c net.Conn) { io.WriteString(c, "GET / HTTP/1.1\r\nHost: exa") },
		"drip": func(c net.Conn) {
			for {
				if _, err := io.WriteString(c, "G"); err != nil {
					return
				}
				time.Sleep(time.Second)
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, "example.org:80", asItIs, func(w *world, c net.Conn, _ context.CancelFunc, done <-chan struct{}) {
				began := time.Now()
				var sending sync.WaitGroup
				sending.Go(func() { send(c) })
				_, _ = io.Copy(io.Discard, c)
				<-done
				took := time.Since(began)
				sending.Wait()
				if took != headerTime {
					t.Errorf("cut off after %v", took)
				}
				if got := w.refusals(); !reflect.DeepEqual(got, []string{"example.org:80 slow"}) {
					t.Errorf("the record is %q", got)
				}
			})
		})
	}
}

func TestSlowHandshake(t *testing.T) {
	t.Parallel()
	a := newAuthorities(t)
	server := func(c net.Conn) net.Conn { return tls.Server(c, a.session.Config(targetHost("example.org"))) }
	inBubble(t, "example.org:443", server, func(w *world, c net.Conn, _ context.CancelFunc, done <-chan struct{}) {
		began := time.Now()
		io.WriteString(c, "\x16\x03\x01")
		_, _ = io.Copy(io.Discard, c)
		<-done
		if took := time.Since(began); took != headerTime {
			t.Errorf("cut off after %v", took)
		}
		if got := w.refusals(); !reflect.DeepEqual(got, []string{"example.org:443 slow"}) {
			t.Errorf("the record is %q", got)
		}
	})
}

// answers connects to a host that answers every request.
func (w *world) answers() {
	w.front.Connect = func(_ context.Context, to egress.Target) (net.Conn, *egress.Entry, error) {
		near, far := net.Pipe()
		go func() {
			in := bufio.NewReader(far)
			for {
				if _, err := http.ReadRequest(in); err != nil {
					return
				}
				_, _ = io.WriteString(far, "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n")
			}
		}()
		return near, w.log.Begin(egress.LegTransparent, to), nil
	}
}

// TestSlowSecondHeader: a slow second header is recorded, and an idle connection is not.
func TestSlowSecondHeader(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]struct {
		after  time.Duration
		record []string
	}{
		"":                    {idleTime, nil},
		"GET / HTTP/1.1\r\nH": {headerTime, []string{"example.org:80 slow"}},
	} {
		synctest.Test(t, func(t *testing.T) {
			w := newWorld(t, "example.org:80")
			w.answers()
			client, accepted := net.Pipe()
			done := make(chan struct{})
			go func() {
				defer close(done)
				Serve(t.Context(), accepted, w.front)
			}()
			in := bufio.NewReader(client)
			io.WriteString(client, "GET / HTTP/1.1\r\nHost: example.org\r\n\r\n")
			res := must.Get(http.ReadResponse(in, nil))(t)
			res.Body.Close()
			synctest.Wait()
			began := time.Now()
			io.WriteString(client, text)
			_, _ = io.Copy(io.Discard, in)
			<-done
			if took := time.Since(began); took != want.after {
				t.Errorf("%q: cut off after %v, want %v", text, took, want.after)
			}
			if got := w.refusals(); !reflect.DeepEqual(got, want.record) {
				t.Errorf("%q: the record is %q", text, got)
			}
		})
	}
}

// TestEndBreaksOff cancels the context before a host has answered.
func TestEndBreaksOff(t *testing.T) {
	t.Parallel()
	inBubble(t, "example.org:80", asItIs, func(w *world, c net.Conn, leave context.CancelFunc, done <-chan struct{}) {
		io.WriteString(c, "POST / HTTP/1.1\r\nHost: example.org\r\nContent-Length: 10\r\n\r\nabc")
		synctest.Wait()
		began := time.Now()
		leave()
		<-done
		if took := time.Since(began); took != 0 {
			t.Errorf("Serve takes %v to come back", took)
		}
	})
}

// TestEndWhileConnecting: a dial ends with its client.
func TestEndWhileConnecting(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, "example.org:80")
		w.front.Connect = func(ctx context.Context, _ egress.Target) (net.Conn, *egress.Entry, error) {
			<-ctx.Done()
			return nil, nil, ctx.Err()
		}
		client, accepted := net.Pipe()
		done := make(chan struct{})
		go func() {
			defer close(done)
			Serve(t.Context(), accepted, w.front)
		}()
		io.WriteString(client, "GET / HTTP/1.1\r\nHost: example.org\r\n\r\n")
		synctest.Wait()
		client.Close()
		<-done
	})
}

// TestWebSocketEnds cancels the context during a WebSocket connection.
func TestWebSocketEnds(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, "example.org:80")
		w.front.Connect = func(_ context.Context, to egress.Target) (net.Conn, *egress.Entry, error) {
			near, far := net.Pipe()
			go func() {
				_, _ = http.ReadRequest(bufio.NewReader(far))
				_, _ = io.WriteString(far, "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Accept: "+accepted+"\r\n\r\n")
				_, _ = io.Copy(io.Discard, far)
			}()
			return near, w.log.Begin(egress.LegTransparent, to), nil
		}
		client, accepted := net.Pipe()
		ctx, leave := context.WithCancel(context.Background())
		done := make(chan struct{})
		go func() {
			defer close(done)
			Serve(ctx, accepted, w.front)
		}()
		io.WriteString(client, wantsWebSocket)
		res, err := http.ReadResponse(bufio.NewReader(client), nil)
		if err != nil || res.StatusCode != http.StatusSwitchingProtocols {
			t.Fatal(res, err)
		}
		leave()
		<-done
	})
}
