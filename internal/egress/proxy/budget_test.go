package proxy

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"

	"palyra/internal/core/must"
	"palyra/internal/core/tool"
	"palyra/internal/egress"
)

func TestNoMoreConnections(t *testing.T) {
	t.Parallel()
	for leg, connect := range legs {
		t.Run(leg, func(t *testing.T) {
			w := newWorld(t)
			w.host("api.test:7", echo)
			grant := grantOf(t, "api.test:7")
			grant.Budget.Connections = 2
			w.serve(grant)
			for range 2 {
				conn := w.must(connect(w, "api.test:7"))
				exchange(t, conn, "hello")
				conn.Close()
			}
			conn, err := connect(w, "api.test:7")
			refusedOn(t, leg, egress.ReasonBudgetConnections, conn, err)
			w.reasons("", "", egress.ReasonBudgetConnections)
		})
	}
}

// reasons checks that the log has these reasons, in order, and a denial for each.
func (w *world) reasons(want ...string) {
	w.t.Helper()
	list := w.ledger()
	var got []string
	for _, c := range list {
		got = append(got, c.Reason)
	}
	if strings.Join(got, " ") != strings.Join(want, " ") {
		w.t.Errorf("reasons %q, want %q: %+v", got, want, list)
	}
}

func TestTooManyConnectionsAtOnce(t *testing.T) {
	t.Parallel()
	for leg, connect := range legs {
		t.Run(leg, func(t *testing.T) {
			w := newWorld(t)
			w.host("api.test:7", echo)
			grant := grantOf(t, "api.test:7")
			grant.Budget.Concurrent = 2
			w.serve(grant)
			var open []net.Conn
			for range 2 {
				conn := w.must(connect(w, "api.test:7"))
				exchange(t, conn, "hello")
				open = append(open, conn)
			}
			conn, err := connect(w, "api.test:7")
			if err == nil {
				_, err = withDeadline(t, conn).Read(make([]byte, 1))
			}
			if !errors.Is(err, syscall.ECONNRESET) && !errors.Is(err, io.EOF) && !errors.Is(err, syscall.EPIPE) {
				t.Errorf("the third sees %v", err)
			}
			exchange(t, open[0], "the others go on")
			// Once a connection has ended, another is allowed.
			must.Do(t, closeWrite(open[1]))
			must.Get(io.ReadAll(open[1]))(t)
			again := w.retry(connect, "api.test:7")
			exchange(t, withDeadline(t, again), "hello")
			list := w.ledger()
			if list[2].Reason != egress.ReasonBudgetConcurrent || list[2].Verdict != egress.VerdictDenied || list[2].Leg != leg {
				t.Errorf("ledger: %+v", list)
			}
		})
	}
}

// retry connects until a connection is allowed, because a slot is free only a moment after its
// connection has ended.
func (w *world) retry(connect func(*world, string) (net.Conn, error), target string) net.Conn {
	w.t.Helper()
	for range 1000 {
		conn, err := connect(w, target)
		if err != nil {
			continue
		}
		if _, err := io.WriteString(withDeadline(w.t, conn), "?"); err == nil {
			if _, err := io.ReadFull(conn, make([]byte, 1)); err == nil {
				return conn
			}
		}
		conn.Close()
	}
	w.t.Fatal("there is never room")
	return nil
}

func TestByteLimit(t *testing.T) {
	t.Parallel()
	const most = 3<<20 + 17
	flood := func(conn net.Conn) { _, _ = io.Copy(conn, endless{}) }
	for leg, connect := range legs {
		for reason, c := range map[string]struct {
			serve func(net.Conn)
			talk  func(net.Conn)
			set   func(*egress.Budget)
			count func(tool.Connection) int64
		}{
			egress.ReasonBudgetBytesOut: {
				func(conn net.Conn) { _, _ = io.Copy(io.Discard, conn) }, flood,
				func(b *egress.Budget) { b.BytesOut = most }, func(c tool.Connection) int64 { return c.BytesOut },
			},
			egress.ReasonBudgetBytesIn: {
				flood, func(conn net.Conn) { _, _ = io.Copy(io.Discard, conn) },
				func(b *egress.Budget) { b.BytesIn = most }, func(c tool.Connection) int64 { return c.BytesIn },
			},
		} {
			t.Run(leg+" "+reason, func(t *testing.T) {
				w := newWorld(t)
				var heard atomic.Int64
				w.host("api.test:9", func(conn net.Conn) { c.serve(&heardConn{conn, &heard}) })
				grant := grantOf(t, "api.test:9")
				c.set(&grant.Budget)
				w.serve(grant)
				conn := w.must(connect(w, "api.test:9"))
				var got atomic.Int64
				c.talk(&heardConn{conn, &got})
				if n, err := conn.Read(make([]byte, 1)); err == nil {
					t.Errorf("the program gets %d bytes more", n)
				}
				l := w.only()
				if l.Reason != reason || l.Verdict != egress.VerdictAllowed {
					t.Errorf("ledger: %+v", l)
				}
				// The counted bytes are the forwarded ones; the last chunk may exceed the limit.
				if n := c.count(l); n < most-largeBuffer || n > most+largeBuffer {
					t.Errorf("%d bytes of %d are counted", n, most)
				}
				if heard.Load() > most || got.Load() > most {
					t.Errorf("%d and %d bytes of %d got through", heard.Load(), got.Load(), most)
				}
			})
		}
	}
}

// heardConn counts the bytes that were read.
type heardConn struct {
	net.Conn
	n *atomic.Int64
}

func (h *heardConn) Read(b []byte) (int, error) {
	n, err := h.Conn.Read(b)
	h.n.Add(int64(n))
	return n, err
}

