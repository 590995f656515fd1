package web

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptrace"
	"net/textproto"
	"reflect"
	"runtime"
	"runtime/debug"
	"strings"
	"testing"

	"palyra/internal/core/must"
)

// TestLargeBodies sends large bodies and receives them back, without the gateway buffering
// them.
//
// Not parallel: it measures the heap of the process.
func TestLargeBodies(t *testing.T) {
	defer debug.SetGCPercent(debug.SetGCPercent(100)) // the test runner sets a higher value
	for kind, size := range map[string]int64{"plain": 100 << 20, "http/1.1": 20 << 20, "h2": 20 << 20} {
		t.Run(kind, func(t *testing.T) {
			target := map[bool]string{true: "example.org:80", false: "example.org:443"}[kind == "plain"]
			w := newWorld(t, target)
			a := newAuthorities(t)
			echo := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { _, _ = io.Copy(w, r.Body) })
			dial := func() net.Conn { return w.inspected(a, kind) }
			scheme := "https"
			if kind == "plain" {
				w.host(target, echo)
				scheme = "http"
				dial = func() net.Conn { return w.serve() }
			} else {
				w.secureHost(a, target, echo, kind)
			}
			transport := over(t, dial)
			var before, now runtime.MemStats
			runtime.GC()
			runtime.ReadMemStats(&before)
			r := must.Get(http.NewRequest(http.MethodPut, scheme+"://example.org/", io.LimitReader(zeros{}, size)))(t)
			r.ContentLength = size
			res := must.Get(transport.RoundTrip(r))(t)
			defer res.Body.Close()
			got, most := int64(0), uint64(0)
			for {
				n, err := io.CopyN(io.Discard, res.Body, 5<<20)
				got += n
				runtime.GC() // without it, garbage counts as held
				runtime.ReadMemStats(&now)
				most = max(most, now.HeapAlloc)
				if err != nil {
					break
				}
			}
			if got != size {
				t.Errorf("%d bytes came back", got)
			}
			if held := int64(most) - int64(before.HeapAlloc); held > size/2 {
				t.Errorf("%d MiB were held", held>>20)
			}
		})
	}
}

type zeros struct{}

func (zeros) Read(p []byte) (int, error) { clear(p); return len(p), nil }

// TestStreamsAsItComes: an answer is forwarded while the host is still writing it.
func TestStreamsAsItComes(t *testing.T) {
	t.Parallel()
	w := newWorld(t, "example.org:80")
	more := make(chan struct{})
	w.host("example.org:80", http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		fmt.Fprint(w, "data: 1\n\n")
		_ = http.NewResponseController(w).Flush()
		<-more
		fmt.Fprint(w, "data: 2\n\n")
	}))
	c := w.serve()
	in := bufio.NewReader(c)
	io.WriteString(c, "GET / HTTP/1.1\r\nHost: example.org\r\n\r\n")
	res := must.Get(http.ReadResponse(in, nil))(t)
	defer res.Body.Close()
	first := make([]byte, 9)
	if _, err := io.ReadFull(res.Body, first); err != nil || string(first) != "data: 1\n\n" {
		t.Errorf("%q, %v", first, err)
	}
	close(more)
	if rest, _ := io.ReadAll(res.Body); string(rest) != "data: 2\n\n" {
		t.Errorf("then %q", rest)
	}
}

// TestBrokenAnswer: a truncated answer is not forwarded as a complete one.
func TestBrokenAnswer(t *testing.T) {
	t.Parallel()
	w := newWorld(t, "example.org:80")
	w.host("example.org:80", http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		fmt.Fprint(w, strings.Repeat("a", 100_000))
		_ = http.NewResponseController(w).Flush()
		panic(http.ErrAbortHandler)
	}))
	c := w.serve()
	io.WriteString(c, "GET / HTTP/1.1\r\nHost: example.org\r\n\r\n")
	res := must.Get(http.ReadResponse(bufio.NewReader(c), nil))(t)
	defer res.Body.Close()
	if _, err := io.ReadAll(res.Body); err == nil {
		t.Error("the answer looks whole")
	}
}

