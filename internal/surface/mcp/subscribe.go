package mcp

import (
	"context"
	"log/slog"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"palyra/internal/call"
	"palyra/internal/core/access"
	"palyra/internal/core/reason"
	"palyra/internal/core/tool"
	declaration "palyra/internal/exec/upstream/declared"
	"palyra/internal/surface/resume"
)

// watched is a resource that sessions of a principal subscribe to.
type watched struct {
	principal   access.Principal
	server, uri string
}

// mostWatches bounds the subscribed resources of a principal's sessions.
const mostWatches = 256

// subscribe subscribes a session to a resource by a call of <server>/mcp.subscribe. The library
// stores the subscribed sessions; Server stores for which principals the server is subscribed.
func (f *Server) subscribe(ctx context.Context, r *mcp.SubscribeRequest) error {
	v := visitFrom(ctx)
	if v == nil || r.Params == nil {
		return reason.Errorf(reason.Unauthenticated, "the message has no authenticated caller")
	}
	q := &request{httpRequest: v, face: f, session: r.Session, client: declaredBy(r.Session), uri: r.Params.URI}
	server, uri, ok := ownURI(r.Params.URI)
	if !ok || !f.usableTools(v)[server+"/"+declaration.Subscribe] {
		return unknownResource(r.Params.URI, q.client.sessionless)
	}
	key := watched{v.caller.Principal, server, uri}
	if !f.watch(key, r.Session) {
		return errorOf(q.failed(reason.Errorf(reason.QuotaExceeded, "the principal is subscribed to %d resources", mostWatches).WithRemedy("Unsubscribe from some.")))
	}
	q.sub = call.Submission{
		Caller: v.caller, Tool: server + "/" + declaration.Subscribe, Input: inputOfURI(uri), Session: sessionName(r.Session.ID()),
	}
	stay := resume.Stay{Limit: f.limitOf(v, q.client.name), Gone: v.gone}
	out, err := f.Calls.CallFor(ctx, q.sub, stay, func(call.Event) {})
	if err == nil && out.Decision.Allowed && out.Report.Outcome == tool.Succeeded {
		return nil
	}
	f.unwatch(key, r.Session)
	if err != nil {
		return errorOf(q.failed(err))
	}
	if err := faultIn(out.Report, q.uri); err != nil {
		return err
	}
	return errorOf(resultOf(q.sub.Tool, out))
}

// unsubscribe ends a subscription. It needs no permission.
func (f *Server) unsubscribe(ctx context.Context, r *mcp.UnsubscribeRequest) error {
	v := visitFrom(ctx)
	if v == nil || r.Params == nil {
		return reason.Errorf(reason.Unauthenticated, "the message has no authenticated caller")
	}
	server, uri, ok := ownURI(r.Params.URI)
	if !ok {
		return unknownResource(r.Params.URI, declaredBy(r.Session).sessionless)
	}
	if key := (watched{v.caller.Principal, server, uri}); f.unwatch(key, r.Session) {
		f.unsubscribed(ctx, []watched{key})
	}
	return nil
}

func (f *Server) watch(key watched, session *mcp.ServerSession) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.watches[key] == nil {
		n := 0
		for other := range f.watches {
			if other.principal == key.principal && f.liveLocked(other) {
				n++
			}
		}
		if n >= mostWatches {
			return false
		}
		f.watches[key] = map[*mcp.ServerSession]bool{}
	}
	f.watches[key][session] = true
	return true
}

// unwatch reports whether the session was subscribed to the resource.
func (f *Server) unwatch(key watched, session *mcp.ServerSession) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	was := f.watches[key][session]
	if delete(f.watches[key], session); len(f.watches[key]) == 0 {
		delete(f.watches, key)
	}
	return was
}

