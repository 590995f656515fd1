// Package mcp is the gateway's MCP server: Streamable HTTP at /mcp, for the revisions 2025-06-18
// and 2025-11-25 with sessions, and 2026-07-28 without. A client receives the tools that policy
// could ever allow it to call, and its calls pass through the pipeline like calls of every other
// surface.
package mcp

import (
	"bufio"
	"context"
	"crypto/rand"
	"io"
	"log/slog"
	"net/http"
	"time"

	"github.com/modelcontextprotocol/go-sdk/auth"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"palyra/internal/call"
	"palyra/internal/core/access"
	"palyra/internal/core/reason"
	"palyra/internal/core/tool"
	declaration "palyra/internal/exec/upstream/declared"
	"palyra/internal/surface/resume"
	"palyra/internal/vault/aead"
)

// Revisions are the supported protocol revisions, newest first.
var Revisions = []string{stateless, "2025-11-25", "2025-06-18"}

// stateless is the first revision without sessions.
const stateless = "2026-07-28"

// assumed is the revision of a request that does not specify one.
const assumed = "2025-03-26"

const (
	// sessionIdle is the idle timeout of a session.
	sessionIdle = 30 * time.Minute
	// mostSessions bounds the sessions of one principal.
	mostSessions = 64
	// mostBody is the largest message in bytes.
	mostBody = 4 << 20
	// versionHeader and sessionHeader are headers of the transport.
	versionHeader, sessionHeader = "MCP-Protocol-Version", "Mcp-Session-Id"
)

// Tools is the set of the gateway's tools. *dispatch.Router implements it.
type Tools interface {
	Descriptors() []tool.Descriptor
	// Revision changes whenever Descriptors change.
	Revision() uint64
	// Unusable returns why a tool cannot be called at present.
	Unusable(name string) error
}

// Pipeline makes calls and returns past calls. *call.Pipeline implements it.
type Pipeline interface {
	resume.Pipeline
	PastCall(ctx context.Context, id string) (call.PastCall, error)
	// Evaluate returns the policy decision for a call without making it.
	Evaluate(ctx context.Context, s call.Submission) (call.Evaluation, error)
	// CallDigest returns the digest that a call would have.
	CallDigest(ctx context.Context, s call.Submission) (string, error)
}

// Config holds the dependencies of a Server. Every field is required except Arrive, Upstreams,
// Unsubscribe and Log.
type Config struct {
	Tools    Tools
	Pipeline Pipeline
	Calls    *resume.Calls
	// Catalog lists the tools that policy could ever allow a caller to call.
	Catalog func(access.Caller) []tool.Descriptor
	// Offered returns a tool of the catalog by its name. It is called for every call.
	Offered func(access.Caller, string) (tool.Descriptor, bool)
	// Caller returns the caller of a request.
	Caller func(context.Context) access.Caller
	// Upstreams are the upstream servers by name. nil means none.
	Upstreams func() []declaration.State
	// Unsubscribe ends the subscription to a resource of an upstream server, unless another session
	// uses it.
	Unsubscribe func(ctx context.Context, server string, owner access.Principal, uri string) error
	// Arrive returns the announcement of a call by an agent's hook, with the approvers' answer. It
	// receives the client's id of the call and the tool's name on the wire. If Arrive is nil, no
	// call is announced.
	Arrive func(caller access.Caller, callID, name string, input []byte) *call.PriorAnswer
	// EndSession ends the call session of an MCP session.
	EndSession func(ctx context.Context, session string) error
	// Refuse writes an error in the format of the API.
	Refuse func(http.ResponseWriter, *http.Request, error)
	// Address is HOST:PORT of the gateway's API, for links in requests that came over a socket.
	Address func() string
	// Limits are the call timeouts of clients, by the name that clients declare. They override
	// Known.
	Limits  map[string]time.Duration
	Version string
	// Log receives errors that clients do not receive; nil discards them.
	Log *slog.Logger
}

// Server is the MCP server.
type Server struct {
	Config
	stateful, stateless http.Handler
	states              *states
	catalog             *catalog
	Clients             *Clients
	tasks               *tasks
	asked               *questions
	changed             chan struct{}
	// over is closed when the gateway stops.
	over chan struct{}
}