// wire starts a host that returns the received bytes on a channel.
func (w *world) wire(target, answer string) <-chan string {
	w.t.Helper()
	l := must.Get(net.Listen("tcp", "127.0.0.1:0"))(w.t)
	w.t.Cleanup(func() { l.Close() })
	w.hosts[target] = l.Addr().String()
	got := make(chan string, 1)
	go func() {
		c, err := l.Accept()
		if err != nil {
			return
		}
		defer c.Close()
		var b bytes.Buffer
		in := bufio.NewReader(io.TeeReader(c, &b))
		r, err := http.ReadRequest(in)
		if err == nil {
			_, _ = io.Copy(io.Discard, r.Body)
		}
		got <- b.String()
		_, _ = io.WriteString(c, answer)
		_, _ = io.Copy(io.Discard, in)
	}()
	return got
}

// TestRewrittenRequests: the forwarded form of unusually written requests.
func TestRewrittenRequests(t *testing.T) {
	t.Parallel()
	tests := []struct{ name, text, want string }{
		{"chunk extensions", "POST /x HTTP/1.1\r\nHost: example.org\r\nTransfer-Encoding: chunked\r\n\r\n3;a=\"b\"\r\nabc\r\n0;c\r\n\r\n",
			"POST /x HTTP/1.1\r\nHost: example.org\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\n\r\n"},
		{"trailers", "POST /x HTTP/1.1\r\nHost: example.org\r\nTransfer-Encoding: chunked\r\nTrailer: A\r\nTE: trailers\r\n\r\n1\r\na\r\n0\r\nA: b\r\nHost: evil.example\r\n\r\n",
			"POST /x HTTP/1.1\r\nHost: example.org\r\nTransfer-Encoding: chunked\r\nTe: trailers\r\n\r\n1\r\na\r\n0\r\n\r\n"},
		{"expectation", "POST /x HTTP/1.1\r\nHost: example.org\r\nExpect: 100-continue\r\nContent-Length: 1\r\n\r\na",
			"POST /x HTTP/1.1\r\nHost: example.org\r\nContent-Length: 1\r\n\r\na"},
		{"HTTP/1.0", "GET /x HTTP/1.0\r\n\r\n", "GET /x HTTP/1.1\r\nHost: example.org\r\n\r\n"},
		{"HTTP/1.0 with Host", "GET /x HTTP/1.0\r\nHost: example.org\r\n\r\n", "GET /x HTTP/1.1\r\nHost: example.org\r\n\r\n"},
		{"absolute", "GET http://example.org/x HTTP/1.1\r\nHost: example.org\r\n\r\n", "GET /x HTTP/1.1\r\nHost: example.org\r\n\r\n"},
		{"length twice", "POST /x HTTP/1.1\r\nHost: example.org\r\nContent-Length: 1\r\nContent-Length: 1\r\n\r\na",
			"POST /x HTTP/1.1\r\nHost: example.org\r\nContent-Length: 1\r\n\r\na"},
		{"connection names the length", "POST /x HTTP/1.1\r\nHost: example.org\r\nConnection: Content-Length, Host\r\nContent-Length: 1\r\n\r\na",
			"POST /x HTTP/1.1\r\nHost: example.org\r\nContent-Length: 1\r\n\r\na"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			w := newWorld(t, "example.org:80")
			got := w.wire("example.org:80", "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok")
			c := w.serve()
			res, body := say(t, c, bufio.NewReader(c), test.text, "GET")
			if res.StatusCode != http.StatusOK || body != "ok" {
				t.Errorf("%d %q", res.StatusCode, body)
			}
			if text := <-got; text != test.want {
				t.Errorf("the host gets\n%q, want\n%q", text, test.want)
			}
			if strings.Contains(test.text, " HTTP/1.0") && !res.Close {
				t.Error("a client of HTTP/1.0 is held")
			}
		})
	}
}