// liveLocked reports whether a subscribed session still exists, and drops closed sessions. The
// caller holds mu.
func (f *Server) liveLocked(key watched) bool {
	there := map[*mcp.ServerSession]bool{}
	if s := f.servers[key.principal]; s != nil {
		for session := range s.Sessions() {
			there[session] = true
		}
	}
	for session := range f.watches[key] {
		if !there[session] {
			delete(f.watches[key], session)
		}
	}
	if len(f.watches[key]) == 0 {
		delete(f.watches, key)
		return false
	}
	return true
}

// Watches implements upstream.Watcher.
func (f *Server) Watches(server string, owner access.Principal, uri string) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	for key := range f.watches {
		if key.server == server && (owner.IsZero() || key.principal == owner) && (uri == "" || key.uri == uri) && f.liveLocked(key) {
			return true
		}
	}
	return false
}

// of returns the servers of the owner of an upstream instance.
func (f *Server) of(owner access.Principal) (list []*served) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for p, s := range f.servers {
		if owner.IsZero() || p == owner {
			list = append(list, s)
		}
	}
	return list
}

// ResourceUpdated implements upstream.Watcher. The library notifies the subscribed sessions whose
// principal still has the permission.
func (f *Server) ResourceUpdated(server string, owner access.Principal, uri string) {
	for _, s := range f.of(owner) {
		if !f.Watches(server, s.caller.Principal, uri) {
			continue
		}
		_ = s.ResourceUpdated(context.Background(), &mcp.ResourceUpdatedNotificationParams{URI: wireURI(server, uri)}) // a closed session receives nothing
	}
}

// unwatchForbidden removes the subscriptions that policy does not allow any more, and returns them.
// The caller holds mu.
func (f *Server) unwatchForbidden(v *httpRequest) (ended []watched) {
	mine := f.usableTools(v)
	for key := range f.watches {
		if key.principal == v.caller.Principal && !mine[key.server+"/"+declaration.Subscribe] {
			delete(f.watches, key)
			ended = append(ended, key)
		}
	}
	return ended
}

// unsubscribed ends the subscriptions at upstream servers.
func (f *Server) unsubscribed(ctx context.Context, ended []watched) {
	if f.Unsubscribe == nil {
		return
	}
	for _, key := range ended {
		// The context may have ended with the stream of the subscription.
		if err := f.Unsubscribe(context.WithoutCancel(ctx), key.server, key.principal, key.uri); err != nil {
			f.Log.InfoContext(ctx, "ending a subscription at an upstream server failed", slog.String("upstream", key.server), slog.String("error", err.Error()))
		}
	}
}

// ResourcesChanged implements upstream.Watcher.
func (f *Server) ResourcesChanged(_ string, owner access.Principal) {
	f.mayHaveChanged(owner, resourcesChanged)
}

// ToolsChanged implements upstream.Watcher. The gateway's list changes only when the server has
// been inspected again; until then its clients receive the same list.
func (f *Server) ToolsChanged(_ string, owner access.Principal) {
	f.mayHaveChanged(owner, toolsChanged)
}

// PromptsChanged implements upstream.Watcher.
func (f *Server) PromptsChanged(_ string, owner access.Principal) {
	f.mayHaveChanged(owner, promptsChanged)
}

// mayHaveChanged notifies the clients of an instance's owner of changed lists.
func (f *Server) mayHaveChanged(owner access.Principal, what int) {
	for _, s := range f.of(owner) {
		s.tell(what)
	}
}

// The kinds of lists.
const (
	toolsChanged = iota
	promptsChanged
	resourcesChanged
)

// tell makes the library notify the sessions that a list changed. The library sends the
// notification when an entry is added. The library's own lists are not used.
func (s *served) tell(what int) {
	switch what {
	case toolsChanged:
		s.AddTool(&mcp.Tool{Name: "changed", InputSchema: emptySchema}, nil)
	case promptsChanged:
		s.AddPrompt(&mcp.Prompt{Name: "changed"}, nil)
	case resourcesChanged:
		s.AddResource(&mcp.Resource{URI: uriScheme + "changed", Name: "changed"}, nil)
	}
}
