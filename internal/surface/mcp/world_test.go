package mcp_test

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"net/http/httptest"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"palyra/internal/call"
	"palyra/internal/call/approval"
	"palyra/internal/call/policy"
	"palyra/internal/call/policy/policytest"
	"palyra/internal/core/access"
	"palyra/internal/core/must"
	"palyra/internal/core/reason"
	"palyra/internal/core/tool"
	"palyra/internal/exec/upstream/declared"
	"palyra/internal/gateway/gatewaytest"
	"palyra/internal/store/sqlite/sqlitetest"
	mcpserver "palyra/internal/surface/mcp"
	"palyra/internal/surface/resume"
)

// who is the header that names the caller of a test's request, in place of a credential.
const who = "Test-Who"

// world is a Server with real stages, on its own listener.
type world struct {
	t       testing.TB
	face    *mcpserver.Server
	http    *httptest.Server
	engine  *policy.Engine
	options policytest.Options
	*gatewaytest.Gateway

	read, run, fetch *gatewaytest.Probe
	more             []tool.Runnable
	limits           map[string]time.Duration

	mu      sync.Mutex
	callers map[string]access.Caller
	ended   []string
	// servers are the upstream servers; left lists the resources whose last subscription has
	// ended.
	servers []declared.State
	left    []string
}

func newWorld(t testing.TB, setup ...func(*world)) *world {
	t.Helper()
	w := &world{
		t: t, read: gatewaytest.NewProbe(policytest.Read), run: gatewaytest.NewProbe(policytest.Run), fetch: gatewaytest.NewProbe(policytest.Fetch),
		limits: map[string]time.Duration{}, callers: map[string]access.Caller{"": gatewaytest.Agent},
	}
	w.options.TwoUsers = true
	for _, fn := range setup {
		fn(w)
	}
	for _, one := range w.more {
		w.options.Tools = append(w.options.Tools, one.Descriptor())
	}
	w.engine = policy.NewEngine(policytest.Set(t, w.options))
	w.Gateway = gatewaytest.New(t, gatewaytest.Config{
		DB: sqlitetest.Open(t), Engine: w.engine, Notary: gatewaytest.Notary(t),
		Tools: append([]tool.Runnable{w.read, w.run, w.fetch}, w.more...),
	})
	w.face = mcpserver.New(mcpserver.Config{
		Tools: w.Router, Pipeline: w.Pipeline, Calls: resume.New(w.Pipeline, nil), Caller: w.caller, Catalog: w.catalog, Offered: w.offered,
		EndSession: func(_ context.Context, session string) error {
			w.mu.Lock()
			defer w.mu.Unlock()
			w.ended = append(w.ended, session)
			return nil
		},
		Refuse: func(rw http.ResponseWriter, _ *http.Request, err error) {
			http.Error(rw, string(reason.Of(err))+": "+err.Error(), http.StatusTooManyRequests)
		},
		Address: func() string { return "127.0.0.1:1" }, Limits: w.limits, Version: "test",
		Upstreams: func() []declared.State { return w.servers },
		Unsubscribe: func(_ context.Context, server string, owner access.Principal, uri string) error {
			w.mu.Lock()
			defer w.mu.Unlock()
			w.left = append(w.left, server+" "+owner.String()+" "+uri)
			return nil
		},
	})
	mux := http.NewServeMux()
	mux.Handle("/mcp", w.identified(w.face))
	mux.HandleFunc("GET "+mcpserver.ApprovalsPath+"{id}", mcpserver.Page(func() string { return "http://palyra-test.localhost:1" }))
	w.http = httptest.NewServer(mux)
	stop := must.Run(t, w.face.Run)
	t.Cleanup(func() {
		w.http.CloseClientConnections()
		stop()
		w.http.Close()
	})
	return w
}

type callerKey struct{}

