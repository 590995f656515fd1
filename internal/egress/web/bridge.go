package web

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptrace"
	"net/http/httputil"
	"strings"
	"sync"

	"palyra/internal/egress"
	"palyra/internal/egress/secret"
)

// bridge is the handler of one client's connection.
type bridge struct {
	front  Front
	out    *upstream
	proxy  *httputil.ReverseProxy
	secure bool
	// serverName is the one of the client's TLS, "" for an address.
	serverName string
	// tap is the client's connection, nil for HTTP/2.
	tap *tap

	mu      sync.Mutex
	over    bool
	running sync.WaitGroup
}

// enter counts a handler in, unless the connection is over: one of HTTP/2 may
// start when the server has left already.
func (b *bridge) enter() bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.over {
		return false
	}
	b.running.Add(1)
	return true
}

// close takes no more requests and waits for those that are carried. A
// WebSocket is one, though the server has left it.
func (b *bridge) close() {
	b.mu.Lock()
	b.over = true
	b.mu.Unlock()
	b.running.Wait()
}

// ServeHTTP judges one request and carries it.
func (b *bridge) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if !b.enter() {
		return
	}
	defer b.running.Done()
	withoutH2C(r)
	target, err := b.judge(r)
	if err == nil {
		err = b.front.Allow(target)
	}
	if err == nil {
		err = b.front.Secrets.Apply(r.Context(), r, target, b.secure)
	}
	if err != nil {
		b.refuse(w, target, err)
		b.hearOut(w, r)
		return
	}
	b.forward(w, r, target)
}

func (b *bridge) forward(w http.ResponseWriter, r *http.Request, target egress.Target) {
	if r.Body != nil && !b.front.Secrets.Idle() {
		r.Body = &alarmed{r.Body, func(why string) { b.front.Refuse(target, why) }}
	}
	if b.tap != nil && r.ContentLength != 0 {
		// An answer may begin before the body of its request has ended.
		_ = http.NewResponseController(w).EnableFullDuplex()
		if r.ContentLength < 0 {
			// Where the next head begins is not known to tap.
			w.Header().Set("Connection", "close")
		}
	}
	ctx := httptrace.WithClientTrace(r.Context(), &httptrace.ClientTrace{GotConn: countRequest})
	ctx = context.WithValue(ctx, exchangeKey{}, &exchange{target: target, key: webSocketKey(r)})
	b.proxy.ServeHTTP(&scrubbed{w, b.front.Secrets}, r.WithContext(ctx))
}

// exchange is what is known of a request where its answer is looked at.
type exchange struct {
	target egress.Target
	// key is that of a client that asks for WebSocket, else "".
	key string
}

type exchangeKey struct{}

// exchangeOf returns that of a request which forward made.
func exchangeOf(ctx context.Context) *exchange {
	if x, ok := ctx.Value(exchangeKey{}).(*exchange); ok {
		return x
	}
	return &exchange{}
}

func (b *bridge) reverseProxy() *httputil.ReverseProxy {
	return &httputil.ReverseProxy{
		Transport:      b.out.transport,
		Rewrite:        b.rewrite,
		ModifyResponse: b.modify,
		ErrorHandler: func(w http.ResponseWriter, r *http.Request, err error) {
			b.fail(w, exchangeOf(r.Context()).target, err)
		},
		ErrorLog: slog.NewLogLogger(slog.DiscardHandler, slog.LevelError),
	}
}

// forwarding are the headers that ReverseProxy takes off. What a program says
// in them is its own business, as it would be without a gateway.
var forwarding = []string{"Forwarded", "X-Forwarded-For", "X-Forwarded-Host", "X-Forwarded-Proto"}

// rewrite makes the request that goes on. ReverseProxy has taken off what
// concerns one connection alone.
func (b *bridge) rewrite(p *httputil.ProxyRequest) {
	x := exchangeOf(p.In.Context())
	out := p.Out
	out.URL.Scheme, out.URL.Host = b.scheme(), x.target.String()
	out.URL.User, out.URL.Fragment = nil, ""
	out.URL.RawQuery = p.In.URL.RawQuery
	out.Host = b.authority(x.target)
	// Trailers could say after the judgement what the header did not; a gateway
	// may leave them out (RFC 9110 section 6.5.1).
	out.Trailer = nil
	for _, name := range forwarding {
		if values, ok := p.In.Header[name]; ok {
			out.Header[name] = values
		}
	}
	for name := range out.Header {
		if strings.HasPrefix(name, "Proxy-") || name == "Http2-Settings" || name == "Host" {
			delete(out.Header, name)
		}
	}
	// A host that answers for good without having read the body may take it for
	// the next request. The server tells the client to go on.
	out.Header.Del("Expect")
	if x.key != "" && !b.front.Secrets.Idle() {
		// Compressed messages could not be scrubbed.
		out.Header.Del("Sec-Websocket-Extensions")
	}
}

// modify looks at an answer before the client gets it.
func (b *bridge) modify(res *http.Response) error {
	x := exchangeOf(res.Request.Context())
	res.Header.Del(reasonHeader)
	if res.StatusCode != http.StatusSwitchingProtocols {
		return b.front.Secrets.ScrubResponse(res, x.target)
	}
	body, ok := res.Body.(io.ReadWriteCloser)
	if !ok || x.key == "" || !acceptsWebSocket(res.Header, x.key) {
		return &refusal{http.StatusBadGateway, egress.ReasonUpgrade, x.target.String() + " changed the protocol to something that was not asked for."}
	}
	b.front.Secrets.ScrubHeader(res.Header)
	if !b.front.Secrets.Idle() {
		res.Body = newWatched(body, b.front.Secrets, func(why string) { b.front.Refuse(x.target, why) })
	}
	return nil
}

// countRequest counts a request where it is sent.
func countRequest(info httptrace.GotConnInfo) {
	if p, ok := pinnedOf(info.Conn); ok {
		p.entry.Request()
	}
}

// scrubbed takes secrets out of the headers of informational answers, too,
// which are passed on as they come, and keeps package http from adding what the
// host did not say.
type scrubbed struct {
	http.ResponseWriter
	secrets *secret.Exchange
}

func (s *scrubbed) WriteHeader(status int) {
	h := s.Header()
	s.secrets.ScrubHeader(h)
	for _, name := range []string{"Content-Type", "Date"} {
		if _, said := h[name]; !said && status >= http.StatusOK {
			h[name] = nil
		}
	}
	s.ResponseWriter.WriteHeader(status)
}

// Unwrap is for http.ResponseController.
func (s *scrubbed) Unwrap() http.ResponseWriter { return s.ResponseWriter }

// alarmed tells of a placeholder in the body of a request, also when the
// answer has come already and nobody looks at the error.
type alarmed struct {
	io.ReadCloser
	tell func(why string)
}

func (a *alarmed) Read(p []byte) (int, error) {
	n, err := a.ReadCloser.Read(p)
	if err != nil && !errors.Is(err, io.EOF) {
		if why := secret.Word(err); why != "" {
			a.tell(why)
		}
	}
	return n, err
}
