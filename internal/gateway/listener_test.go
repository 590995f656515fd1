package gateway

import (
	"bytes"
	"compress/gzip"
	"context"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"syscall"
	"testing"

	"connectrpc.com/connect"

	palyrav1 "palyra/gen/palyra/v1"
	"palyra/gen/palyra/v1/palyrav1connect"
	"palyra/internal/core/must"
	"palyra/internal/gateway/gatewaytest"
)

// fromAddress is a connection with a fixed remote address.
type fromAddress struct {
	net.Conn
	ip string
}

func (c fromAddress) RemoteAddr() net.Addr { return &net.TCPAddr{IP: net.ParseIP(c.ip), Port: 1} }
func (fromAddress) Close() error           { return nil }

// offering is a listener that accepts the given connections, and then returns an error.
type offering struct {
	net.Listener
	conns []net.Conn
}

func (o *offering) Addr() net.Addr { return &net.TCPAddr{} }

func (o *offering) Accept() (net.Conn, error) {
	if len(o.conns) == 0 {
		return nil, syscall.EMFILE
	}
	next := o.conns[0]
	o.conns = o.conns[1:]
	return next, nil
}

// TestConnectionsAreBounded: a connection above a bound is refused, and a closed one makes
// room, once. Connections from this machine count only against the bound of all connections.
func TestConnectionsAreBounded(t *testing.T) {
	t.Parallel()
	book := &gatewaytest.Log{}
	source := &offering{}
	a := &acceptor{Listener: source, log: book.Logger(), most: 4, mostOfOne: 2}
	offer := func(ips ...string) (in []net.Conn) {
		for _, ip := range ips {
			source.conns = append(source.conns, fromAddress{ip: ip})
		}
		for {
			conn, err := a.Accept()
			if err != nil {
				return in
			}
			conn.(*countedConn).SetAuthenticated(true)
			in = append(in, conn)
		}
	}
	far := offer("192.0.2.1", "192.0.2.1", "192.0.2.1")
	if len(far) != 2 {
		t.Fatalf("%d of one address got in, want 2", len(far))
	}
	if n := len(offer("127.0.0.1", "127.0.0.1", "127.0.0.1")); n != 2 {
		t.Errorf("%d more got in, want 2", n)
	}
	must.Do(t, far[0].Close())
	must.Do(t, far[0].Close())
	if n := len(offer("192.0.2.1", "192.0.2.1")); n != 1 {
		t.Errorf("%d got in after one was closed, want 1", n)
	}
	if book.Count("listen.max_connections_per_address") != 1 {
		t.Errorf("the log: %s", book)
	}
}

// closing is a connection that reports when it is closed.
type closing struct {
	fromAddress
	closed chan string
}

func (c closing) Close() error {
	c.closed <- c.ip
	return nil
}

// TestUnauthenticatedAreEvicted: at the bound of all connections, the oldest unauthenticated
// connection is closed. At the bound of an address, the oldest unauthenticated one of that
// address is closed. Authenticated connections stay. Control: with only authenticated
// connections, the next one is refused.
func TestUnauthenticatedAreEvicted(t *testing.T) {
	t.Parallel()
	book := &gatewaytest.Log{}
	source, closed := &offering{}, make(chan string, 16)
	a := &acceptor{Listener: source, log: book.Logger(), most: 4, mostOfOne: 2}
	accept := func(ip string) *countedConn {
		source.conns = append(source.conns, closing{fromAddress{ip: ip}, closed})
		conn, err := a.Accept()
		if err != nil {
			return nil
		}
		return conn.(*countedConn)
	}
	accept("192.0.2.1").SetAuthenticated(true)
	accept("192.0.2.2")
	accept("192.0.2.3")
	accept("192.0.2.2")
	if accept("192.0.2.4") == nil || <-closed != "192.0.2.2" {
		t.Error("the oldest unauthenticated connection was not closed for one of another address")
	}
	accept("192.0.2.4")
	if got := <-closed; got != "192.0.2.3" {
		t.Errorf("%s was closed, want the oldest unauthenticated connection", got)
	}
	if accept("192.0.2.4") == nil || <-closed != "192.0.2.4" {
		t.Error("at the bound of an address, no connection of that address was closed")
	}
	if book.Count("an unauthenticated connection was closed") != 1 {
		t.Errorf("the log: %s", book)
	}
	// A connection whose credential was revoked is unauthenticated again.
	known := accept("192.0.2.6")
	<-closed
	known.SetAuthenticated(true)
	known.SetAuthenticated(false)
	if known.place == nil || a.unauthenticated.Back().Value != known {
		t.Error("a connection whose credential was revoked counts as authenticated")
	}
	for e := a.unauthenticated.Front(); e != nil; e = a.unauthenticated.Front() {
		e.Value.(*countedConn).SetAuthenticated(true)
	}
	if accept("192.0.2.5") != nil || a.open != 4 {
		t.Errorf("an authenticated connection was closed for a new one, %d are open", a.open)
	}
	if got := <-closed; got != "192.0.2.5" {
		t.Errorf("%s was closed, want the one that is too many", got)
	}
}

