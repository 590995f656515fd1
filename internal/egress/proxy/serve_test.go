package proxy

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"os"
	"runtime"
	"strings"
	"sync"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"palyra/internal/core/must"
	"palyra/internal/core/reason"
	"palyra/internal/egress"
)

// The end of a proxy closes all connections, and leaves no goroutine.
//
// Not parallel: it counts the goroutines of the process.
func TestTheEndOfASession(t *testing.T) {
	before := runtime.NumGoroutine()
	t.Run("proxy", func(t *testing.T) {
		w := newWorld(t)
		w.host("api.test:7", echo)
		w.host("api.test:443", echo)
		w.host("api.test:80", pages)
		w.host("api.test:9", func(net.Conn) { <-w.over })
		w.serve(grantOf(t, "api.test:7", "api.test:443", "api.test:80", "api.test:9"))
		var open []net.Conn
		for _, target := range []string{"api.test:7", "api.test:443", "api.test:80"} {
			for _, connect := range legs {
				conn := w.must(connect(w, target))
				open = append(open, conn)
			}
		}
		for _, l := range []net.Listener{w.http, w.socks} {
			conn := w.must(net.Dial("tcp", l.Addr().String()))
			open = append(open, conn)
		}
		open = append(open, w.stalledConn())
		exchange(t, open[0], "it lives")
		started := time.Now()
		must.Check(t, w.end())
		if took := time.Since(started); took > must.Patience {
			t.Errorf("the end took %v", took)
		}
		list, _ := w.proxy.Connections()
		for _, c := range list { // a silent connection is closed after the timeout
			if c.Reason == egress.ReasonSlow {
				t.Errorf("the end waited for %+v", c)
			}
		}
		for i, conn := range open {
			if _, err := conn.Read(make([]byte, 1)); err == nil || errors.Is(err, os.ErrDeadlineExceeded) {
				t.Errorf("connection %d: %v", i, err)
			}
			conn.Close()
		}
		for _, l := range []net.Listener{w.http, w.socks} {
			if _, err := l.Accept(); !errors.Is(err, net.ErrClosed) {
				t.Errorf("the listener: %v", err)
			}
		}
	})
	must.Eventually(t, fmt.Sprintf("%d goroutines", before), func() (bool, string) {
		if runtime.NumGoroutine() <= before {
			return true, ""
		}
		buffer := make([]byte, 1<<20)
		return false, string(buffer[:runtime.Stack(buffer, true)])
	})
}

// stalledConn returns a connection to a host that has stopped reading.
func (w *world) stalledConn() net.Conn {
	w.t.Helper()
	conn := must.Get(w.connect("api.test:9"))(w.t)
	must.Do(w.t, conn.SetWriteDeadline(time.Now().Add(200*time.Millisecond)))
	if _, err := io.Copy(conn, endless{}); !errors.Is(err, os.ErrDeadlineExceeded) {
		w.t.Fatal(err)
	}
	return conn
}

// A thousand connections, fifty at a time, each get their own answer and are in the log with
// their own byte counts.
func TestAThousandConnections(t *testing.T) {
	t.Parallel()
	const connections, atOnce = 1000, 50
	w := newWorld(t)
	for _, name := range []string{"a.test", "b.test", "c.test"} {
		w.host(name+":7", func(conn net.Conn) {
			_, _ = io.WriteString(conn, name+" ")
			echo(conn)
		})
		w.host(name+":443", w.secure(name, func(conn net.Conn) {
			_, _ = io.WriteString(conn, name+" ")
			echo(conn)
		}))
	}
	w.serve(grantOf(t, "*.test:7", "*.test:443"))
	turns := make(chan int)
	go func() {
		defer close(turns)
		for i := range connections {
			turns <- i
		}
	}()
	var workers sync.WaitGroup
	for range atOnce {
		workers.Go(func() {
			for i := range turns {
				if err := w.turn(i); err != nil {
					t.Errorf("connection %d: %v", i, err)
				}
			}
		})
	}
	workers.Wait()
	type line struct {
		leg, host string
		port      int
	}
	got := map[line]int{}
	lengths := map[int64]int{}
	list := w.ledger()
	for _, c := range list {
		if c.Verdict != egress.VerdictAllowed || c.Reason != "" {
			t.Fatalf("ledger: %+v", c)
		}
		got[line{c.Leg, c.Host, c.Port}]++
		if c.Port == 7 {
			lengths[c.BytesOut]++
			if c.BytesIn != c.BytesOut+int64(len("a.test ")) {
				t.Errorf("ledger: %+v", c)
			}
		}
	}
	want, wantLengths := map[line]int{}, map[int64]int{}
	for i := range connections {
		leg, name, port := plan(i)
		want[line{leg, name, port}]++
		if port == 7 {
			wantLengths[int64(len(nonce(i)))]++
		}
	}
	if len(list) != connections || fmt.Sprint(got) != fmt.Sprint(want) || fmt.Sprint(lengths) != fmt.Sprint(wantLengths) {
		t.Errorf("%d connections\n%v\n%v\n%v\n%v", len(list), got, want, lengths, wantLengths)
	}
}

