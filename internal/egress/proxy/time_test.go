package proxy

import (
	"context"
	"io"
	"net"
	"net/netip"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"palyra/internal/core/must"
	"palyra/internal/core/tool"
	"palyra/internal/egress"
)

// timed is a proxy in a synctest bubble. Its connections are pipes.
type timed struct {
	t     *testing.T
	proxy *Proxy
	// http, socks and ports accept connections.
	http, socks, ports *fakeListener
	cancel             context.CancelCauseFunc
	served             func() error
}

// stop ends the proxy with a cause.
func (w *timed) stop(cause error) error {
	w.cancel(cause)
	return w.served()
}

func (w *timed) end() error { return w.stop(context.Canceled) }

const timedHost = "11.9.9.9"

// inTime runs a test with a proxy and a host in a synctest bubble.
func inTime(t *testing.T, budget egress.Budget, host func(net.Conn), test func(*timed)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		var hosts sync.WaitGroup
		grant := grantOf(t, timedHost+":443", timedHost+":80", timedHost+":8080", timedHost+":7")
		grant.Inspect = []egress.Inspection{{Host: grantOf(t, timedHost+":8080").Rules.Allow[0]}}
		grant.Budget = budget
		proxy := must.Get(New(grant, Outward{
			Interfaces: func() ([]netip.Addr, error) { return nil, nil },
			Dial: func(context.Context, string, string) (net.Conn, error) {
				here, there := net.Pipe()
				hosts.Go(func() {
					defer there.Close()
					host(there)
				})
				return here, nil
			},
		}))(t)
		w := &timed{t: t, proxy: proxy, http: pipes(), socks: pipes(), ports: pipes()}
		ctx, cancel := context.WithCancelCause(t.Context())
		served := make(chan error, 1)
		go func() {
			served <- proxy.Serve(ctx, Listeners{HTTP: w.http, SOCKS: w.socks, Ports: []net.Listener{w.ports}})
		}()
		w.cancel, w.served = cancel, sync.OnceValue(func() error { return <-served })
		test(w)
		must.Check(t, w.end())
		hosts.Wait()
	})
}

// pipes returns a listener for pipes.
func pipes() *fakeListener {
	g := &fakeListener{arrived: make(chan net.Conn), closed: make(chan struct{})}
	g.close = sync.OnceValue(func() error {
		close(g.closed)
		return nil
	})
	return g
}

// pipe is a connection with a fictitious destination.
type pipe struct {
	net.Conn
	at *net.TCPAddr
}

func (p pipe) LocalAddr() net.Addr { return p.at }

// connect connects to a listener, with a port of the host as the destination.
func (w *timed) connect(g *fakeListener, port uint16) net.Conn {
	inside, outside := net.Pipe()
	g.arrived <- pipe{outside, net.TCPAddrFromAddrPort(netip.AddrPortFrom(netip.MustParseAddr(timedHost), port))}
	return inside
}

// one ends the proxy and returns its one connection.
func (w *timed) one() tool.Connection {
	w.t.Helper()
	must.Do(w.t, w.end())
	list, _ := w.proxy.Connections()
	if len(list) != 1 {
		w.t.Fatalf("ledger: %+v", list)
	}
	return list[0]
}

func TestSlowClientsAreCutOff(t *testing.T) {
	t.Parallel()
	half := clientHello(t, "")[:100]
	for name, c := range map[string]struct {
		to    func(*timed) *fakeListener
		port  uint16
		says  []byte
		heard int // bytes of the answer before the end
		after time.Duration
	}{
		"nothing on 443":         {(*timed).transparent, 443, nil, 0, 30 * time.Second},
		"half a hello on 443":    {(*timed).transparent, 443, half, 0, 10 * time.Second},
		"half a hello on 7":      {(*timed).transparent, 7, half, 0, 10 * time.Second},
		"half a request on 7":    {(*timed).transparent, 7, []byte("GET /pa"), 0, 10 * time.Second},
		"nothing when inspected": {(*timed).transparent, 8080, nil, 0, 30 * time.Second},
		"nothing to the proxy":   {(*timed).httpProxy, 0, nil, 0, 30 * time.Second},
		"half a method":          {(*timed).httpProxy, 0, []byte("CONN"), 0, 10 * time.Second},
		"half a CONNECT":         {(*timed).httpProxy, 0, []byte("CONNECT a:443 HTTP/1.1\r\n"), 0, 10 * time.Second},
		"nothing after CONNECT":  {(*timed).httpProxy, 0, []byte("CONNECT 11.9.9.9:443 HTTP/1.1\r\n\r\n"), len(established), 30 * time.Second},
		"nothing to SOCKS":       {(*timed).socksProxy, 0, nil, 0, 30 * time.Second},
		"half a greeting":        {(*timed).socksProxy, 0, []byte{5}, 0, 10 * time.Second},
		"half of SOCKS":          {(*timed).socksProxy, 0, []byte{5, 1, 0, 5, 1}, 2, 10 * time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			silent := func(conn net.Conn) {
				if heard, _ := io.ReadAll(conn); len(heard) > 0 {
					t.Errorf("the host heard %q", heard)
				}
			}
			inTime(t, egress.Budget{}, silent, func(w *timed) {
				conn := w.connect(c.to(w), c.port)
				started := time.Now()
				if len(c.says) > 0 { // a pipe also transmits empty writes
					go func() { _, _ = conn.Write(c.says) }()
				}
				answer, err := io.ReadAll(conn)
				if took := time.Since(started); err != nil || len(answer) != c.heard || took != c.after {
					t.Errorf("%q, %v after %v, want the end after %v", answer, err, took, c.after)
				}
				if got := w.one(); got.Reason != egress.ReasonSlow || got.Verdict != egress.VerdictDenied {
					t.Errorf("ledger: %+v", got)
				}
			})
		})
	}
}

