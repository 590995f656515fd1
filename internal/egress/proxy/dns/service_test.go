package dns

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"os"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"golang.org/x/net/dns/dnsmessage"

	"palyra/internal/core/must"
)

// serve runs a service on loopback and returns a resolver that queries it.
func serve(t *testing.T, s *Service, network string) (*net.Resolver, string) {
	t.Helper()
	packets := must.Get(net.ListenPacket("udp", "127.0.0.1:0"))(t)
	l := must.Get(net.Listen("tcp", "127.0.0.1:0"))(t)
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 2)
	go func() { ended <- s.ServePackets(ctx, packets) }()
	go func() { ended <- serveAll(ctx, s, l) }()
	t.Cleanup(func() {
		cancel()
		l.Close()
		for range 2 {
			must.Check(t, <-ended)
		}
		if _, _, err := packets.ReadFrom(nil); !errors.Is(err, net.ErrClosed) {
			t.Errorf("the socket is not closed: %v", err)
		}
	})
	address := packets.LocalAddr().String()
	if network == "tcp" {
		address = l.Addr().String()
	}
	return &net.Resolver{PreferGo: true, Dial: func(ctx context.Context, _, _ string) (net.Conn, error) {
		return (&net.Dialer{}).DialContext(ctx, network, address)
	}}, address
}

// serveAll serves the connections of a listener until it is closed.
func serveAll(ctx context.Context, s *Service, l net.Listener) error {
	var conns sync.WaitGroup
	defer conns.Wait()
	for {
		conn, err := l.Accept()
		if errors.Is(err, net.ErrClosed) {
			return nil
		}
		if err != nil {
			return err
		}
		conns.Go(func() { s.ServeConn(ctx, conn) })
	}
}

func TestResolver(t *testing.T) {
	t.Parallel()
	for _, network := range []string{"udp", "tcp"} {
		t.Run(network, func(t *testing.T) {
			s := newService(t, "example.org")
			r, _ := serve(t, s, network)
			addrs, err := r.LookupNetIP(t.Context(), "ip", "example.org.")
			slices.SortFunc(addrs, netip.Addr.Compare)
			if err != nil || fmt.Sprint(addrs) != "[198.18.0.1 fd00::1]" {
				t.Errorf("%v, %v", addrs, err)
			}
			addrs, err = r.LookupNetIP(t.Context(), "ip", "other.example.")
			var dns *net.DNSError
			if !errors.As(err, &dns) || !dns.IsNotFound {
				t.Errorf("%v, %v", addrs, err)
			}
			if got := entries(t, s); got != "example.org=allowed other.example=denied/unlisted" {
				t.Error(got)
			}
		})
	}
}

// TestOversized: a datagram that is too large gets no answer, and the next one
// does.
func TestOversized(t *testing.T) {
	t.Parallel()
	_, address := serve(t, newService(t, "example.org"), "udp")
	conn := must.Get(net.Dial("udp", address))(t)
	defer conn.Close()
	large := append(query(t, "example.org.", dnsmessage.TypeA), make([]byte, mostQuery)...)
	large[1]++ // its ID
	for _, q := range [][]byte{large, query(t, "example.org.", dnsmessage.TypeA)} {
		must.Get(conn.Write(q))(t)
	}
	reply := make([]byte, 512)
	if n, err := conn.Read(reply); err != nil || n < 2 || binary.BigEndian.Uint16(reply) != 4711 {
		t.Errorf("%v, %x", err, reply[:n])
	}
}

// TestStreamsThatAreNoQueries: an excessive length or an invalid query ends the connection.
func TestStreamsThatAreNoQueries(t *testing.T) {
	t.Parallel()
	_, address := serve(t, newService(t, "example.org"), "tcp")
	for _, says := range []string{"\xff\xff", "\x00\x00", "\x00\x01x"} {
		conn := must.Get(net.Dial("tcp", address))(t)
		defer conn.Close()
		must.Get(conn.Write([]byte(says)))(t)
		if text, err := io.ReadAll(conn); err != nil || len(text) > 0 {
			t.Errorf("%q: %q, %v", says, text, err)
		}
	}
}

// TestSlowStream: a client that does not complete its query is disconnected.
func TestSlowStream(t *testing.T) {
	t.Parallel()
	for cut := range 4 {
		synctest.Test(t, func(t *testing.T) {
			near, far := net.Pipe()
			defer near.Close()
			start := time.Now()
			go func() { _, _ = near.Write([]byte{0, 30, 1, 2}[:cut]) }()
			newService(t).ServeConn(t.Context(), far)
			if took := time.Since(start); took != patience {
				t.Errorf("after %d bytes it took %s", cut, took)
			}
			if _, err := far.Write(nil); errors.Is(err, os.ErrDeadlineExceeded) || err == nil {
				t.Errorf("the connection is open: %v", err)
			}
		})
	}
}

// TestStreamEndsWithContext: the end of the context ends a stream that waits for a query.
func TestStreamEndsWithContext(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancel(t.Context())
	near, far := net.Pipe()
	defer near.Close()
	done := make(chan struct{})
	go func() {
		defer close(done)
		newService(t).ServeConn(ctx, far)
	}()
	cancel()
	<-done
}
