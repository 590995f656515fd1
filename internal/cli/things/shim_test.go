package things

import (
	"bufio"
	"context"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"

	"palyra/internal/core/must"
)

// gateway responds as the test configures, and records the requests.
type gateway struct {
	mu      sync.Mutex
	seen    []*http.Request
	session string
	answer  func(w http.ResponseWriter, r *http.Request, m message)
}

func (g *gateway) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	text, _ := io.ReadAll(r.Body)
	m := message{text: text}
	_ = json.Unmarshal(text, &m)
	g.mu.Lock()
	g.seen = append(g.seen, r)
	session := g.session
	g.mu.Unlock()
	switch {
	case r.Method != http.MethodPost:
		w.WriteHeader(http.StatusMethodNotAllowed)
	case m.Method == "initialize":
		w.Header().Set("Mcp-Session-Id", session)
		w.Header().Set("Content-Type", "text/event-stream")
		_, _ = io.WriteString(w, ": hello\nevent: message\ndata: {\"jsonrpc\":\"2.0\",\"id\":1,\ndata: \"result\":{\"protocolVersion\":\"2025-11-25\"}}\n\n")
	case m.Params.Meta.Revision == "" && r.Header.Get("Mcp-Session-Id") != session:
		http.Error(w, "session not found", http.StatusNotFound)
	case len(m.ID) == 0:
		w.WriteHeader(http.StatusAccepted)
	default:
		g.answer(w, r, m)
	}
}

// headers returns the headers of the requests with an HTTP method.
func (g *gateway) headers(method string) (list []http.Header) {
	g.mu.Lock()
	defer g.mu.Unlock()
	for _, r := range g.seen {
		if r.Method == method {
			list = append(list, r.Header)
		}
	}
	return list
}

// conversation is a client of a shim.
type conversation struct {
	t     *testing.T
	in    *io.PipeWriter
	lines *bufio.Scanner
	ended chan error
}

func converse(t *testing.T, g *gateway) *conversation {
	t.Helper()
	server := httptest.NewServer(g)
	t.Cleanup(server.Close)
	in, client := io.Pipe()
	answers, out := io.Pipe()
	s := newShim(server.Client(), server.URL, out)
	s.limit = "11m0s"
	c := &conversation{t: t, in: client, lines: bufio.NewScanner(answers), ended: make(chan error, 1)}
	go func() {
		err := s.serve(context.Background(), in)
		_ = out.Close()
		c.ended <- err
	}()
	t.Cleanup(func() { _ = client.Close() })
	return c
}

func (c *conversation) say(text string) {
	c.t.Helper()
	must.Get(io.WriteString(c.in, text+"\n"))(c.t)
}

func (c *conversation) readLine() string {
	c.t.Helper()
	if !c.lines.Scan() {
		c.t.Fatalf("nothing more is said: %v", c.lines.Err())
	}
	return c.lines.Text()
}

const initialize = `{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-11-25"}}`

func TestSessions(t *testing.T) {
	t.Parallel()
	g := &gateway{session: "first", answer: func(w http.ResponseWriter, _ *http.Request, m message) {
		w.Header().Set("Content-Type", "application/json")
		_, _ = io.WriteString(w, `{"jsonrpc": "2.0", "id": `+string(m.ID)+`, "result": {}}`)
	}}
	c := converse(t, g)
	c.say(initialize)
	if got := c.readLine(); got != `{"jsonrpc":"2.0","id":1,"result":{"protocolVersion":"2025-11-25"}}` {
		t.Errorf("heard %s", got)
	}
	c.say(`{"jsonrpc":"2.0","method":"notifications/initialized"}`)
	c.say("")
	c.say(`{"jsonrpc":"2.0","id":2,"method":"tools/list"}`)
	if got := c.readLine(); got != `{"jsonrpc":"2.0","id":2,"result":{}}` {
		t.Errorf("heard %s", got)
	}
	posts := g.headers(http.MethodPost)
	if h := posts[len(posts)-1]; h.Get("Mcp-Session-Id") != "first" || h.Get("MCP-Protocol-Version") != "2025-11-25" || h.Get("Palyra-Call-Limit") != "11m0s" {
		t.Errorf("sent with %v", h)
	}
	// A restarted gateway does not have the session.
	g.mu.Lock()
	g.session = "second"
	g.mu.Unlock()
	c.say(`{"jsonrpc":"2.0","id":3,"method":"tools/list"}`)
	if got := c.readLine(); got != `{"jsonrpc":"2.0","id":3,"result":{}}` {
		t.Errorf("heard %s", got)
	}
	c.say(`no JSON`)
	if got := c.readLine(); !strings.Contains(got, `"code":-32700`) {
		t.Errorf("heard %s", got)
	}
	_ = c.in.Close()
	must.Do(t, <-c.ended)
	if deleted := g.headers(http.MethodDelete); len(deleted) != 1 || deleted[0].Get("Mcp-Session-Id") != "second" {
		t.Errorf("ended %v", deleted)
	}
}