// TestChunkedEndsTheConnection: after a chunked request, the connection is closed, because the
// start of the next head is uncertain.
func TestChunkedEndsTheConnection(t *testing.T) {
	t.Parallel()
	w := newWorld(t, "example.org:80")
	host := w.host("example.org:80", nil)
	c := w.serve()
	in := bufio.NewReader(c)
	res, _ := say(t, c, in, "POST / HTTP/1.1\r\nHost: example.org\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\nGET / HTTP/1.1\r\nHost: evil.example\r\n\r\n", "POST")
	if !res.Close || !ended(in) || len(host.requests()) != 1 {
		t.Errorf("%v, the host saw %q", res.Header, host.requests())
	}
}

func TestExpectContinue(t *testing.T) {
	t.Parallel()
	for _, accepts := range []bool{true, false} {
		w := newWorld(t, "example.org:80")
		w.host("example.org:80", http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if !accepts {
				w.WriteHeader(http.StatusExpectationFailed)
				return
			}
			body, _ := io.ReadAll(r.Body)
			fmt.Fprintf(w, "got %s", body)
		}))
		transport := over(t, func() net.Conn { return w.serve() })
		continued := 0
		ctx := httptrace.WithClientTrace(context.Background(), &httptrace.ClientTrace{Got100Continue: func() { continued++ }})
		r, _ := http.NewRequestWithContext(ctx, http.MethodPut, "http://example.org/", strings.NewReader("abc"))
		r.Header.Set("Expect", "100-continue")
		res := must.Get(transport.RoundTrip(r))(t)
		body, _ := io.ReadAll(res.Body)
		res.Body.Close()
		if accepts && (continued != 1 || string(body) != "got abc") || !accepts && res.StatusCode != http.StatusExpectationFailed {
			t.Errorf("%d %q, continued %d times", res.StatusCode, body, continued)
		}
	}
}

// TestAnswersInParts forwards informational answers and trailers.
func TestAnswersInParts(t *testing.T) {
	t.Parallel()
	w := newWorld(t, "example.org:80")
	w.host("example.org:80", http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Link", "</style.css>")
		w.WriteHeader(http.StatusEarlyHints)
		w.Header().Set("Trailer", "X-Sum")
		fmt.Fprint(w, "body")
		w.Header().Set("X-Sum", "4")
	}))
	transport := over(t, func() net.Conn { return w.serve() })
	var early []int
	ctx := httptrace.WithClientTrace(context.Background(), &httptrace.ClientTrace{Got1xxResponse: func(code int, h textproto.MIMEHeader) error {
		early = append(early, code)
		return nil
	}})
	r, _ := http.NewRequestWithContext(ctx, http.MethodGet, "http://example.org/", nil)
	res := must.Get(transport.RoundTrip(r))(t)
	body, _ := io.ReadAll(res.Body)
	res.Body.Close()
	if string(body) != "body" || res.Trailer.Get("X-Sum") != "4" || !reflect.DeepEqual(early, []int{103}) {
		t.Errorf("%q, trailers %v, early %v", body, res.Trailer, early)
	}
}

// TestAnswersAreLeftAlone: an answer is forwarded unchanged.
func TestAnswersAreLeftAlone(t *testing.T) {
	t.Parallel()
	w := newWorld(t, "example.org:80")
	got := w.wire("example.org:80", "HTTP/1.1 200 OK\r\nContent-Encoding: gzip\r\nContent-Length: 4\r\n\r\n\x1f\x8b\x08\x00")
	c := w.serve()
	res, body := say(t, c, bufio.NewReader(c), "GET / HTTP/1.1\r\nHost: example.org\r\nAccept-Encoding: gzip\r\n\r\n", "GET")
	if text := <-got; !strings.Contains(text, "Accept-Encoding: gzip\r\n") || body != "\x1f\x8b\x08\x00" {
		t.Errorf("%q %q", text, body)
	}
	if want := (http.Header{"Content-Encoding": {"gzip"}, "Content-Length": {"4"}}); !reflect.DeepEqual(res.Header, want) {
		t.Errorf("headers %v, want %v", res.Header, want)
	}
}
