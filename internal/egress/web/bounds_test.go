package web

import (
	"bufio"
	"io"
	"net"
	"net/http"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"

	"palyra/internal/core/must"
)

// TestUnreadAnswers uses an HTTP/2 client that requests much and reads nothing. The amount that
// hosts can send is the amount that the gateway stores.
func TestUnreadAnswers(t *testing.T) {
	t.Parallel()
	w := newWorld(t, "example.org:443")
	a := newAuthorities(t)
	var sent atomic.Int64
	var writers sync.WaitGroup
	w.secureHost(a, "example.org:443", http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/ping" {
			return
		}
		writers.Add(1)
		defer writers.Done()
		block := make([]byte, 64<<10)
		for range 256 { // 16 MiB
			n, err := w.Write(block)
			sent.Add(int64(n))
			if err != nil {
				return
			}
		}
	}), "h2")
	// The client's windows have the minimum size.
	transport := over(t, func() net.Conn { return w.inspected(a, "h2") })
	transport.HTTP2 = &http.HTTP2Config{MaxReceiveBufferPerStream: 1, MaxReceiveBufferPerConnection: 64 << 10}
	client := must.Get(transport.NewClientConn(t.Context(), "https", "example.org:443"))(t)
	get := func(path string) *http.Response {
		r := must.Get(http.NewRequestWithContext(t.Context(), http.MethodGet, "https://example.org"+path, nil))(t)
		return must.Get(client.RoundTrip(r))(t)
	}
	for range maxStreams / 2 {
		res := get("/")
		defer res.Body.Close()
	}
	settled(&sent, func() { get("/ping").Body.Close() })
	// Buffers of the kernel and of package http add to the 1 MiB.
	if held := sent.Load(); held > 16<<20 {
		t.Errorf("%d MiB are under way", held>>20)
	}
	client.Close()
}

// settled waits until n is unchanged for 200 calls of step. step takes the same path as the
// growth of n, so both are slow on a busy machine.
func settled(n *atomic.Int64, step func()) {
	for last, same := n.Load(), 0; same < 200; same++ {
		step()
		if now := n.Load(); now != last {
			last, same = now, 0
		}
	}
}

// TestConnectionsOfOneClient makes more concurrent requests than the connection limit: the
// others wait.
func TestConnectionsOfOneClient(t *testing.T) {
	t.Parallel()
	w := newWorld(t, "example.org:443")
	a := newAuthorities(t)
	var now, most atomic.Int64
	full := make(chan struct{})
	w.secureHost(a, "example.org:443", http.HandlerFunc(func(http.ResponseWriter, *http.Request) {
		if n := now.Add(1); n > most.Load() {
			most.Store(n)
			if n == maxConns {
				close(full)
			}
		}
		<-full
		now.Add(-1)
	}), "http/1.1")
	client := w.stream(a)
	var requests sync.WaitGroup
	for range maxStreams {
		requests.Go(func() {
			r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "https://example.org/", nil)
			if err != nil {
				t.Error(err)
				return
			}
			res, err := client.RoundTrip(r)
			if err != nil {
				t.Error(err)
				return
			}
			if res.Body.Close(); res.StatusCode != http.StatusOK {
				t.Errorf("status %d", res.StatusCode)
			}
		})
	}
	requests.Wait()
	if most.Load() > maxConns || len(w.dials()) > maxConns {
		t.Errorf("%d at a time, %d connections", most.Load(), len(w.dials()))
	}
}

// TestWebSocketIsNotKept: large data over a WebSocket is not kept in memory.
//
// Not parallel: it measures the heap of the process.
func TestWebSocketIsNotKept(t *testing.T) {
	const size = 32 << 20
	w := newWorld(t, "example.org:80")
	w.host("example.org:80", http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		conn, in, err := http.NewResponseController(w).Hijack()
		if err != nil {
			return
		}
		defer conn.Close()
		_, _ = io.WriteString(conn, "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Accept: "+accepted+"\r\n\r\n")
		_, _ = io.CopyN(io.Discard, in, size)
		_, _ = io.WriteString(conn, frame("all"))
		_, _ = io.Copy(io.Discard, in)
	}))
	c := w.serve()
	io.WriteString(c, wantsWebSocket)
	in := bufio.NewReader(c)
	if res, err := http.ReadResponse(in, nil); err != nil || res.StatusCode != http.StatusSwitchingProtocols {
		t.Fatal(res, err)
	}
	var before, after runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&before)
	must.Get(io.CopyN(c, zeros{}, size))(t)
	if got, err := message(in, false); err != nil || got != "all" {
		t.Fatal(got, err)
	}
	runtime.GC()
	runtime.ReadMemStats(&after)
	if kept := int64(after.HeapAlloc) - int64(before.HeapAlloc); kept > size/4 {
		t.Errorf("%d MiB are kept", kept>>20)
	}
}