func plan(i int) (leg, name string, port int) {
	return []string{egress.LegTransparent, egress.LegConnect, egress.LegSOCKS}[i%3], []string{"a.test", "b.test", "c.test"}[i/3%3], []int{7, 443}[i/9%2]
}

// nonce returns the text of connection i, with its own length.
func nonce(i int) string { return strings.Repeat(fmt.Sprintf("<%d>", i), i%97+1) }

func (w *world) turn(i int) error {
	leg, name, port := plan(i)
	conn, err := legs[leg](w, fmt.Sprintf("%s:%d", name, port))
	if err != nil {
		return err
	}
	defer conn.Close()
	if err := conn.SetDeadline(time.Now().Add(must.Patience)); err != nil {
		return err
	}
	if port == 443 {
		conn = w.client(conn, name)
	}
	if _, err := io.WriteString(conn, nonce(i)); err != nil {
		return err
	}
	if err := closeWrite(conn); err != nil {
		return err
	}
	got, err := io.ReadAll(conn)
	if err != nil || string(got) != name+" "+nonce(i) {
		return fmt.Errorf("got %q, %w", got, err)
	}
	return nil
}

// Two sessions are isolated: names of one do not resolve in the other, and neither accepts the
// other's addresses.
func TestSessionsAreIsolated(t *testing.T) {
	t.Parallel()
	one, other := newWorld(t), newWorld(t)
	one.host("one.test:7", echo)
	other.host("other.test:7", echo)
	one.serve(grantOf(t, "one.test:7"))
	other.serve(grantOf(t, "other.test:7"))
	addr := must.Get(one.lookup("one.test"))(t)
	if _, err := other.lookup("one.test"); err == nil {
		t.Error("the other proxy knows the name")
	}
	conn, err := other.transparent(addr.String() + ":7")
	refusedOn(t, egress.LegTransparent, egress.ReasonUnlisted, conn, err)
	if list := one.ledger(); len(list) != 0 {
		t.Errorf("the first proxy has %+v", list)
	}
	if got := other.only(); got.Host != addr.String() || got.Verdict != egress.VerdictDenied {
		t.Errorf("ledger: %+v", got)
	}
}

// failing is a listener whose process has no file descriptors left.
type failing struct {
	net.Listener
	failures int
	err      error
	tried    []time.Time
}

func (f *failing) Accept() (net.Conn, error) {
	if len(f.tried) < f.failures {
		f.tried = append(f.tried, time.Now())
		return nil, f.err
	}
	return f.Listener.Accept()
}

func TestAListenerThatFailsForAWhile(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.host("api.test:7", echo)
	w.serve(grantOf(t, "api.test:7"))
	proxy, err := New(grantOf(t, "api.test:7"), Outward{Resolver: w, Dial: w.dial})
	must.Do(t, err)
	ctx, cancel := context.WithCancel(t.Context())
	l := &failing{Listener: listen(t), failures: 4, err: syscall.EMFILE}
	served := make(chan error, 1)
	go func() { served <- proxy.Serve(ctx, Listeners{HTTP: l}) }()
	w.http = l
	conn := w.must(w.connect("api.test:7"))
	exchange(t, conn, "hello")
	cancel()
	must.Check(t, <-served)
	for i := range len(l.tried) - 1 {
		if waited := l.tried[i+1].Sub(l.tried[i]); waited < firstPause<<i {
			t.Errorf("pause %d was %v", i, waited)
		}
	}
}