// Without sessions, HTTP headers describe the message, and a cancellation closes the request.
func TestStateless(t *testing.T) {
	t.Parallel()
	waits, closed := make(chan struct{}), make(chan struct{})
	g := &gateway{answer: func(w http.ResponseWriter, r *http.Request, m message) {
		if m.Method != "tools/call" {
			w.Header().Set("Content-Type", "application/json")
			w.WriteHeader(http.StatusNotFound)
			_, _ = io.WriteString(w, `{"jsonrpc":"2.0","id":`+string(m.ID)+`,"error":{"code":-32601,"message":"no"}}`)
			return
		}
		close(waits)
		<-r.Context().Done()
		close(closed)
	}}
	c := converse(t, g)
	meta := `"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28"}`
	c.say(`{"jsonrpc":"2.0","id":"a","method":"no/such","params":{` + meta + `}}`)
	if got := c.readLine(); !strings.Contains(got, `-32601`) {
		t.Errorf("heard %s", got)
	}
	c.say(`{"jsonrpc":"2.0","id":"b","method":"tools/call","params":{"name":"fs_read",` + meta + `}}`)
	<-waits
	posts := g.headers(http.MethodPost)
	if h := posts[1]; h.Get("Mcp-Method") != "tools/call" || h.Get("Mcp-Name") != "fs_read" || h.Get("MCP-Protocol-Version") != "2026-07-28" || h.Get("Mcp-Session-Id") != "" {
		t.Errorf("sent with %v", h)
	}
	c.say(`{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":"b"}}`)
	<-closed
	_ = c.in.Close()
	must.Do(t, <-c.ended)
}

func TestRefusedAndUnreachable(t *testing.T) {
	t.Parallel()
	g := &gateway{session: "s", answer: func(w http.ResponseWriter, _ *http.Request, _ message) {
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(http.StatusForbidden)
		_, _ = io.WriteString(w, `{"code":"permission_denied","message":"no","details":[{"debug":{"reason":"PERMISSION_DENIED","metadata":{"remedy":"Ask."}}}]}`)
	}}
	c := converse(t, g)
	c.say(initialize)
	c.readLine()
	c.say(`{"jsonrpc":"2.0","id":2,"method":"tools/list"}`)
	if got := c.readLine(); got != `{"error":{"code":-32000,"message":"PERMISSION_DENIED: no. Ask."},"id":2,"jsonrpc":"2.0"}` {
		t.Errorf("heard %s", got)
	}
	_ = c.in.Close()
	must.Do(t, <-c.ended)

	in, client := io.Pipe()
	answers, out := io.Pipe()
	ended := make(chan error, 1)
	go func() {
		ended <- newShim(http.DefaultClient, "http://127.0.0.1:1/mcp", out).serve(context.Background(), in)
	}()
	must.Get(io.WriteString(client, initialize+"\n"))(t)
	lines := bufio.NewScanner(answers)
	if !lines.Scan() || !strings.Contains(lines.Text(), "start it with `palyrad`") {
		t.Errorf("heard %s", lines.Text())
	}
	_ = client.Close()
	must.Do(t, <-ended)
}
