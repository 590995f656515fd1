//go:build unix

package upstream_test

import (
	"context"
	"net/http"
	"net/http/httptest"
	"sync"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"palyra/internal/core/access"
	"palyra/internal/core/must"
	"palyra/internal/core/reason"
	"palyra/internal/core/tool"
	"palyra/internal/exec/upstream"
	"palyra/internal/exec/upstream/declared"
	"palyra/internal/gateway/gatewaytest"
)

// watcher records its notifications.
type watcher struct {
	heard chan string

	mu      sync.Mutex
	watches bool
}

func newWatcher() *watcher { return &watcher{heard: make(chan string, 64), watches: true} }

func (w *watcher) ResourceUpdated(server string, owner access.Principal, uri string) {
	w.heard <- server + " " + owner.String() + " " + uri
}

func (*watcher) ResourcesChanged(string, access.Principal) {}

func (w *watcher) ToolsChanged(server string, owner access.Principal) {
	w.heard <- "tools " + server + " " + owner.String()
}

func (w *watcher) PromptsChanged(server string, owner access.Principal) {
	w.heard <- "prompts " + server + " " + owner.String()
}

func (w *watcher) Watches(string, access.Principal, string) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.watches
}

func (w *watcher) leave() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.watches = false
}

// TestListChangesAreRelayed: if a server announces a changed list of tools or prompts, the
// clients of its owner are notified, and the server is inspected again. Control: a call without
// a change.
func TestListChangesAreRelayed(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	heard := newWatcher()
	w.add("s", serve(func(s *mcp.Server) {
		add(s, "tools", "", func(context.Context, *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
			add(s, "another", "", func(context.Context, *mcp.CallToolRequest) (*mcp.CallToolResult, error) { return text("x"), nil })
			return text("changed"), nil
		})
		add(s, "prompts", "", func(context.Context, *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
			s.AddPrompt(&mcp.Prompt{Name: "p"}, nil)
			return text("changed"), nil
		})
		s.AddPrompt(&mcp.Prompt{Name: "first"}, nil)
	}))
	w.Watch(heard)
	w.works("s/hello", `{}`)
	if w.stale("s") {
		t.Error("a call that changes no list has it looked at again")
	}
	for _, what := range []string{"tools", "prompts"} {
		w.works("s/"+what, `{}`)
		if got, want := <-heard.heard, what+" s "+gatewaytest.Agent.Principal.String(); got != want {
			t.Errorf("heard %q, want %q", got, want)
		}
		must.Get(w.Refresh(t.Context(), operator, "s"))(t)
		if state := must.Get(w.Show("s"))(t); len(state.Changes) > 0 {
			must.Get(w.Approve(t.Context(), operator, "s", state.Seen.Digest()))(t)
		}
	}
}

// docs returns a server with a resource that clients can watch.
func docs(versions ...string) (s *mcp.Server, change func()) {
	took := func(context.Context, *mcp.SubscribeRequest) error { return nil }
	left := func(context.Context, *mcp.UnsubscribeRequest) error { return nil }
	s = mcp.NewServer(&mcp.Implementation{Name: "docs", Version: "1"}, &mcp.ServerOptions{SupportedProtocolVersions: versions, SubscribeHandler: took, UnsubscribeHandler: left})
	hello(s)
	s.AddResource(&mcp.Resource{URI: "doc://a", Name: "a"}, nil)
	return s, func() {
		for _, uri := range []string{"doc://b", "doc://a"} {
			_ = s.ResourceUpdated(context.Background(), &mcp.ResourceUpdatedNotificationParams{URI: uri})
		}
	}
}

// TestWatch: subscribers are notified about their resource only, and only subscribers of the
// instance. After the last one has left, no notification is sent. Policy may forbid the
// subscription.
func TestWatch(t *testing.T) {
	t.Parallel()
	for name, versions := range map[string][]string{"sessions": {"2025-11-25"}, "without": nil} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			heard := newWatcher()
			w.Watch(heard)
			s, change := docs(versions...)
			w.add("docs", func(c *conversation) {
				if session, err := s.Connect(c.ctx, &mcp.IOTransport{Reader: c.in, Writer: c}, nil); err == nil {
					_ = session.Wait()
				}
			})
			watches(t, w, heard, change)
		})
	}
}