// All connections share one budget of bytes, and never exceed it, however many there are.
func TestBytesOfAllConnections(t *testing.T) {
	t.Parallel()
	const most = 5 << 20
	w := newWorld(t)
	var heard atomic.Int64
	w.host("api.test:9", func(conn net.Conn) { _, _ = io.Copy(io.Discard, &heardConn{conn, &heard}) })
	grant := grantOf(t, "api.test:9")
	grant.Budget.BytesOut = most
	w.serve(grant)
	var all sync.WaitGroup
	for range 20 {
		all.Go(func() {
			conn, err := w.connect("api.test:9")
			if err != nil {
				t.Error(err)
				return
			}
			defer conn.Close()
			_, _ = io.Copy(withDeadline(t, conn), endless{})
		})
	}
	all.Wait()
	var counted int64
	for _, c := range w.ledger() {
		counted += c.BytesOut
		if c.Reason != egress.ReasonBudgetBytesOut {
			t.Errorf("ledger: %+v", c)
		}
	}
	if counted > most || heard.Load() > most || counted < most-20*largeBuffer {
		t.Errorf("%d bytes are counted and %d were heard, want at most %d", counted, heard.Load(), most)
	}
}

func TestRequestLimit(t *testing.T) {
	t.Parallel()
	for name, connect := range map[string]func(*world) (net.Conn, error){
		egress.LegTransparent: func(w *world) (net.Conn, error) { return w.transparent("api.test:80") },
		egress.LegConnect:     func(w *world) (net.Conn, error) { return w.connect("api.test:80") },
		egress.LegForward:     func(w *world) (net.Conn, error) { return net.Dial("tcp", w.http.Addr().String()) },
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			w.host("api.test:80", pages)
			grant := grantOf(t, "api.test:80")
			grant.Budget.Requests = 2
			w.serve(grant)
			conn := w.must(connect(w))
			defer conn.Close()
			in := bufio.NewReader(conn)
			for i, want := range []int{200, 200, 403} {
				url := "/"
				if name == egress.LegForward {
					url = "http://api.test/"
				}
				must.Get(fmt.Fprintf(conn, "GET %s HTTP/1.1\r\nHost: api.test\r\n\r\n", url))(t)
				answer := must.Get(http.ReadResponse(in, nil))(t)
				if _, err := io.Copy(io.Discard, answer.Body); err != nil || answer.StatusCode != want {
					t.Errorf("request %d: %s, %v", i, answer.Status, err)
				}
				if want == 403 && answer.Header.Get("Palyra-Reason") != egress.ReasonBudgetRequests {
					t.Errorf("header: %v", answer.Header)
				}
			}
			list := w.ledger()
			if last := list[len(list)-1]; last.Reason != egress.ReasonBudgetRequests || list[0].Requests != 2 {
				t.Errorf("ledger: %+v", list)
			}
		})
	}
}

func TestAllowance(t *testing.T) {
	t.Parallel()
	var a allowance
	a.giveBack(100)
	if a.take(101) || !a.take(60) || a.take(41) || !a.take(40) || a.take(1) || !a.take(0) {
		t.Error("it gives what it has not, or keeps what it has")
	}
	a.giveBack(160)
	if n := a.takeSome(1000); n != 10 {
		t.Errorf("takeSome took %d of 160", n)
	}
	if n := a.takeSome(3); n != 3 || !a.take(147) || a.take(1) {
		t.Errorf("takeSome took %d", n)
	}
	if n := a.takeSome(3); n != 0 {
		t.Errorf("takeSome took %d of nothing", n)
	}
}

// The unused part of a chunk's allowance is returned to the other connections.
func TestShortStreamsUseWhatTheySend(t *testing.T) {
	t.Parallel()
	const connections, size = 200, 2 * mostAtOnce
	w := newWorld(t)
	w.host("api.test:9", func(conn net.Conn) { _, _ = io.Copy(io.Discard, conn) })
	grant := grantOf(t, "api.test:9")
	grant.Budget.BytesOut = 4 << 20
	w.serve(grant)
	for range connections {
		conn := w.must(w.connect("api.test:9"))
		must.Get(io.CopyN(conn, endless{}, size))(t)
		must.Do(t, closeWrite(conn))
		must.Get(io.ReadAll(conn))(t)
		conn.Close()
	}
	for _, c := range w.ledger() {
		if c.Reason != "" || c.BytesOut != size {
			t.Errorf("ledger: %+v", c)
		}
	}
}

// One client of the HTTP proxy may have connections to several hosts, within a limit.
func TestTooManyHostsAtOnce(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	for _, target := range []string{"a.test:80", "b.test:80", "c.test:80"} {
		w.host(target, pages)
	}
	grant := grantOf(t, "*.test:80")
	grant.Budget.Concurrent = 1
	w.serve(grant)
	conn := w.must(net.Dial("tcp", w.http.Addr().String()))
	defer conn.Close()
	in := bufio.NewReader(conn)
	for name, want := range map[string]int{"a.test": 200, "b.test": 200} {
		if status, body := asked(t, conn, in, "GET http://"+name+"/ HTTP/1.1\r\nHost: "+name+"\r\n\r\n"); status != want {
			t.Errorf("%s: %d %q", name, status, body)
		}
	}
	status, body := asked(t, conn, in, "GET http://c.test/ HTTP/1.1\r\nHost: c.test\r\n\r\n")
	if status != 403 || !strings.Contains(body, "too many connections are open") {
		t.Errorf("the third: %d %q", status, body)
	}
	w.reasons("", "", egress.ReasonBudgetConcurrent)
}