// New returns a Server.
func New(cfg Config) *Server {
	if cfg.Log == nil {
		cfg.Log = slog.New(slog.DiscardHandler)
	}
	key := make([]byte, aead.KeySize)
	_, _ = rand.Read(key) // never fails
	f := &Server{
		Config: cfg, states: newStates(key), catalog: &catalog{Config: cfg}, tasks: newTasks(cfg.Pipeline), asked: newQuestions(),
		changed: make(chan struct{}, 1), over: make(chan struct{}),
	}
	f.Clients = &Clients{catalog: f.catalog, servers: make(map[access.Principal]*served), watches: make(map[watched]map[*mcp.ServerSession]bool)}
	quiet := slog.New(slog.DiscardHandler) // the library logs data of clients
	shared := mcp.StreamableHTTPOptions{
		MaxRequestBodyBytes: mostBody, SessionTimeout: sessionIdle, Logger: quiet, PropagateRequestCancellation: true,
		// Host and Origin were checked before, as each listener requires.
		DisableLocalhostProtection: true,
	}
	sessionless := shared
	sessionless.Stateless = true
	identified := auth.RequireBearerToken(verified, &auth.RequireBearerTokenOptions{AllowMissingExpiration: true})
	f.stateful = identified(mcp.NewStreamableHTTPHandler(f.serverOf, &shared))
	f.stateless = identified(mcp.NewStreamableHTTPHandler(f.serverOf, &sessionless))
	return f
}

// ServeHTTP serves one request of the transport.
func (f *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	v := f.httpRequestOf(r)
	body := bufio.NewReader(r.Body)
	if batched(body) {
		f.Refuse(w, r, reason.Errorf(reason.InvalidInput, "batches are not supported: a request must be one JSON-RPC message").
			WithRemedy("Send the messages one by one; revisions from 2025-06-18 on have no batches."))
		return
	}
	message, err := exactly(body)
	if err != nil {
		f.Refuse(w, r, err)
		return
	}
	r, done := f.untilOver(v.into(r))
	defer done()
	r.Body = readCloser{message, r.Body}
	if r.Method != http.MethodDelete {
		answer, end := keepAlive(w, v.answered.Load)
		defer end()
		w = answer
	}
	// A session has a fixed revision, and the library checks the header of later requests. The
	// revision that the specification makes a server assume by default is not checked.
	if r.Header.Get(sessionHeader) != "" && r.Header.Get(versionHeader) == assumed {
		r.Header.Del(versionHeader)
	}
	if r.Header.Get(versionHeader) >= stateless {
		f.stateless.ServeHTTP(w, r)
		return
	}
	if r.Method == http.MethodPost && r.Header.Get(sessionHeader) == "" && f.Clients.sessions(v.caller.Principal) >= mostSessions {
		f.Refuse(w, r, reason.Errorf(reason.RateLimited, "%s has %d MCP sessions open", v.caller.Principal, mostSessions).
			WithRemedy("End some sessions, or wait: an idle session ends after %s.", sessionIdle))
		return
	}
	f.stateful.ServeHTTP(w, r)
	if r.Method == http.MethodDelete {
		f.ended(r.Context(), v, r.Header.Get(sessionHeader))
	}
}

// untilOver ends a listening request when the gateway stops, so that the request does not delay
// the stop.
func (f *Server) untilOver(r *http.Request) (_ *http.Request, done func()) {
	if r.Method != http.MethodGet && r.Header.Get("Mcp-Method") != "subscriptions/listen" {
		return r, func() {}
	}
	ctx, cancel := context.WithCancel(r.Context())
	go func() {
		select {
		case <-f.over:
			cancel()
		case <-ctx.Done():
		}
	}()
	return r.WithContext(ctx), cancel
}

// ended ends the call session of an MCP session that a client ended.
func (f *Server) ended(ctx context.Context, v *httpRequest, id string) {
	session := call.SessionID(v.caller, sessionName(id))
	if err := f.EndSession(context.WithoutCancel(ctx), session); err != nil {
		f.Log.WarnContext(ctx, "ending an MCP session", slog.String("principal", v.caller.Principal.String()), slog.String("error", err.Error()))
	}
}

// batched reports whether a body is an array. It does not consume the body.
func batched(body *bufio.Reader) bool {
	for n := 1; n <= body.Size(); n++ {
		ahead, err := body.Peek(n)
		if err != nil {
			return false
		}
		switch ahead[n-1] {
		case ' ', '\t', '\r', '\n':
		default:
			return ahead[n-1] == '['
		}
	}
	return true // a message does not start with this much white space
}

type readCloser struct {
	io.Reader
	io.Closer
}

// serverOf returns the server of a request's sender. The library calls it several times.
func (f *Server) serverOf(r *http.Request) *mcp.Server {
	v := visitIn(auth.TokenInfoFromContext(r.Context()))
	if v == nil {
		return nil
	}
	return f.Clients.serverOf(v, f.newServer)
}

