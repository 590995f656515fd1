package proxy

import (
	"context"
	"io"
	"net"
	"net/netip"
	"sync"
	"testing"

	"palyra/internal/core/must"
	"palyra/internal/egress"
)

// capture makes a proxy capture connections to an address of the loopback network, and forward
// them to serve. Without a proxy, it returns the address of the server itself.
func capture(b *testing.B, through bool, serve func(net.Conn)) string {
	b.Helper()
	server := listen(b)
	var serving sync.WaitGroup
	serving.Go(func() {
		for {
			conn, err := server.Accept()
			if err != nil {
				return
			}
			serving.Go(func() {
				defer conn.Close()
				serve(conn)
			})
		}
	})
	b.Cleanup(func() { server.Close(); serving.Wait() })
	if !through {
		return server.Addr().String()
	}
	inside := must.Get(net.Listen("tcp", "127.0.0.2:0"))(b)
	address := inside.Addr().String()
	grant := grantOf(b, address)
	grant.Budget = egress.Budget{Connections: 1 << 30, BytesOut: 1 << 50, BytesIn: 1 << 50}
	proxy := must.Get(New(grant, Outward{
		Interfaces: func() ([]netip.Addr, error) { return nil, nil },
		Dial: func(ctx context.Context, network, _ string) (net.Conn, error) {
			return new(net.Dialer).DialContext(ctx, network, server.Addr().String())
		},
	}))(b)
	must.Run(b, func(ctx context.Context) error { return proxy.Serve(ctx, Listeners{Ports: []net.Listener{inside}}) })
	return address
}

func BenchmarkThroughput(b *testing.B) {
	const size = 1 << 30
	chunk := make([]byte, 128<<10)
	flood := func(w io.Writer) {
		for range size / len(chunk) {
			if _, err := w.Write(chunk); err != nil {
				return
			}
		}
	}
	for _, way := range []struct {
		name    string
		through bool
	}{{"direct", false}, {"through", true}} {
		b.Run("download/"+way.name, func(b *testing.B) {
			address := capture(b, way.through, func(conn net.Conn) {
				_, _ = io.ReadFull(conn, make([]byte, 1))
				flood(conn)
			})
			b.SetBytes(size)
			for b.Loop() {
				conn := mustDial(b, address)
				if _, err := conn.Write([]byte("\x00")); err != nil {
					b.Fatal(err)
				}
				if n := drain(conn); n != size {
					b.Fatalf("%d bytes", n)
				}
				conn.Close()
			}
		})
		b.Run("upload/"+way.name, func(b *testing.B) {
			address := capture(b, way.through, func(conn net.Conn) { _ = drain(conn) })
			b.SetBytes(size)
			for b.Loop() {
				conn := mustDial(b, address)
				flood(conn)
				must.Do(b, closeWrite(conn))
				if _, err := io.ReadAll(conn); err != nil {
					b.Fatal(err)
				}
				conn.Close()
			}
		})
	}
}

// drain reads everything into its own buffer, as a program does.
func drain(conn net.Conn) (n int) {
	buffer := make([]byte, 128<<10)
	for {
		m, err := conn.Read(buffer)
		n += m
		if err != nil {
			return n
		}
	}
}

func mustDial(b *testing.B, address string) net.Conn {
	b.Helper()
	return must.Get(net.Dial("tcp", address))(b)
}

// BenchmarkConnection measures a connection with one question and one answer.
func BenchmarkConnection(b *testing.B) {
	for _, way := range []struct {
		name    string
		through bool
	}{{"direct", false}, {"through", true}} {
		ask := func(b *testing.B, address string) {
			conn := mustDial(b, address)
			defer conn.Close()
			if _, err := conn.Write([]byte("\x00")); err != nil {
				b.Fatal(err)
			}
			if _, err := io.ReadFull(conn, make([]byte, 1)); err != nil {
				b.Fatal(err)
			}
		}
		b.Run("one/"+way.name, func(b *testing.B) {
			address := capture(b, way.through, echo)
			for b.Loop() {
				ask(b, address)
			}
		})
		b.Run("fifty/"+way.name, func(b *testing.B) {
			address := capture(b, way.through, echo)
			b.SetParallelism(25) // multiplied by two processors
			b.RunParallel(func(p *testing.PB) {
				for p.Next() {
					ask(b, address)
				}
			})
		})
		b.Run("question/"+way.name, func(b *testing.B) {
			address := capture(b, way.through, echo)
			conn := mustDial(b, address)
			defer conn.Close()
			b.ReportAllocs()
			answer := make([]byte, 1)
			for b.Loop() {
				if _, err := conn.Write([]byte("\x00")); err != nil {
					b.Fatal(err)
				}
				if _, err := io.ReadFull(conn, answer); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
