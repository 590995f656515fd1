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
	client
	refusals refusals
	handlers handlers
	proxy    *httputil.ReverseProxy
}

func newBridge(c client, out *upstream) *bridge {
	b := &bridge{client: c, refusals: refusals{record: c.front.Refuse, tap: c.tap}}
	b.proxy = b.reverseProxy(out.transport)
	return b
}

// handlers counts the running handlers of a connection.
type handlers struct {
	mu      sync.Mutex
	over    bool
	running sync.WaitGroup
}

// enter registers a handler, unless the connection has ended: an HTTP/2 handler may start after the
// server has returned.
func (h *handlers) enter() bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.over {
		return false
	}
	h.running.Add(1)
	return true
}

// close rejects further requests and waits for the running ones. A WebSocket counts as running,
// although the server has released it.
func (h *handlers) close() {
	h.mu.Lock()
	h.over = true
	h.mu.Unlock()
	h.running.Wait()
}

// ServeHTTP checks one request and forwards it.
func (b *bridge) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if !b.handlers.enter() {
		return
	}
	defer b.handlers.running.Done()
	withoutH2C(r)
	target, err := b.judge(r)
	if err == nil {
		err = b.front.Allow(target)
	}
	if err == nil {
		err = b.guardForm(r, target)
	}
	if err == nil {
		err = b.front.Secrets.Apply(r.Context(), r, target, b.scheme == https)
	}
	if err != nil {
		b.refusals.refuse(w, target, err)
		drainBody(w, r)
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
			// tap cannot determine where the next head begins.
			w.Header().Set("Connection", "close")
		}
	}
	ctx := httptrace.WithClientTrace(r.Context(), &httptrace.ClientTrace{GotConn: countRequest})
	ctx = context.WithValue(ctx, exchangeKey{}, &exchange{target: target, key: webSocketKey(r)})
	b.proxy.ServeHTTP(&scrubbed{w, b.front.Secrets}, r.WithContext(ctx))
}

// exchange is the data of a request that the processing of its answer needs.
type exchange struct {
	target egress.Target
	// key is the Sec-WebSocket-Key of a WebSocket client, or "".
	key string
}

type exchangeKey struct{}

// exchangeOf returns the exchange of a request created by forward.
func exchangeOf(ctx context.Context) *exchange {
	if x, ok := ctx.Value(exchangeKey{}).(*exchange); ok {
		return x
	}
	return &exchange{}
}

func (b *bridge) reverseProxy(transport *http.Transport) *httputil.ReverseProxy {
	return &httputil.ReverseProxy{
		Transport:      transport,
		Rewrite:        b.rewrite,
		ModifyResponse: b.modify,
		ErrorHandler: func(w http.ResponseWriter, r *http.Request, err error) {
			b.refusals.fail(w, exchangeOf(r.Context()).target, err)
		},
		ErrorLog: slog.NewLogLogger(slog.DiscardHandler, slog.LevelError),
	}
}

// forwarding lists the headers that ReverseProxy removes. They are passed on as the program sent
// them, as without a gateway.
var forwarding = []string{"Forwarded", "X-Forwarded-For", "X-Forwarded-Host", "X-Forwarded-Proto"}

// rewrite creates the outgoing request. ReverseProxy has removed the hop-by-hop headers.
func (b *bridge) rewrite(p *httputil.ProxyRequest) {
	x := exchangeOf(p.In.Context())
	out := p.Out
	out.URL.Scheme, out.URL.Host = string(b.scheme), x.target.String()
	out.URL.User, out.URL.Fragment = nil, ""
	out.URL.RawQuery = p.In.URL.RawQuery
	out.Host = b.scheme.authority(x.target)
	// Trailers could contain data that the check of the header did not cover; a gateway may omit
	// them (RFC 9110 section 6.5.1).
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
	// A host that sends a final answer without reading the body may interpret the body as the next
	// request. The server sends the client 100 Continue.
	out.Header.Del("Expect")
	if x.key != "" && !b.front.Secrets.Idle() {
		// Compressed messages could not be scrubbed.
		out.Header.Del("Sec-Websocket-Extensions")
	}
}

// modify checks an answer before it is sent to the client.
func (b *bridge) modify(res *http.Response) error {
	x := exchangeOf(res.Request.Context())
	res.Header.Del(reasonHeader)
	if res.StatusCode != http.StatusSwitchingProtocols {
		return b.front.Secrets.ScrubResponse(res, x.target)
	}
	body, ok := res.Body.(io.ReadWriteCloser)
	if !ok || x.key == "" || !acceptsWebSocket(res.Header, x.key) {
		return &refusal{
			status: http.StatusBadGateway, why: egress.ReasonUpgrade,
			text: x.target.String() + " changed the protocol to something that was not asked for.",
		}
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

// scrubbed also removes secrets from the headers of informational answers, which are passed on
// immediately. It also prevents package http from adding headers that the host did not send.
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

// Unwrap returns the wrapped writer, for http.ResponseController.
func (s *scrubbed) Unwrap() http.ResponseWriter { return s.ResponseWriter }

// alarmed reports a placeholder in the body of a request, even if the answer has already been
// received and the error is ignored.
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