func (w *timed) transparent() *fakeListener { return w.ports }
func (w *timed) httpProxy() *fakeListener   { return w.http }
func (w *timed) socksProxy() *fakeListener  { return w.socks }

// TestTrickledBytes: sending a byte from time to time does not extend the timeout.
func TestTrickledBytes(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		to   func(*timed) *fakeListener
		says []byte
	}{
		"a hello":   {(*timed).transparent, clientHello(t, "")},
		"a CONNECT": {(*timed).httpProxy, []byte("CONNECT 11.9.9.9:443 HTTP/1.1\r\n\r\n")},
		"SOCKS":     {(*timed).socksProxy, []byte("\x05\x01\x00\x05\x01\x00\x03\x20abcdefghijklmnopqrstuvwxyz")},
	} {
		t.Run(name, func(t *testing.T) {
			inTime(t, egress.Budget{}, func(conn net.Conn) { _, _ = io.ReadAll(conn) }, func(w *timed) {
				conn := w.connect(c.to(w), 443)
				go func() { _, _ = io.Copy(io.Discard, conn) }()
				started := time.Now()
				for _, b := range c.says {
					if _, err := conn.Write([]byte{b}); err != nil {
						break
					}
					time.Sleep(time.Second)
				}
				if took := time.Since(started); took > 12*time.Second {
					t.Errorf("it took %v", took)
				}
				if got := w.one(); got.Reason != egress.ReasonSlow {
					t.Errorf("ledger: %+v", got)
				}
			})
		})
	}
}

func TestSilence(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		port   uint16
		says   string
		most   time.Duration // of a connection
		after  time.Duration
		reason string
	}{
		"from the start":        {7, "", 0, 10 * time.Minute, egress.ReasonSlow},
		"in the midst":          {7, "hello\n", 0, 10 * time.Minute, egress.ReasonSlow},
		"until the time is up":  {7, "hello\n", time.Minute, time.Minute, egress.ReasonBudgetTime},
		"shorter than patience": {443, "", time.Second, time.Second, egress.ReasonSlow},
	} {
		t.Run(name, func(t *testing.T) {
			inTime(t, egress.Budget{Time: c.most}, func(conn net.Conn) { _, _ = io.Copy(io.Discard, conn) }, func(w *timed) {
				conn := w.connect(w.ports, c.port)
				started := time.Now()
				if c.says != "" {
					must.Get(io.WriteString(conn, c.says))(t)
				}
				if n, err := conn.Read(make([]byte, 1)); err == nil {
					t.Errorf("%d bytes", n)
				}
				if took := time.Since(started); took != c.after {
					t.Errorf("it took %v", took)
				}
				if got := w.one(); got.Reason != c.reason {
					t.Errorf("ledger: %+v", got)
				}
			})
		})
	}
}

// One side may be silent while the other sends, up to the connection's time limit.
func TestTime(t *testing.T) {
	t.Parallel()
	for name, port := range map[string]uint16{"raw": 7, "HTTP": 80} {
		t.Run(name, func(t *testing.T) {
			speaks := func(conn net.Conn) {
				if port == 80 {
					_, _ = io.ReadFull(conn, make([]byte, 10))
					_, _ = io.WriteString(conn, "HTTP/1.1 200 OK\r\n\r\n")
				}
				for {
					if _, err := io.WriteString(conn, "x"); err != nil {
						return
					}
					time.Sleep(time.Minute)
				}
			}
			inTime(t, egress.Budget{}, speaks, func(w *timed) {
				conn := w.connect(w.ports, port)
				started := time.Now()
				if port == 80 {
					go func() { _, _ = io.WriteString(conn, "GET / HTTP/1.1\r\nHost: "+timedHost+"\r\n\r\n") }()
				}
				got, _ := io.ReadAll(conn)
				if took := time.Since(started); len(got) < 59 || took < 59*time.Minute || took > time.Hour {
					t.Errorf("%d bytes in %v", len(got), took)
				}
				if got := w.one(); got.Reason != egress.ReasonBudgetTime || got.Verdict != egress.VerdictAllowed {
					t.Errorf("ledger: %+v", got)
				}
			})
		})
	}
}

// TestRefusalsAreDelayed: after a client has used its connection limit, each refusal is delayed.
func TestRefusalsAreDelayed(t *testing.T) {
	t.Parallel()
	inTime(t, egress.Budget{Connections: 1}, func(conn net.Conn) { _, _ = io.Copy(conn, conn) }, func(w *timed) {
		conn := w.connect(w.ports, 7)
		defer conn.Close()
		exchange(t, conn, "hello\n")
		started := time.Now()
		for range 10 {
			w.connect(w.ports, 7)
		}
		if took := time.Since(started); took < 9*acceptDelay {
			t.Errorf("ten refusals took %v", took)
		}
		exchange(t, conn, "the first goes on\n")
	})
}
