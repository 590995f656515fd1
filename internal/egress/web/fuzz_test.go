package web

import (
	"bufio"
	"context"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"palyra/internal/egress"
)

// FuzzServe sends random bytes on a connection to example.org:80. For any bytes, the host
// receives only well-formed requests for example.org and allowed paths, and Serve returns.
func FuzzServe(f *testing.F) {
	for _, test := range refusedAlone {
		if len(test.text) < 4<<10 {
			f.Add([]byte(test.text))
			f.Add([]byte("GET /ok/1 HTTP/1.1\r\nHost: example.org\r\n\r\n" + test.text))
		}
	}
	f.Add([]byte("POST /ok/1 HTTP/1.1\r\nHost: example.org\r\nTransfer-Encoding: chunked\r\n\r\n1;a\r\nx\r\n0\r\nHost: evil.example\r\n\r\n"))
	f.Add([]byte("POST /ok/1 HTTP/1.1\r\nHost: example.org\r\nContent-Length: 4\r\n\r\nabcdGET /ok/2 HTTP/1.1\r\nHost: example.org\r\n\r\n"))
	f.Add([]byte(strings.Replace(wantsWebSocket, "/chat", "/ok/ws", 1)))
	f.Fuzz(func(t *testing.T, sent []byte) {
		target := targetOf(t, "example.org:80")
		log := egress.NewConnectionLog(time.Now())
		host := make(chan string, 1024)
		front := Front{
			Target: target,
			Connect: func(_ context.Context, to egress.Target) (net.Conn, *egress.Entry, error) {
				if to != target {
					t.Errorf("dials %s", to)
				}
				near, far := net.Pipe()
				go readRequests(far, host)
				return near, log.Begin(egress.LegTransparent, to), nil
			},
			Refuse: func(egress.Target, string) {},
			Allow:  func(egress.Target) error { return nil },
			Inspect: func(egress.Target) (egress.Inspection, bool) {
				return egress.Inspection{Methods: []string{"GET", "POST"}, Paths: []string{"/ok/**"}}, true
			},
		}
		client, server := net.Pipe()
		done := make(chan struct{})
		go func() {
			defer close(done)
			Serve(t.Context(), server, front)
		}()
		go io.Copy(io.Discard, client)
		_, _ = client.Write(sent)
		client.Close()
		<-done
		for {
			select {
			case problem := <-host:
				t.Errorf("%q: %s", sent, problem)
			default:
				return
			}
		}
	})
}

// readRequests is a strict host.
func readRequests(c net.Conn, tell chan<- string) {
	defer c.Close()
	in := bufio.NewReader(c)
	for {
		r, err := http.ReadRequest(in)
		if err != nil {
			return
		}
		if r.Host != "example.org" || !strings.HasPrefix(r.URL.Path, "/ok/") || strings.Contains(r.URL.Path, "..") || r.Method != http.MethodGet && r.Method != http.MethodPost ||
			r.URL.IsAbs() || len(r.Header["Transfer-Encoding"]) > 0 {
			tell <- "the host reads " + r.Method + " " + r.Host + " " + r.RequestURI
		}
		if _, err := io.Copy(io.Discard, r.Body); err != nil {
			return
		}
		if len(r.Trailer) > 0 {
			tell <- "the host reads trailers"
		}
		if _, err := io.WriteString(c, "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n"); err != nil {
			return
		}
	}
}

// FuzzHead: an accepted head has the same meaning for the simplest parser: lines that end in
// CRLF, up to an empty line.
func FuzzHead(f *testing.F) {
	f.Add([]byte("GET / HTTP/1.1\r\nHost: a\r\n\r\nrest"))
	f.Add([]byte("\r\nGET / HTTP/1.1\r\n\r\n"))
	f.Add([]byte("GET / HTTP/1.1\n\n"))
	f.Fuzz(func(t *testing.T, raw []byte) {
		head, rest, problem := cutHead(raw)
		if problem != "" {
			return
		}
		if text := strings.TrimLeft(string(raw), "\r\n"); text != string(head)+string(rest) || strings.Index(text, "\r\n\r\n") != len(head)-4 {
			t.Fatalf("%q is cut into %q and %q", raw, head, rest)
		}
		if strings.ContainsAny(strings.ReplaceAll(string(head), "\r\n", ""), "\r\n") || strings.Contains(string(head), "\n ") || strings.Contains(string(head), "\n\t") {
			t.Fatalf("%q passes", head)
		}
	})
}
