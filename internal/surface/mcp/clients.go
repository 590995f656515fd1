package mcp

import (
	"context"
	"iter"
	"maps"
	"sync"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"palyra/internal/core/access"
	declaration "palyra/internal/exec/upstream/declared"
)

// Clients are the MCP servers of principals, with their sessions and subscriptions. It implements
// upstream.Watcher.
type Clients struct {
	catalog *catalog

	mu sync.Mutex
	// servers has one server per principal, so that each is notified when its own tools change.
	servers map[access.Principal]*served
	// watches are the sessions that subscribe to resources.
	watches map[watched]map[*mcp.ServerSession]bool
}

// served is the server of one principal.
type served struct {
	*mcp.Server
	caller access.Caller
	// listed are the digests of the lists in the last notification.
	listed [resourcesChanged + 1]string
	// marks are the schemas of tools whose headers the library checks.
	marks map[string]string
	// levels are the log levels of sessions.
	levels map[string]string
}

// serverOf returns the server of a principal; build makes it at the first request.
func (cl *Clients) serverOf(v *httpRequest, build func() *mcp.Server) *mcp.Server {
	cl.mu.Lock()
	defer cl.mu.Unlock()
	s, ok := cl.servers[v.caller.Principal]
	if !ok {
		s = &served{Server: build(), levels: make(map[string]string)}
		tools := cl.catalog.list(v)
		s.listed = cl.catalog.listed(v, tools)
		s.mark(tools)
		cl.servers[v.caller.Principal] = s
	}
	s.caller = v.caller
	return s.Server
}

// setLevel sets the log level of a session, and drops the levels of closed sessions.
func (cl *Clients) setLevel(v *httpRequest, session *mcp.ServerSession, p *mcp.SetLoggingLevelParams) {
	if session == nil || p == nil {
		return
	}
	cl.mu.Lock()
	defer cl.mu.Unlock()
	s := cl.servers[v.caller.Principal]
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

// logLevel returns the lowest log level that the client requested, for its session or with the
// call.
func (cl *Clients) logLevel(q *request) string {
	if q.client.sessionless {
		level, _ := q.meta[mcp.MetaKeyLogLevel].(string)
		return level
	}
	cl.mu.Lock()
	defer cl.mu.Unlock()
	if s := cl.servers[q.caller.Principal]; s != nil {
		return s.levels[q.session.ID()]
	}
	return ""
}

// sessions counts the sessions of a principal.
func (cl *Clients) sessions(p access.Principal) int {
	cl.mu.Lock()
	s := cl.servers[p]
	cl.mu.Unlock()
	if s == nil {
		return 0
	}
	n := 0
	for range s.Sessions() {
		n++
	}
	return n
}

// tellChanges notifies the sessions whose lists changed.
func (cl *Clients) tellChanges() (ended []watched) {
	cl.mu.Lock()
	defer cl.mu.Unlock()
	for _, s := range cl.servers {
		v := &httpRequest{caller: s.caller}
		ended = append(ended, cl.unwatchForbidden(v)...)
		tools := cl.catalog.list(v)
		s.mark(tools)
		now := cl.catalog.listed(v, tools)
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

// watched is a resource that sessions of a principal subscribe to.
type watched struct {
	principal   access.Principal
	server, uri string
}

func (cl *Clients) watch(key watched, session *mcp.ServerSession) bool {
	cl.mu.Lock()
	defer cl.mu.Unlock()
	if cl.watches[key] == nil {
		n := 0
		for other := range cl.watches {
			if other.principal == key.principal && cl.liveLocked(other) {
				n++
			}
		}
		if n >= mostWatches {
			return false
		}
		cl.watches[key] = map[*mcp.ServerSession]bool{}
	}
	cl.watches[key][session] = true
	return true
}

// unwatch reports whether the session was subscribed to the resource.
func (cl *Clients) unwatch(key watched, session *mcp.ServerSession) bool {
	cl.mu.Lock()
	defer cl.mu.Unlock()
	was := cl.watches[key][session]
	if delete(cl.watches[key], session); len(cl.watches[key]) == 0 {
		delete(cl.watches, key)
	}
	return was
}

// liveLocked reports whether a subscribed session still exists, and drops closed sessions. The
// caller holds mu.
func (cl *Clients) liveLocked(key watched) bool {
	there := map[*mcp.ServerSession]bool{}
	if s := cl.servers[key.principal]; s != nil {
		for session := range s.Sessions() {
			there[session] = true
		}
	}
	for session := range cl.watches[key] {
		if !there[session] {
			delete(cl.watches[key], session)
		}
	}
	if len(cl.watches[key]) == 0 {
		delete(cl.watches, key)
		return false
	}
	return true
}

// Watches implements upstream.Watcher.
func (cl *Clients) Watches(server string, owner access.Principal, uri string) bool {
	cl.mu.Lock()
	defer cl.mu.Unlock()
	for key := range cl.watches {
		if key.server == server && (owner.IsZero() || key.principal == owner) && (uri == "" || key.uri == uri) && cl.liveLocked(key) {
			return true
		}
	}
	return false
}

// of returns the servers of the owner of an upstream instance.
func (cl *Clients) of(owner access.Principal) (list []*served) {
	cl.mu.Lock()
	defer cl.mu.Unlock()
	for p, s := range cl.servers {
		if owner.IsZero() || p == owner {
			list = append(list, s)
		}
	}
	return list
}

// ResourceUpdated implements upstream.Watcher. The library notifies the subscribed sessions whose
// principal still has the permission.
func (cl *Clients) ResourceUpdated(server string, owner access.Principal, uri string) {
	for _, s := range cl.of(owner) {
		if !cl.Watches(server, s.caller.Principal, uri) {
			continue
		}
		_ = s.ResourceUpdated(context.Background(), &mcp.ResourceUpdatedNotificationParams{URI: wireURI(server, uri)}) // a closed session receives nothing
	}
}

// unwatchForbidden removes the subscriptions that policy does not allow any more, and returns them.
// The caller holds mu.
func (cl *Clients) unwatchForbidden(v *httpRequest) (ended []watched) {
	mine := cl.catalog.usableTools(v)
	for key := range cl.watches {
		if key.principal == v.caller.Principal && !mine[key.server+"/"+declaration.Subscribe] {
			delete(cl.watches, key)
			ended = append(ended, key)
		}
	}
	return ended
}

// ResourcesChanged implements upstream.Watcher.
func (cl *Clients) ResourcesChanged(_ string, owner access.Principal) {
	cl.mayHaveChanged(owner, resourcesChanged)
}

// ToolsChanged implements upstream.Watcher. The gateway's list changes only when the server has
// been inspected again; until then its clients receive the same list.
func (cl *Clients) ToolsChanged(_ string, owner access.Principal) {
	cl.mayHaveChanged(owner, toolsChanged)
}

// PromptsChanged implements upstream.Watcher.
func (cl *Clients) PromptsChanged(_ string, owner access.Principal) {
	cl.mayHaveChanged(owner, promptsChanged)
}

// mayHaveChanged notifies the clients of an instance's owner of changed lists.
func (cl *Clients) mayHaveChanged(owner access.Principal, what int) {
	for _, s := range cl.of(owner) {
		s.tell(what)
	}
}
