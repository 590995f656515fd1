//go:build unix

package upstream_test

import (
	"context"
	"crypto/x509"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"palyra/internal/core/must"
	"palyra/internal/core/reason"
	"palyra/internal/core/tool"
	"palyra/internal/egress"
	"palyra/internal/exec/upstream"
	"palyra/internal/exec/upstream/declared"
)

// site is an MCP server over HTTPS, on loopback, whose address upstream.Config trusts.
type site struct {
	*httptest.Server

	// before may answer a request itself by returning true.
	before func(http.ResponseWriter, *http.Request) bool
	// got is the last received Authorization header.
	got atomic.Value
}

func newSite(t *testing.T) *site {
	t.Helper()
	s := &site{}
	server := mcp.NewServer(&mcp.Implementation{Name: "site", Version: "1"}, nil)
	hello(server)
	add(server, "reveal", "", func(_ context.Context, r *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
		return text("you sent " + r.Extra.Header.Get("Authorization")), nil
	})
	handler := mcp.NewStreamableHTTPHandler(func(*http.Request) *mcp.Server { return server }, &mcp.StreamableHTTPOptions{JSONResponse: true})
	s.Server = httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		s.got.Store(r.Header.Get("Authorization"))
		if s.before == nil || !s.before(w, r) {
			handler.ServeHTTP(w, r)
		}
	}))
	t.Cleanup(s.Close)
	return s
}

func (s *site) trusted(c *upstream.Config) {
	c.Roots = x509.NewCertPool()
	c.Roots.AddCert(s.Certificate())
}

func (w *world) addURL(name, url string, headers ...declared.Header) declared.State {
	w.t.Helper()
	return must.Get(w.Add(w.t.Context(), operator, declared.Server{Name: name, URL: url, Headers: headers}))(w.t)
}

// TestRemote: a server with a URL is called like any other; its connections are in the report,
// and it has no isolation.
func TestRemote(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	w := newWorld(t, s.trusted)
	if state := w.addURL("site", s.URL); state.Problem != "" {
		t.Fatal(state.Problem)
	}
	r := w.works("site/hello", `{"name":"ann"}`)
	if resultText(t, r) != "hello ann" || r.Isolation != nil || r.Executor.Tier != "builtin" || len(r.Egress.Observed) == 0 || r.Egress.Observed[0].Host != "127.0.0.1" {
		t.Errorf("%s, %+v", r.Result, r.Egress)
	}
	if s.got.Load() != "" {
		t.Errorf("a credential was sent: %v", s.got.Load())
	}
}

// TestRemoteIsHeldToItsHost: redirects are not followed. Denied hosts are not dialed, whoever
// added the server, and neither are names with a private address. Control: TestRemote.
func TestRemoteIsHeldToItsHost(t *testing.T) {
	t.Parallel()
	other := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { t.Error("the redirect was followed") }))
	defer other.Close()
	s := newSite(t)
	w := newWorld(t, s.trusted)
	w.addURL("site", s.URL)
	s.before = func(rw http.ResponseWriter, r *http.Request) bool {
		http.Redirect(rw, r, other.URL, http.StatusTemporaryRedirect)
		return true
	}
	w.restart()
	if r := w.fails("site/hello", `{}`, reason.EgressDenied); !strings.Contains(r.Message, "redirects") {
		t.Errorf("it says %q", r.Message)
	}
	s.before = nil
	_, port, _ := net.SplitHostPort(strings.TrimPrefix(s.URL, "https://"))
	denied := newWorld(t, s.trusted, func(c *upstream.Config) { c.Denied = must.Get(egress.ParseRules([]string{"127.0.0.1"}))(t) })
	if state := denied.addURL("site", s.URL); !strings.Contains(state.Problem, "denie") {
		t.Errorf("a denied host: %q", state.Problem)
	}
	private := newWorld(t, s.trusted, func(c *upstream.Config) { c.Resolver = loopback{} })
	if state := private.addURL("site", "https://mcp.example.org:"+port); state.Problem == "" {
		t.Error("a name that leads to loopback was dialled")
	}
	if err := (declared.Server{Name: "x", URL: "http://mcp.example.org"}).Check(); reason.Of(err) != reason.InvalidInput {
		t.Errorf("plain http: %v", err)
	}
}

