//go:build unix

package upstream_test

import (
	"context"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"palyra/internal/core/access"
	"palyra/internal/core/must"
	"palyra/internal/core/tool"
	"palyra/internal/exec/upstream"
	"palyra/internal/gateway/gatewaytest"
	mcpserver "palyra/internal/surface/mcp"
	"palyra/internal/surface/resume"
)

// transport is a transport to an upstream server of one revision.
type transport struct {
	revision  string
	http      bool
	stateless bool
}

func (u transport) name() string {
	switch {
	case !u.http:
		return "stdio-" + u.revision
	case u.stateless:
		return "stateless-" + u.revision
	}
	return "stateful-" + u.revision
}

// notifies reports whether the server can notify the gateway between calls.
func (u transport) notifies() bool { return !u.http || u.revision >= "2026" }

// server returns a server that supports only the revision of u.
func (u transport) server() *mcp.Server {
	s := mcp.NewServer(&mcp.Implementation{Name: "up", Version: "1"}, &mcp.ServerOptions{
		SupportedProtocolVersions: []string{u.revision}, Capabilities: &mcp.ServerCapabilities{Tools: &mcp.ToolCapabilities{ListChanged: true}},
	})
	add(s, "revision", "", func(_ context.Context, r *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
		var got []string
		if r.Extra != nil {
			got = r.Extra.Header.Values("Mcp-Protocol-Version")
		}
		if version, is := r.Params.Meta[mcp.MetaKeyProtocolVersion].(string); is {
			got = append(got, version)
		}
		return text(strings.Join(slices.Compact(got), " ")), nil
	})
	add(s, "work", "", func(ctx context.Context, r *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
		err := r.Session.NotifyProgress(ctx, &mcp.ProgressNotificationParams{ProgressToken: r.Params.GetProgressToken(), Progress: 1, Message: "half"})
		return text("done"), err
	})
	question := &mcp.ElicitParams{Message: "Who?", RequestedSchema: map[string]any{"type": "object", "properties": map[string]any{"name": map[string]any{"type": "string"}}}}
	add(s, "ask", "", func(ctx context.Context, r *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
		answer, answered := r.Params.InputResponses["who"].(*mcp.ElicitResult)
		switch {
		case u.revision >= "2026" && !answered:
			return &mcp.CallToolResult{InputRequests: mcp.InputRequestMap{"who": question}}, nil
		case u.revision < "2026":
			var err error
			if answer, err = r.Session.Elicit(ctx, question); err != nil {
				return text("not asked"), nil //nolint:nilerr // a server without sessions cannot
			}
		}
		return text(format(answer.Content["name"])), nil
	})
	add(s, "grow", "", func(context.Context, *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
		add(s, "new", "", nil)
		return text("grown"), nil
	})
	return s
}

// transports are all revisions over all transports. The newest has no sessions.
func transports() (list []transport) {
	for _, revision := range mcp.SupportedProtocolVersions() {
		list = append(list, transport{revision: revision}, transport{revision: revision, http: true, stateless: true})
		if revision < "2026" {
			list = append(list, transport{revision: revision, http: true})
		}
	}
	return list
}

// attach adds the server of u.
func (w *world) attach(u transport, mux *http.ServeMux, site *httptest.Server) {
	w.t.Helper()
	s := u.server()
	if u.http {
		mux.Handle("/"+u.name(), mcp.NewStreamableHTTPHandler(func(*http.Request) *mcp.Server { return s }, &mcp.StreamableHTTPOptions{Stateless: u.stateless}))
		if state := w.addURL(u.name(), site.URL+"/"+u.name()); state.Problem != "" {
			w.t.Fatalf("%s: %s", u.name(), state.Problem)
		}
		return
	}
	state := w.add(u.name(), func(c *conversation) {
		if session, err := s.Connect(c.ctx, &mcp.IOTransport{Reader: c.in, Writer: c}, nil); err == nil {
			_ = session.Wait()
		}
	})
	if state.Problem != "" {
		w.t.Fatalf("%s: %s", u.name(), state.Problem)
	}
}

// serveMCP serves MCP clients over HTTP, as the gateway does.
func (w *world) serveMCP() (f *mcpserver.Server, url string) {
	f = mcpserver.New(mcpserver.Config{
		Tools: w.Router, Pipeline: w.Pipeline, Calls: resume.New(w.Pipeline, nil), Upstreams: w.List, Unsubscribe: w.Unsubscribe,
		Caller:     func(context.Context) access.Caller { return gatewaytest.Agent },
		Catalog:    func(access.Caller) []tool.Descriptor { return w.Router.Descriptors() },
		Offered:    func(_ access.Caller, name string) (tool.Descriptor, bool) { return w.Router.Descriptor(name) },
		EndSession: func(context.Context, string) error { return nil },
		Refuse: func(rw http.ResponseWriter, _ *http.Request, err error) {
			http.Error(rw, err.Error(), http.StatusTooManyRequests)
		},
		Address: func() string { return "127.0.0.1:1" }, Version: "test",
	})
	front := httptest.NewServer(f)
	stop := must.Run(w.t, f.Run)
	w.t.Cleanup(func() {
		front.CloseClientConnections()
		stop()
		front.Close()
	})
	return f, front.URL
}