func (w *world) identified(next http.Handler) http.Handler {
	return http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		w.mu.Lock()
		c, ok := w.callers[r.Header.Get(who)]
		w.mu.Unlock()
		if !ok {
			http.Error(rw, "nobody", http.StatusUnauthorized)
			return
		}
		next.ServeHTTP(rw, r.WithContext(context.WithValue(r.Context(), callerKey{}, c)))
	})
}

func (w *world) caller(ctx context.Context) access.Caller {
	c, _ := ctx.Value(callerKey{}).(access.Caller)
	return c
}

func (w *world) catalog(c access.Caller) []tool.Descriptor {
	listed := make(map[string]bool)
	for _, e := range w.engine.Current().Catalog().Tools(c) {
		listed[e.Tool] = true
	}
	return slices.DeleteFunc(w.Router.Descriptors(), func(d tool.Descriptor) bool { return !listed[d.Name] })
}

func (w *world) offered(c access.Caller, name string) (tool.Descriptor, bool) {
	d, ok := w.Router.Descriptor(name)
	return d, ok && w.engine.Current().Catalog().Lists(c, name)
}

// reload puts other policies in force.
func (w *world) reload(policies string) {
	w.t.Helper()
	o := w.options
	o.Policies = policies
	w.engine.Swap(policytest.Set(w.t, o))
	w.face.Changed()
}

// as adds headers to a client's requests.
type as struct{ headers http.Header }

func (a as) RoundTrip(r *http.Request) (*http.Response, error) {
	r = r.Clone(r.Context())
	for name, values := range a.headers {
		r.Header[name] = values
	}
	return http.DefaultTransport.RoundTrip(r)
}

// client is a client of the official SDK, with the messages and requests that it received.
type client struct {
	*mcp.ClientSession
	w        *world
	progress chan *mcp.ProgressNotificationParams
	changed  chan struct{}
	elicited chan *mcp.ElicitParams
	updated  chan string
	logs     chan string
	// answer returns the client's response to an elicitation.
	answer func(*mcp.ElicitParams) *mcp.ElicitResult
}

// clientConfig configures a client.
type clientConfig struct {
	revision string
	name     string
	headers  http.Header
	url      bool
	tasks    bool
	// model enables responses to requests for the client's model and roots.
	model bool
	// rounds disables the SDK's own handling of input_required, so that the test answers each
	// round.
	rounds bool
}

func (w *world) connect(c clientConfig) *client {
	w.t.Helper()
	got := &client{
		w: w, progress: make(chan *mcp.ProgressNotificationParams, 64), changed: make(chan struct{}, 8), elicited: make(chan *mcp.ElicitParams, 8),
		updated: make(chan string, 8), logs: make(chan string, 8),
		answer: func(*mcp.ElicitParams) *mcp.ElicitResult { return &mcp.ElicitResult{Action: "accept"} },
	}
	options := &mcp.ClientOptions{
		Capabilities:                &mcp.ClientCapabilities{},
		ProgressNotificationHandler: func(_ context.Context, r *mcp.ProgressNotificationClientRequest) { got.progress <- r.Params },
		ToolListChangedHandler:      func(context.Context, *mcp.ToolListChangedRequest) { got.changed <- struct{}{} },
		PromptListChangedHandler:    func(context.Context, *mcp.PromptListChangedRequest) { got.updated <- "prompts" },
		ResourceListChangedHandler:  func(context.Context, *mcp.ResourceListChangedRequest) { got.updated <- "resources" },
		ResourceUpdatedHandler:      func(_ context.Context, r *mcp.ResourceUpdatedNotificationRequest) { got.updated <- r.Params.URI },
		LoggingMessageHandler:       func(_ context.Context, r *mcp.LoggingMessageRequest) { got.logs <- string(r.Params.Level) },
		MultiRoundTrip:              &mcp.MultiRoundTripOptions{Disabled: c.rounds},
	}
	if c.url {
		options.Capabilities.Elicitation = &mcp.ElicitationCapabilities{URL: &mcp.URLElicitationCapabilities{}, Form: &mcp.FormElicitationCapabilities{}}
		options.ElicitationHandler = func(_ context.Context, r *mcp.ElicitRequest) (*mcp.ElicitResult, error) {
			got.elicited <- r.Params
			return got.answer(r.Params), nil
		}
	}
	if c.model {
		options.CreateMessageHandler = func(context.Context, *mcp.CreateMessageRequest) (*mcp.CreateMessageResult, error) {
			return &mcp.CreateMessageResult{Role: "assistant", Model: "m", Content: &mcp.TextContent{Text: "Paris"}}, nil
		}
		options.Capabilities.RootsV2 = &mcp.RootCapabilities{}
	}
	if c.tasks {
		options.Capabilities.AddExtension("io.modelcontextprotocol/tasks", nil)
	}
	name := c.name
	if name == "" {
		name = "test-client"
	}
	transport := &mcp.StreamableClientTransport{Endpoint: w.http.URL + "/mcp", HTTPClient: &http.Client{Transport: as{c.headers}}, MaxRetries: -1}
	client := mcp.NewClient(&mcp.Implementation{Name: name, Version: "1"}, options)
	client.AddRoots(&mcp.Root{URI: "file:///work"})
	session, err := client.Connect(w.t.Context(), transport, &mcp.ClientSessionOptions{ProtocolVersion: c.revision})
	if err != nil {
		w.t.Fatalf("connecting: %v", err)
	}
	w.t.Cleanup(func() { _ = session.Close() })
	got.ClientSession = session
	return got
}