// TestRemoteSecrets: during a call, a header contains a secret of the vault, but only for the
// host of the secret. The server's answer is scrubbed of it. Control: the header without a
// call.
func TestRemoteSecrets(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	_, port, _ := net.SplitHostPort(strings.TrimPrefix(s.URL, "https://"))
	const value = "tok-0123456789abcdef"
	l := &lender{value: value, offer: egress.Secret{Name: "global/site", Version: 3, Header: "Authorization", Hosts: must.Get(egress.ParseRules([]string{"127.0.0.1:" + port}))(t)}}
	w := newWorld(t, s.trusted, func(c *upstream.Config) { c.Lender = l })
	h := declared.Header{Name: "Authorization", Scheme: "Bearer", Secret: "global/site"}
	if state := w.addURL("site", s.URL, h); state.Problem != "" {
		t.Fatal(state.Problem)
	}
	r := w.works("site/reveal", `{}`)
	if s.got.Load() != "Bearer "+value {
		t.Errorf("sent %v", s.got.Load())
	}
	if l.open.Load() != 0 || l.lent.Load() < 2 {
		t.Errorf("%d lent, %d still open", l.lent.Load(), l.open.Load())
	}
	if strings.Contains(string(r.Result), value) || !strings.Contains(resultText(t, r), "Bearer palyra-sec-") {
		t.Errorf("the server's answer shows %s", r.Result)
	}
	l.refuse = true
	w.fails("site/hello", `{}`, reason.PermissionDenied)
	// A secret for another host is not sent.
	l.refuse = false
	l.offer.Hosts = must.Get(egress.ParseRules([]string{"api.example.org:443"}))(t)
	l.offer.Version++
	if r, err := w.call("site/hello", `{}`); err != nil || r.Outcome != tool.Failed {
		t.Errorf("%v, %s %s", err, r.Outcome, r.Message)
	}
}

// TestRemoteFloods: an answer that is too long, and one that never ends, end the call.
func TestRemoteFloods(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	w := newWorld(t, s.trusted)
	w.addURL("site", s.URL)
	for name, answer := range map[string]func(http.ResponseWriter){
		"a huge answer": func(rw http.ResponseWriter) {
			rw.Header().Set("Content-Type", "application/json")
			_, _ = io.WriteString(rw, `{"jsonrpc":"2.0","id":1,"result":{"content":[{"type":"text","text":"`+strings.Repeat("x", 5<<20)+`"}]}}`)
		},
		"an endless stream": func(rw http.ResponseWriter) {
			rw.Header().Set("Content-Type", "text/event-stream")
			for {
				if _, err := io.WriteString(rw, "event: message\ndata: {\"jsonrpc\":\"2.0\",\"method\":\"notifications/message\",\"params\":{\"level\":\"info\",\"data\":\""+strings.Repeat("x", 60<<10)+"\"}}\n\n"); err != nil {
					return
				}
			}
		},
		"no JSON": func(rw http.ResponseWriter) {
			rw.Header().Set("Content-Type", "application/json")
			_, _ = io.WriteString(rw, "<html>")
		},
		"an error page": func(rw http.ResponseWriter) { http.Error(rw, "no", http.StatusInternalServerError) },
	} {
		s.before = nil
		must.Get(w.Refresh(t.Context(), operator, "site"))(t)
		w.works("site/hello", `{}`) // control
		s.before = func(rw http.ResponseWriter, r *http.Request) bool {
			if r.Method == http.MethodPost {
				answer(rw)
				return true
			}
			return false
		}
		if r, err := w.call("site/hello", `{}`); err != nil || r.Outcome != tool.Failed {
			t.Errorf("%s: %v, %s %s %s", name, err, r.Outcome, r.Reason, r.Message)
		}
	}
}