func (f *Server) newServer() *mcp.Server {
	capabilities := &mcp.ServerCapabilities{
		Tools: &mcp.ToolCapabilities{ListChanged: true}, Prompts: &mcp.PromptCapabilities{ListChanged: true},
		Resources:   &mcp.ResourceCapabilities{ListChanged: true, Subscribe: true},
		Completions: &mcp.CompletionCapabilities{}, Logging: &mcp.LoggingCapabilities{},
	}
	capabilities.AddExtension(tasksExtension, nil)
	s := mcp.NewServer(&mcp.Implementation{Name: "palyra", Title: "Palyra", Version: f.Version}, &mcp.ServerOptions{
		Capabilities: capabilities, SupportedProtocolVersions: Revisions, Instructions: instructions,
		GetSessionID: rand.Text, SubscribeHandler: f.subscribe, UnsubscribeHandler: f.unsubscribe,
	})
	f.tasks.addTaskMethods(s)
	s.AddReceivingMiddleware(f.receive)
	return s
}

// instructions are the gateway's instructions for models.
const instructions = `Palyra decides each call by policy, requests approval where policy requires it, and runs it in a sandbox.
The error of a denied call has the reason and the next step; do not try to achieve the same in another way.
A call that returns STILL_WAITING waits for approval: repeat the identical call to keep waiting.`

// receive handles the gateway's own methods, and passes the others to the library.
func (f *Server) receive(next mcp.MethodHandler) mcp.MethodHandler {
	return func(ctx context.Context, method string, req mcp.Request) (mcp.Result, error) {
		var v *httpRequest
		if extra := req.GetExtra(); extra != nil {
			v = visitIn(extra.TokenInfo)
		}
		if v == nil {
			return nil, reason.Errorf(reason.Unauthenticated, "the message has no authenticated caller")
		}
		session, _ := req.GetSession().(*mcp.ServerSession)
		switch p := req.GetParams().(type) {
		case *mcp.ListToolsParams:
			return f.catalog.list(v), nil
		case *mcp.ListPromptsParams:
			return f.catalog.listPrompts(v), nil
		case *mcp.ListResourceTemplatesParams:
			return f.catalog.listTemplates(v), nil
		case *mcp.ListResourcesParams:
			return f.listResources(ctx, v, session, p)
		case *mcp.CompleteParams:
			return f.complete(ctx, v, session, p)
		case *mcp.SetLoggingLevelParams:
			f.Clients.setLevel(v, session, p)
		case *mcp.CallToolParamsRaw, *mcp.GetPromptParams, *mcp.ReadResourceParams:
			defer v.answered.Store(true)
			return f.callBehind(ctx, v, req)
		}
		return next(withVisit(ctx, v), method, req)
	}
}

// callBehind handles the methods that make a call and may take long.
func (f *Server) callBehind(ctx context.Context, v *httpRequest, req mcp.Request) (mcp.Result, error) {
	q, err := f.requestOf(v, req)
	if err != nil {
		return nil, err
	}
	switch p := req.GetParams().(type) {
	case *mcp.GetPromptParams:
		return f.getPrompt(ctx, q, p)
	case *mcp.ReadResourceParams:
		return f.readResource(ctx, q, p)
	case *mcp.CallToolParamsRaw:
		return f.call(ctx, q, p)
	}
	return nil, reason.Errorf(reason.Internal, "the method does not make a call")
}

// Changed must be called when policy or the tools changed.
func (f *Server) Changed() {
	select {
	case f.changed <- struct{}{}:
	default:
	}
}

// Run notifies clients of changed tools until ctx ends, and then ends the running tasks.
func (f *Server) Run(ctx context.Context) error {
	defer f.tasks.end()
	defer close(f.over)
	var nameless map[string]string
	for {
		nameless = f.logNameConflicts(ctx, nameless)
		select {
		case <-ctx.Done():
			return nil
		case <-f.changed:
			f.unsubscribed(ctx, f.Clients.tellChanges())
		}
	}
}

// logNameConflicts logs the tools that have no name on the wire, each once.
func (f *Server) logNameConflicts(ctx context.Context, previous map[string]string) map[string]string {
	now := f.catalog.names().Refused()
	for tool, other := range now {
		if _, known := previous[tool]; !known {
			f.Log.WarnContext(ctx, "a tool is not listed for MCP clients because of a name conflict", slog.String("tool", tool), slog.String("note", other))
		}
	}
	return now
}

// listed returns the digests of the lists that the gateway builds without a call.
func (ct *catalog) listed(v *httpRequest, tools *mcp.ListToolsResult) [resourcesChanged + 1]string {
	return [...]string{
		toolsChanged: digestOf(tools.Tools), promptsChanged: digestOf(ct.listPrompts(v).Prompts), resourcesChanged: digestOf(ct.listTemplates(v).ResourceTemplates),
	}
}