// made is the outcome of a call.
type made struct {
	*mcp.CallToolResult
	err error
}

// text returns all text of a result.
func (m made) text() string {
	if m.CallToolResult == nil {
		return ""
	}
	var all string
	for _, c := range m.Content {
		if t, ok := c.(*mcp.TextContent); ok {
			all += t.Text + "\n"
		}
	}
	return all
}

// call returns the gateway's metadata of a call.
func (m made) call() map[string]string {
	out := map[string]string{}
	if m.CallToolResult == nil {
		return out
	}
	text, _ := json.Marshal(m.Meta["palyra.dev/call"])
	_ = json.Unmarshal(text, &out)
	return out
}

// begin calls a tool in a new goroutine.
func (c *client) begin(ctx context.Context, name string, arguments any, meta mcp.Meta) <-chan made {
	done := make(chan made, 1)
	go func() {
		r, err := c.CallTool(ctx, &mcp.CallToolParams{Meta: meta, Name: name, Arguments: arguments})
		done <- made{r, err}
	}()
	return done
}

func (c *client) call(name string, arguments any) made {
	return <-c.begin(c.w.t.Context(), name, arguments, nil)
}

// pending waits until n approvals are pending, and returns them.
func (w *world) pending(n int) []approval.Record {
	w.t.Helper()
	ctx, cancel := context.WithTimeout(w.t.Context(), must.Patience)
	defer cancel()
	var list []approval.Record
	err := w.Desk.Records.Watch(ctx, 0, nil, func(approval.Record) error {
		var err error
		list, _, err = w.Desk.Records.List(ctx, approval.Filter{Traits: approval.Traits{States: []approval.State{approval.Pending}}, PageSize: 100})
		if err == nil && len(list) == n {
			err = errEnough
		}
		return err
	})
	if !errors.Is(err, errEnough) {
		w.t.Fatalf("%d approvals wait: %v", len(list), err)
	}
	return list
}

var errEnough = errors.New("enough")

var bob = gatewaytest.Person(policytest.Bob, access.RoleOperator)

func (w *world) vote(a approval.Record, allow bool) {
	w.t.Helper()
	b := approval.Ballot{Allow: allow, ShownDigest: a.CallDigest}
	if !allow {
		b.Reason = "not today"
	}
	must.Get(w.Desk.Votes.Decide(w.t.Context(), bob, a.ID, b))(w.t)
}

// revisions are the supported protocol revisions.
var revisions = []string{"2025-06-18", "2025-11-25", "2026-07-28"}

var make1 = map[string]any{"argv": []string{"make"}}

var toolcallFilter = call.Filter{PageSize: 100}