// agent is an MCP client of the gateway that supports one revision.
type agent struct {
	*mcp.ClientSession
	t        *testing.T
	progress chan string
	changed  chan struct{}
}

func newAgent(t *testing.T, url, revision string) *agent {
	t.Helper()
	a := &agent{t: t, progress: make(chan string, 64), changed: make(chan struct{}, 64)}
	c := mcp.NewClient(&mcp.Implementation{Name: "agent", Version: "1"}, &mcp.ClientOptions{
		ProgressNotificationHandler: func(_ context.Context, r *mcp.ProgressNotificationClientRequest) { a.progress <- r.Params.Message },
		ToolListChangedHandler:      func(context.Context, *mcp.ToolListChangedRequest) { a.changed <- struct{}{} },
		ElicitationHandler: func(context.Context, *mcp.ElicitRequest) (*mcp.ElicitResult, error) {
			return &mcp.ElicitResult{Action: "accept", Content: map[string]any{"name": "ann"}}, nil
		},
	})
	a.ClientSession = must.Get(c.Connect(t.Context(), &mcp.StreamableClientTransport{Endpoint: url}, &mcp.ClientSessionOptions{ProtocolVersion: revision}))(t)
	t.Cleanup(func() { _ = a.Close() })
	return a
}

// call returns the text of a result, or the error.
func (a *agent) call(server, name string) string {
	r, err := a.CallTool(a.t.Context(), &mcp.CallToolParams{Name: server + "_" + name, Arguments: map[string]any{}, Meta: mcp.Meta{"progressToken": "p"}})
	if err != nil {
		return err.Error()
	}
	if len(r.Content) == 0 {
		return "no content"
	}
	content, _ := r.Content[0].(*mcp.TextContent)
	return content.Text
}

// callTools calls the tools of one server.
func (a *agent) callTools(u transport) {
	a.t.Helper()
	answer, revision := "ann", u.revision
	if u.revision < "2026" && u.stateless {
		answer = "not asked"
	}
	if u.revision < "2026" && !u.http {
		revision = "" // the revision occurs only in the handshake
	}
	for _, c := range []struct{ tool, want string }{{"revision", revision}, {"work", "done"}, {"ask", answer}, {"revision", revision}} {
		if got := a.call(u.name(), c.tool); got != c.want {
			a.t.Errorf("%s: %q, want %q", c.tool, got, c.want)
		}
	}
	if got := must.Receive(a.t, "progress arrives", a.progress); got != "half" {
		a.t.Errorf("progress %q", got)
	}
}

// TestRevisions: a client of each revision calls a server of each revision, over each
// transport. The instance was started by its own call, or by a client of another revision. The
// server receives only its own revision. Without tool.Isolate, servers of the revisions with
// sessions would receive the client's.
func TestRevisions(t *testing.T) {
	t.Parallel()
	mux := http.NewServeMux()
	site := httptest.NewTLSServer(mux)
	t.Cleanup(func() {
		site.CloseClientConnections()
		site.Close()
	})
	w := newWorld(t, func(c *upstream.Config) { (&siteOf{site}).trusted(c) })
	face, url := w.serveMCP()
	var agents []*agent
	revisions := []string{"2025-06-18", "2025-11-25", "2026-07-28"}
	for _, u := range transports() {
		w.attach(u, mux, site)
	}
	for _, revision := range revisions {
		agents = append(agents, newAgent(t, url, revision))
	}
	for _, u := range transports() {
		for i := range agents {
			w.Pool.EndIdle()
			for j := range agents {
				a := *agents[(i+j)%len(agents)]
				t.Run(u.name()+"/"+revisions[i]+"/"+revisions[(i+j)%len(agents)], func(t *testing.T) {
					a.t = t
					a.callTools(u)
				})
			}
		}
		w.changes(t, u, agents, face.Changed)
	}
}

// changes makes a server list another tool. It keeps working for every agent, and once an
// operator has approved the change, every agent is notified.
func (w *world) changes(t *testing.T, u transport, agents []*agent, notify func()) {
	t.Helper()
	if got := agents[0].call(u.name(), "grow"); got != "grown" {
		t.Errorf("%s: %s", u.name(), got)
	}
	if u.notifies() {
		until(t, func() bool { return w.stale(u.name()) })
	} else {
		must.Get(w.Refresh(t.Context(), operator, u.name()))(t)
	}
	for _, a := range agents {
		if got := a.call(u.name(), "work"); got != "done" {
			t.Errorf("%s after a change of its list: %s", u.name(), got)
		}
		for len(a.changed) > 0 {
			<-a.changed
		}
	}
	state := must.Get(w.Show(u.name()))(t)
	if len(state.Changes) != 1 || state.Changes[0].Name != "new" {
		t.Fatalf("%s: changes %v", u.name(), state.Changes)
	}
	must.Get(w.Approve(t.Context(), operator, u.name(), state.Seen.Digest()))(t)
	notify()
	for _, a := range agents {
		must.Receive(t, u.name()+": an agent is notified", a.changed)
	}
}
