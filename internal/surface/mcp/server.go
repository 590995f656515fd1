// Package mcp is the gateway as an MCP server: Streamable HTTP at /mcp, for the
// revisions 2025-06-18 and 2025-11-25 with sessions, and 2026-07-28 without. A client
// is shown the tools that policy could ever let it call, and its calls go through the
// pipeline like those of every other surface.
package mcp

import (
	"bufio"
	"context"
	"crypto/rand"
	"io"
	"iter"
	"log/slog"
	"maps"
	"net/http"
	"sync"
	"sync/atomic"
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

// Revisions are those of the protocol that are spoken, newest first.
var Revisions = []string{stateless, "2025-11-25", "2025-06-18"}

// stateless is the first revision without sessions.
const stateless = "2026-07-28"

// assumed is the revision of a request that names none.
const assumed = "2025-03-26"

const (
	// sessionIdle is when a session ends of which nothing is heard.
	sessionIdle = 30 * time.Minute
	// mostSessions bounds the sessions of one principal.
	mostSessions = 64
	// mostBody is the largest message in bytes.
	mostBody = 4 << 20
	// versionHeader and sessionHeader are those of the transport.
	versionHeader, sessionHeader = "MCP-Protocol-Version", "Mcp-Session-Id"
)

// Tools are those that the gateway has. It is *dispatch.Router.
type Tools interface {
	Descriptors() []tool.Descriptor
	// Revision is another number whenever Descriptors are others.
	Revision() uint64
	// Unusable says why a tool cannot be called at present.
	Unusable(name string) error
}

// Pipeline makes calls, and knows those that were made. It is *call.Pipeline.
type Pipeline interface {
	resume.Pipeline
	PastCall(ctx context.Context, id string) (call.PastCall, error)
	// Evaluate says what policy would say of a call that is not made.
	Evaluate(ctx context.Context, s call.Submission) (call.Evaluation, error)
	// CallDigest is the digest of what a call would be.
	CallDigest(ctx context.Context, s call.Submission) (string, error)
}

// Config is what a Face stands on. Every field is required but Arrive, Upstreams,
// Unsubscribe and Log.
type Config struct {
	Tools    Tools
	Pipeline Pipeline
	Calls    *resume.Calls
	// Catalog lists the tools that policy could ever let a caller call.
	Catalog func(access.Caller) []tool.Descriptor
	// Offered finds one of them by its name. Every call asks it.
	Offered func(access.Caller, string) (tool.Descriptor, bool)
	// Caller is who sends a request, by its context.
	Caller func(context.Context) access.Caller
	// Upstreams are the upstream servers by name. nil is none.
	Upstreams func() []declaration.State
	// Unsubscribe ends the watching of a resource of an upstream server, unless somebody
	// else watches it.
	Unsubscribe func(ctx context.Context, server string, owner access.Principal, uri string) error
	// Arrive is asked about each call, by the client's id of it and the tool's name on
	// the wire: whether an agent's hook announced it, and what people said then. nil
	// knows of none.
	Arrive func(caller access.Caller, callID, name string, input []byte) *call.Vouch
	// EndSession ends what stands for a session of calls.
	EndSession func(ctx context.Context, session string) error
	// Refuse answers a request with an error in the shape of the API.
	Refuse func(http.ResponseWriter, *http.Request, error)
	// Address is HOST:PORT of the gateway's API, for links to it where a request came
	// over no network.
	Address func() string
	// Limits are the times that clients give a call, by the name that they call
	// themselves, beside and before those that are known (Known).
	Limits  map[string]time.Duration
	Version string
	// Log gets what clients are not told; nil discards.
	Log *slog.Logger
}

// Face serves MCP.
type Face struct {
	Config
	stateful, stateless http.Handler
	states              *states
	tasks               *tasks
	asked               *questions
	changed             chan struct{}
	// named are the names of the tools of one revision.
	named atomic.Pointer[naming]
	// over is closed when the gateway stops.
	over chan struct{}

	mu sync.Mutex
	// servers has one per principal, so that each is told when its own tools change.
	servers map[access.Principal]*served
	// watches are the sessions that watch resources.
	watches map[watched]map[*mcp.ServerSession]bool
}

// served is what one principal is served by.
type served struct {
	*mcp.Server
	caller access.Caller
	// listed are the digests of the lists that its sessions were told of last.
	listed [resourcesChanged + 1]string
	// marks are the schemas of tools whose headers the library checks.
	marks map[string]string
	// levels are those of logs that sessions want.
	levels map[string]string
}

// New returns a Face.
func New(cfg Config) *Face {
	if cfg.Log == nil {
		cfg.Log = slog.New(slog.DiscardHandler)
	}
	key := make([]byte, aead.KeySize)
	_, _ = rand.Read(key) // never fails
	f := &Face{
		Config: cfg, states: newStates(key), tasks: newTasks(), asked: newQuestions(),
		changed: make(chan struct{}, 1), over: make(chan struct{}), servers: make(map[access.Principal]*served),
		watches: make(map[watched]map[*mcp.ServerSession]bool),
	}
	quiet := slog.New(slog.DiscardHandler) // it says what clients send
	shared := mcp.StreamableHTTPOptions{
		MaxRequestBodyBytes: mostBody, SessionTimeout: sessionIdle, Logger: quiet, PropagateRequestCancellation: true,
		// Host and Origin are looked at before, for each listener as it needs.
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
func (f *Face) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	v := f.visitOf(r)
	body := bufio.NewReader(r.Body)
	if batched(body) {
		f.Refuse(w, r, reason.Errorf(reason.InvalidInput, "a request is one JSON-RPC message, and this is a batch").
			WithRemedy("Send the messages one by one; batches are not part of the revisions from 2025-06-18 on."))
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
	// A session has its revision. What a request in it says is looked at unless it is
	// what the specification has a server assume where nothing is said.
	if r.Header.Get(sessionHeader) != "" && r.Header.Get(versionHeader) == assumed {
		r.Header.Del(versionHeader)
	}
	if r.Header.Get(versionHeader) >= stateless {
		f.stateless.ServeHTTP(w, r)
		return
	}
	if r.Method == http.MethodPost && r.Header.Get(sessionHeader) == "" && f.sessions(v.caller.Principal) >= mostSessions {
		f.Refuse(w, r, reason.Errorf(reason.RateLimited, "%s has %d MCP sessions open", v.caller.Principal, mostSessions).
			WithRemedy("End some, or wait: one of which nothing is heard ends after %s.", sessionIdle))
		return
	}
	f.stateful.ServeHTTP(w, r)
	if r.Method == http.MethodDelete {
		f.ended(r.Context(), v, r.Header.Get(sessionHeader))
	}
}

// untilOver ends a request that only listens when the gateway stops, so that it does
// not hold the stop up.
func (f *Face) untilOver(r *http.Request) (_ *http.Request, done func()) {
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

// ended ends what stands for the session that a client ended.
func (f *Face) ended(ctx context.Context, v *visit, id string) {
	session := call.SessionID(v.caller, sessionName(id))
	if err := f.EndSession(context.WithoutCancel(ctx), session); err != nil {
		f.Log.WarnContext(ctx, "ending an MCP session", slog.String("principal", v.caller.Principal.String()), slog.String("error", err.Error()))
	}
}

// batched reports whether a body is an array, without reading on.
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
	return true // that much white space is no message
}

type readCloser struct {
	io.Reader
	io.Closer
}

// serverOf is what serves the sender of a request. The library calls it several times.
func (f *Face) serverOf(r *http.Request) *mcp.Server {
	v := visitIn(auth.TokenInfoFromContext(r.Context()))
	if v == nil {
		return nil
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	s, ok := f.servers[v.caller.Principal]
	if !ok {
		s = &served{Server: f.newServer(), levels: make(map[string]string)}
		tools := f.list(v)
		s.listed = f.listed(v, tools)
		s.mark(tools)
		f.servers[v.caller.Principal] = s
	}
	s.caller = v.caller
	return s.Server
}

func (f *Face) newServer() *mcp.Server {
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
	f.addTaskMethods(s)
	s.AddReceivingMiddleware(f.receive)
	return s
}

// instructions are what a model reads of the gateway beside its tools.
const instructions = `Palyra decides each call by policy, asks a person where policy says so, and runs it in a sandbox.
A call that is denied says why and what to do next; do not try to reach the same by another way.
A call that answers STILL_WAITING waits for a person: make the very same call again, and it goes on where it was.`

// receive answers what is the gateway's own, and leaves the protocol to the library.
func (f *Face) receive(next mcp.MethodHandler) mcp.MethodHandler {
	return func(ctx context.Context, method string, req mcp.Request) (mcp.Result, error) {
		var v *visit
		if extra := req.GetExtra(); extra != nil {
			v = visitIn(extra.TokenInfo)
		}
		if v == nil {
			return nil, reason.Errorf(reason.Unauthenticated, "the message comes from nobody")
		}
		session, _ := req.GetSession().(*mcp.ServerSession)
		switch p := req.GetParams().(type) {
		case *mcp.ListToolsParams:
			return f.list(v), nil
		case *mcp.ListPromptsParams:
			return f.listPrompts(v), nil
		case *mcp.ListResourceTemplatesParams:
			return f.listTemplates(v), nil
		case *mcp.ListResourcesParams:
			return f.listResources(ctx, v, session, p)
		case *mcp.CompleteParams:
			return f.complete(ctx, v, session, p)
		case *mcp.SetLoggingLevelParams:
			f.setLevel(v, session, p)
		case *mcp.CallToolParamsRaw, *mcp.GetPromptParams, *mcp.ReadResourceParams:
			defer v.answered.Store(true)
			return f.callBehind(ctx, v, req)
		}
		return next(withVisit(ctx, v), method, req)
	}
}

// callBehind answers the methods with a call behind them that may take long.
func (f *Face) callBehind(ctx context.Context, v *visit, req mcp.Request) (mcp.Result, error) {
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
	return nil, reason.Errorf(reason.Internal, "no call is behind the method")
}

// setLevel keeps the level of logs of a session. Those of sessions that are gone are
// forgotten.
func (f *Face) setLevel(v *visit, session *mcp.ServerSession, p *mcp.SetLoggingLevelParams) {
	if session == nil || p == nil {
		return
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	s := f.servers[v.caller.Principal]
	if s == nil {
		return
	}
	there := map[string]bool{}
	for one := range s.Sessions() {
		there[one.ID()] = true
	}
	maps.DeleteFunc(s.levels, func(id, _ string) bool { return !there[id] })
	s.levels[session.ID()] = string(p.Level)
}

// sessions counts those of a principal.
func (f *Face) sessions(p access.Principal) int {
	f.mu.Lock()
	s := f.servers[p]
	f.mu.Unlock()
	if s == nil {
		return 0
	}
	n := 0
	for range s.Sessions() {
		n++
	}
	return n
}

// Changed says that policy or the tools changed.
func (f *Face) Changed() {
	select {
	case f.changed <- struct{}{}:
	default:
	}
}

// Run tells clients when their tools change, until ctx ends. Tasks that go on then end.
func (f *Face) Run(ctx context.Context) error {
	defer f.tasks.end()
	defer close(f.over)
	var nameless map[string]string
	for {
		nameless = f.tellNameless(ctx, nameless)
		select {
		case <-ctx.Done():
			return nil
		case <-f.changed:
			f.unsubscribed(ctx, f.tellChanges())
		}
	}
}

// tellNameless logs the tools that have no name on the wire, unless it did before.
func (f *Face) tellNameless(ctx context.Context, told map[string]string) map[string]string {
	now := f.names().Refused()
	for tool, other := range now {
		if _, known := told[tool]; !known {
			f.Log.WarnContext(ctx, "MCP clients are not shown a tool, because another would have the same name", slog.String("tool", tool), slog.String("note", other))
		}
	}
	return now
}

// listed are the digests of what a client lists that does not take a call.
func (f *Face) listed(v *visit, tools *mcp.ListToolsResult) [resourcesChanged + 1]string {
	return [...]string{
		toolsChanged: digestOf(tools.Tools), promptsChanged: digestOf(f.listPrompts(v).Prompts), resourcesChanged: digestOf(f.listTemplates(v).ResourceTemplates),
	}
}

// tellChanges tells the sessions of those whose lists are others than before.
func (f *Face) tellChanges() (ended []watched) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, s := range f.servers {
		v := &visit{caller: s.caller}
		ended = append(ended, f.unwatchForbidden(v)...)
		tools := f.list(v)
		s.mark(tools)
		now := f.listed(v, tools)
		if now == s.listed || !some(s.Sessions()) {
			continue
		}
		for what, was := range s.listed {
			if now[what] != was {
				s.tell(what)
			}
		}
		s.listed = now
	}
	return ended
}

func some[T any](seq iter.Seq[T]) bool {
	for range seq {
		return true
	}
	return false
}