// TestRemoteSlowLoris: a server that sends a byte from time to time does not delay a call
// beyond its timeout.
func TestRemoteSlowLoris(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	w := newWorld(t, s.trusted)
	w.addURL("site", s.URL)
	s.before = func(rw http.ResponseWriter, r *http.Request) bool {
		rw.Header().Set("Content-Type", "application/json")
		for r.Context().Err() == nil {
			if _, err := io.WriteString(rw, " "); err != nil {
				return true
			}
			rw.(http.Flusher).Flush()
			select {
			case <-r.Context().Done():
			case <-time.After(time.Millisecond):
			}
		}
		return true
	}
	ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond) // the defect is permanent
	defer cancel()
	if r, _ := w.callIn(ctx, "site/hello", `{}`); r.Outcome == tool.Succeeded {
		t.Errorf("%s %s", r.Outcome, r.Message)
	}
}

// loopback resolves every name to this machine.
type loopback struct{}

func (loopback) LookupNetIP(context.Context, string, string) ([]netip.Addr, error) {
	return []netip.Addr{netip.MustParseAddr("127.0.0.1")}, nil
}

// lender is a Lender with one secret.
type lender struct {
	upstream.Lender

	value      string
	offer      egress.Secret
	refuse     bool
	lent, open atomic.Int64
}

func (l *lender) Offers(context.Context, tool.Proposal, int, func(egress.Secret) bool) ([]egress.Secret, bool, error) {
	if l.refuse {
		return nil, false, nil
	}
	return []egress.Secret{l.offer}, false, nil
}

func (l *lender) Lend(_ tool.Call, offers []egress.Secret) ([]egress.Secret, func()) {
	l.lent.Add(1)
	l.open.Add(1)
	offers[0].Source = l
	return offers, func() { l.open.Add(-1) }
}

func (l *lender) Secret(context.Context, string) ([]byte, error) { return []byte(l.value), nil }

// TestConnectionsStay: calls of a server that answers with streams share a connection. A call
// returns while its stream is still open; the stream is closed later.
func TestConnectionsStay(t *testing.T) {
	t.Parallel()
	server := mcp.NewServer(&mcp.Implementation{Name: "streams", Version: "1"}, nil)
	hello(server)
	var opened atomic.Int64
	var endless atomic.Bool
	closed := make(chan struct{}, 100)
	handler := mcp.NewStreamableHTTPHandler(func(*http.Request) *mcp.Server { return server }, nil)
	s := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		handler.ServeHTTP(w, r)
		if endless.Load() && r.Method == http.MethodPost {
			_ = http.NewResponseController(w).Flush()
			<-r.Context().Done()
			closed <- struct{}{}
		}
	}))
	s.Config.ConnState = func(_ net.Conn, state http.ConnState) {
		if state == http.StateNew {
			opened.Add(1)
		}
	}
	s.Start()
	t.Cleanup(func() { s.CloseClientConnections(); s.Close() })
	// The long linger time covers streams that end late on a busy machine.
	w := newWorld(t, func(c *upstream.Config) { c.LingerTime = time.Hour })
	if state := w.addURL("streams", s.URL); state.Problem != "" {
		t.Fatal(state.Problem)
	}
	w.works("streams/hello", `{"name":"ann"}`)
	before := opened.Load()
	for range 60 {
		w.works("streams/hello", `{"name":"ann"}`)
	}
	// A call that starts before the client has read the end of the previous stream opens another
	// connection. If the client did not wait for that end, each call would open one.
	if more := opened.Load() - before; more > 15 {
		t.Errorf("60 calls opened %d connections", more)
	}
	endless.Store(true)
	w.works("streams/hello", `{"name":"ann"}`)
	select {
	case <-closed:
		t.Error("the call returned only when its stream was closed")
	default:
	}
	endless.Store(false)
	brief := newWorld(t, func(*upstream.Config) {})
	if state := brief.addURL("streams", s.URL); state.Problem != "" {
		t.Fatal(state.Problem)
	}
	endless.Store(true)
	brief.works("streams/hello", `{"name":"ann"}`)
	must.Receive(t, "a stream without an end is closed", closed)
}