// TestWatchOverHTTP: a server over HTTP of a revision with sessions announces changes on a
// separate stream.
func TestWatchOverHTTP(t *testing.T) {
	t.Parallel()
	s, change := docs("2025-11-25")
	site := httptest.NewTLSServer(mcp.NewStreamableHTTPHandler(func(*http.Request) *mcp.Server { return s }, nil))
	t.Cleanup(site.Close)
	w := newWorld(t, func(c *upstream.Config) { (&siteOf{site}).trusted(c) })
	heard := newWatcher()
	w.Watch(heard)
	w.addURL("docs", site.URL)
	watches(t, w, heard, change)
}

func watches(t *testing.T, w *world, heard *watcher, change func()) {
	t.Helper()
	w.works("docs/mcp.subscribe", `{"uri":"doc://a"}`)
	w.works("docs/mcp.subscribe", `{"uri":"doc://a"}`)
	want := "docs " + gatewaytest.Agent.Principal.String() + " doc://a"
	var got string
	until(t, func() bool { // the stream may open after the subscription
		change()
		select {
		case got = <-heard.heard:
			return true
		case <-time.After(10 * time.Millisecond):
			return false
		}
	})
	if got != want {
		t.Errorf("heard %q", got)
	}
	for len(heard.heard) > 0 {
		if got := <-heard.heard; got != want {
			t.Errorf("heard %q", got)
		}
	}
	must.Do(t, w.Unsubscribe(t.Context(), "docs", gatewaytest.Agent.Principal, "doc://a")) // one subscriber left
	heard.leave()
	must.Do(t, w.Unsubscribe(t.Context(), "docs", gatewaytest.Agent.Principal, "doc://a"))
	for len(heard.heard) > 0 {
		<-heard.heard
	}
	change()
	w.works("docs/hello", `{}`)
	if len(heard.heard) > 0 {
		t.Errorf("heard after the end: %q", <-heard.heard)
	}
	w.source += `@id("test.no") @reason("no") forbid(principal, action in Action::"mcp.subscribe", resource);`
	must.Do(t, w.Rebuild(t.Context(), ""))
	out, err := w.callAs(gatewaytest.Agent, "docs/mcp.subscribe", `{"uri":"doc://a"}`, noPeer)
	if err != nil || out.Outcome != "" {
		t.Errorf("forbidden: %v %s", err, out.Result)
	}
}

// TestWatchIsRefused: a server that does not announce changes cannot be subscribed to.
func TestWatchIsRefused(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.Watch(newWatcher())
	refuse := func(context.Context, *mcp.SubscribeRequest) error { return errNo }
	s := mcp.NewServer(&mcp.Implementation{Name: "docs", Version: "1"}, &mcp.ServerOptions{
		SupportedProtocolVersions: []string{"2025-11-25"}, SubscribeHandler: refuse, UnsubscribeHandler: func(context.Context, *mcp.UnsubscribeRequest) error { return nil },
	})
	hello(s)
	s.AddResource(&mcp.Resource{URI: "doc://a", Name: "a"}, nil)
	w.add("docs", func(c *conversation) {
		if session, err := s.Connect(c.ctx, &mcp.IOTransport{Reader: c.in, Writer: c}, nil); err == nil {
			_ = session.Wait()
		}
	})
	w.fails("docs/mcp.subscribe", `{"uri":"doc://a"}`, reason.ToolFailed)
}

// TestResumed: a server may close the stream of a call, and the call continues when the stream is
// resumed.
func TestResumed(t *testing.T) {
	t.Parallel()
	s := mcp.NewServer(&mcp.Implementation{Name: "polled", Version: "1"}, &mcp.ServerOptions{SupportedProtocolVersions: []string{"2025-11-25"}})
	hello(s)
	add(s, "close", "", func(_ context.Context, r *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
		r.Extra.CloseSSEStream(mcp.CloseSSEStreamArgs{RetryAfter: time.Millisecond})
		return text("after the end of the stream"), nil
	})
	site := httptest.NewTLSServer(mcp.NewStreamableHTTPHandler(func(*http.Request) *mcp.Server { return s }, &mcp.StreamableHTTPOptions{EventStore: mcp.NewMemoryEventStore(nil)}))
	t.Cleanup(site.Close)
	w := newWorld(t, func(c *upstream.Config) { (&siteOf{site}).trusted(c) })
	must.Get(w.Add(t.Context(), operator, declared.Server{Name: "polled", URL: site.URL}))(t)
	if got := resultText(t, w.works("polled/close", `{}`)); got != "after the end of the stream" {
		t.Errorf("%q", got)
	}
}

var noPeer tool.Peer

// siteOf adds a site's certificate to a configuration.
type siteOf struct{ *httptest.Server }

func (s *siteOf) trusted(c *upstream.Config) { (&site{Server: s.Server}).trusted(c) }