func TestAListenerThatFailsForGood(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		proxy, err := New(grantOf(t, "api.test:7"), Outward{})
		must.Do(t, err)
		l := &failing{Listener: &fakeListener{arrived: make(chan net.Conn), close: func() error { return nil }}, failures: 1 << 20, err: syscall.ENFILE}
		other := &fakeListener{arrived: make(chan net.Conn), closed: make(chan struct{})}
		other.close = sync.OnceValue(func() error { close(other.closed); return nil })
		started := time.Now()
		err = proxy.Serve(t.Context(), Listeners{HTTP: l, SOCKS: other})
		if !errors.Is(err, syscall.ENFILE) {
			t.Errorf("Serve: %v", err)
		}
		if took := time.Since(started); len(l.tried) != mostFailures+1 || took < 30*time.Second || took > 2*time.Minute {
			t.Errorf("%d times in %v", len(l.tried), took)
		}
	})
}

func TestAListenerThatWasClosed(t *testing.T) {
	t.Parallel()
	proxy := must.Get(New(grantOf(t, "api.test:7"), Outward{}))(t)
	l := listen(t)
	l.Close()
	if err := proxy.Serve(t.Context(), Listeners{HTTP: l, SOCKS: listen(t)}); !errors.Is(err, net.ErrClosed) {
		t.Errorf("Serve: %v", err)
	}
}

// A panic in one connection ends the proxy with an error, but not the daemon.
func TestAFaultEndsTheSession(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.serve(grantOf(t, "api.test:7"))
	var log bytes.Buffer
	proxy := must.Get(New(grantOf(t, "api.test:7"), Outward{
		Resolver: w, Dial: func(context.Context, string, string) (net.Conn, error) { panic("a bug") },
		Log: slog.New(slog.NewTextHandler(&log, nil)),
	}))(t)
	w.addresses["api.test"] = mustAddr(t, "11.0.0.1")
	l := listen(t)
	w.http = l
	go func() { _, _ = w.connect("api.test:7") }()
	err := proxy.Serve(t.Context(), Listeners{HTTP: l})
	if reason.Of(err) != reason.Internal || strings.Contains(err.Error(), "a bug") {
		t.Errorf("Serve: %v", err)
	}
	if !strings.Contains(log.String(), "a bug") || !strings.Contains(log.String(), "serve_test.go") {
		t.Errorf("log: %s", &log)
	}
}

// faulty is a socket of a name service with a bug.
type faulty struct{ net.PacketConn }

func (faulty) ReadFrom([]byte) (int, net.Addr, error) { panic("a bug") }

func TestAFaultOfTheNameServiceEndsTheSession(t *testing.T) {
	t.Parallel()
	proxy := must.Get(New(grantOf(t, "api.test:7"), Outward{}))(t)
	conn := must.Get(net.ListenPacket("udp", "127.0.0.1:0"))(t)
	if err := proxy.Serve(t.Context(), Listeners{Names: faulty{conn}, HTTP: listen(t)}); reason.Of(err) != reason.Internal {
		t.Errorf("Serve: %v", err)
	}
}

func TestASessionThatNeverServes(t *testing.T) {
	t.Parallel()
	proxy := must.Get(New(grantOf(t, "api.test:7", "api.test:443"), Outward{}))(t)
	if list, missed := proxy.Connections(); len(list) != 0 || missed != 0 {
		t.Errorf("connections %v, %d", list, missed)
	}
	if ports := proxy.Ports(); fmt.Sprint(ports) != "[7 80 443]" {
		t.Errorf("ports %v", ports)
	}
	if ports := must.Get(New(egress.Reach{}, Outward{}))(t).Ports(); len(ports) > 0 {
		t.Errorf("ports %v of an offline program", ports)
	}
	if proxy.Bundle() != nil || len(proxy.Env("/bundle")) != 0 {
		t.Errorf("bundle %q, env %v", proxy.Bundle(), proxy.Env("/bundle"))
	}
	proxy.Close()
}