// TestConnectionsOfANetworkAreBounded: the addresses of one IPv6 network count as one, and
// another network's do not. Control: IPv4 addresses count separately.
func TestConnectionsOfANetworkAreBounded(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		ips  []string
		want int
	}{
		{[]string{"2001:db8:1:2::1", "2001:db8:1:2::2", "2001:db8:1:2:3::3", "2001:db8:1:3::1"}, 3},
		{[]string{"192.0.2.1", "192.0.2.2", "192.0.2.3", "192.0.2.4"}, 4},
	} {
		source := &offering{}
		a := &acceptor{Listener: source, log: (&gatewaytest.Log{}).Logger(), most: 10, mostOfOne: 2}
		for _, ip := range c.ips {
			source.conns = append(source.conns, fromAddress{ip: ip})
		}
		in := 0
		for {
			conn, err := a.Accept()
			if err != nil {
				break
			}
			conn.(*countedConn).SetAuthenticated(true)
			in++
		}
		if in != c.want {
			t.Errorf("%d of %v got in, want %d", in, c.ips, c.want)
		}
	}
}

// TestOutOfFilesIsNamed: the log names the limit to raise.
func TestOutOfFilesIsNamed(t *testing.T) {
	t.Parallel()
	book := &gatewaytest.Log{}
	a := &acceptor{Listener: &offering{}, log: book.Logger(), most: 1, mostOfOne: 1}
	if _, err := a.Accept(); err == nil || book.Count("LimitNOFILE") != 1 {
		t.Errorf("%v, %s", err, book)
	}
}

// TestGzipBomb: a small body that decompresses to a large one is refused because of its size.
// Control: a handler without the bound accepts it.
func TestGzipBomb(t *testing.T) {
	t.Parallel()
	var bomb bytes.Buffer
	z := gzip.NewWriter(&bomb)
	must.Get(z.Write([]byte("{}")))(t)
	for range 64 {
		must.Get(z.Write(bytes.Repeat([]byte(" "), 1<<20)))(t)
	}
	must.Do(t, z.Close())
	send := func(client *http.Client, url string) int {
		r := must.Get(http.NewRequestWithContext(t.Context(), http.MethodPost, url+palyrav1connect.StatusServiceGetStatusProcedure, bytes.NewReader(bomb.Bytes())))(t)
		r.Header.Set("Content-Type", "application/json")
		r.Header.Set("Content-Encoding", "gzip")
		answer := must.Get(client.Do(r))(t)
		must.Do(t, answer.Body.Close())
		return answer.StatusCode
	}
	d := startWith(t, Options{Config: testConfig(t), Log: slog.New(slog.DiscardHandler)})
	if code := send(d.client(), d.url()); code != http.StatusTooManyRequests {
		t.Errorf("the gateway answers %d to %d bytes that unpack to 64 MiB", code, bomb.Len())
	}
	d.end()
	unbounded := httptest.NewServer(connect.NewUnaryHandler(palyrav1connect.StatusServiceGetStatusProcedure,
		func(context.Context, *connect.Request[palyrav1.GetStatusRequest]) (*connect.Response[palyrav1.GetStatusResponse], error) {
			return connect.NewResponse(&palyrav1.GetStatusResponse{}), nil
		}))
	defer unbounded.Close()
	if code := send(unbounded.Client(), strings.TrimSuffix(unbounded.URL, "/")); code != http.StatusOK {
		t.Errorf("the control answers %d", code)
	}
}
