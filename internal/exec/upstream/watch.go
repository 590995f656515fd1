package upstream

import (
	"context"
	"slices"
	"sync"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"palyra/internal/core/access"
	"palyra/internal/core/canonical"
	"palyra/internal/core/reason"
	"palyra/internal/core/tool"
)

// Watcher is who watches resources for clients (mcp/mcp.Face). An owner that is zero
// is everybody: the instance is shared.
type Watcher interface {
	// ResourceUpdated says that a resource changed, and the others that a list may have.
	ResourceUpdated(server string, owner access.Principal, uri string)
	ResourcesChanged(server string, owner access.Principal)
	ToolsChanged(server string, owner access.Principal)
	PromptsChanged(server string, owner access.Principal)
	// Watches reports whether a client watches a resource, or any of the server's for
	// "".
	Watches(server string, owner access.Principal, uri string) bool
}

// Watch has a watcher hear of resources.
func (m *Manager) Watch(w Watcher) { m.watcher = w }

// mostWatched is how many resources of one instance are watched.
const mostWatched = 64

// watching is what of an instance's resources is watched.
type watching struct {
	mu sync.Mutex
	// uris are those that are, each with what says that the server took it.
	uris map[string]chan struct{}
	// session is a session of its own for servers over HTTP of the older revisions,
	// whose stream between calls may end without ending that of calls.
	session *mcp.ClientSession
}

// watched reports whether a client wants an instance to go on.
func (m *Manager) watched(in *instance) bool {
	in.watching.mu.Lock()
	some := len(in.watching.uris) > 0
	in.watching.mu.Unlock()
	return some && m.watcher != nil && m.watcher.Watches(in.server.Name, in.owner, "")
}

func (m *Manager) resourcesChanged(in *instance) {
	if m.watcher != nil {
		m.watcher.ResourcesChanged(in.server.Name, in.owner)
	}
	m.lookAgain(in.server.Name)
}

func (m *Manager) toolsChanged(in *instance) {
	m.lookAgain(in.server.Name)
	if m.watcher != nil {
		m.watcher.ToolsChanged(in.server.Name, in.owner)
	}
}

func (m *Manager) promptsChanged(in *instance) {
	m.lookAgain(in.server.Name)
	if m.watcher != nil {
		m.watcher.PromptsChanged(in.server.Name, in.owner)
	}
}

func (m *Manager) resourceUpdated(in *instance) func(context.Context, *mcp.ResourceUpdatedNotificationRequest) {
	return func(_ context.Context, r *mcp.ResourceUpdatedNotificationRequest) {
		in.watching.mu.Lock()
		_, is := in.watching.uris[r.Params.URI]
		in.watching.mu.Unlock()
		if is && m.watcher != nil {
			m.watcher.ResourceUpdated(in.server.Name, in.owner, r.Params.URI)
		}
	}
}

// subscribe is the call of <server>/mcp.subscribe.
func subscribe(ctx context.Context, s sending) (got, error) {
	var p mcp.SubscribeParams
	if err := canonical.Read(s.input, &p); err != nil {
		return got{}, err
	}
	return got{result: map[string]any{}}, s.in.watch(ctx, p.URI)
}

// watch subscribes to a resource, unless the instance has.
func (in *instance) watch(ctx context.Context, uri string) error {
	session, err := in.watchBy(ctx)
	if err != nil {
		return err
	}
	w := &in.watching
	w.mu.Lock()
	if _, is := w.uris[uri]; is {
		w.mu.Unlock()
		return nil
	}
	if len(w.uris) >= mostWatched {
		w.mu.Unlock()
		return reason.Errorf(reason.QuotaExceeded, "%d resources of the upstream server %s are watched, which is the most", mostWatched, in.server.Name).WithRemedy("Unsubscribe from some.")
	}
	if w.uris == nil {
		w.uris = map[string]chan struct{}{}
	}
	taken := make(chan struct{})
	w.uris[uri] = taken
	w.mu.Unlock()
	if err := session.Subscribe(ctx, &mcp.SubscribeParams{URI: uri}); err != nil {
		in.forget(uri)
		return err
	}
	if !in.sessionless() { // the newer revisions say so on the stream that began
		in.took([]string{uri})
	}
	late := time.NewTimer(lookTime)
	defer late.Stop()
	select {
	case <-taken:
		return nil
	case <-late.C:
		err = reason.Errorf(reason.ToolFailed, "the upstream server %s does not tell of changes of the resource", in.server.Name)
	case <-ctx.Done():
		err = context.Cause(ctx)
	}
	in.forget(uri)
	_ = session.Unsubscribe(context.WithoutCancel(ctx), &mcp.UnsubscribeParams{URI: uri}) // it may have none
	return err
}

// took notes that the server tells of changes of resources.
func (in *instance) took(uris []string) {
	in.watching.mu.Lock()
	defer in.watching.mu.Unlock()
	for _, uri := range uris {
		if taken := in.watching.uris[uri]; taken != nil {
			close(taken)
			in.watching.uris[uri] = nil
		}
	}
}

func (in *instance) forget(uri string) {
	in.watching.mu.Lock()
	defer in.watching.mu.Unlock()
	delete(in.watching.uris, uri)
}

// watchBy is the session by which resources are watched.
func (in *instance) watchBy(ctx context.Context) (*mcp.ClientSession, error) {
	if in.listen == nil || in.sessionless() {
		return in.session, nil
	}
	in.watching.mu.Lock()
	defer in.watching.mu.Unlock()
	if in.watching.session == nil {
		session, err := in.listen(ctx)
		if err != nil {
			return nil, err
		}
		in.watching.session = session
	}
	return in.watching.session, nil
}

// endWatching ends what is only there to watch.
func (in *instance) endWatching() {
	in.watching.mu.Lock()
	session := in.watching.session
	in.watching.session, in.watching.uris = nil, nil
	in.watching.mu.Unlock()
	if session != nil {
		_ = session.Close()
	}
}

// Unsubscribe ends the watching of a resource for a principal, unless another client of
// the same instance watches it.
func (m *Manager) Unsubscribe(ctx context.Context, server string, owner access.Principal, uri string) error {
	k, err := m.find(server)
	if err != nil {
		return err
	}
	if k.Server.Shared {
		owner = access.Principal{}
	}
	if m.watcher != nil && m.watcher.Watches(server, owner, uri) {
		return nil
	}
	m.mu.Lock()
	s := m.slots[slotKey{server, owner}]
	m.mu.Unlock()
	if s == nil {
		return nil
	}
	in := s.current.Load()
	if in == nil || !in.watches(uri) {
		return nil
	}
	ctx, end := tool.Isolate(ctx) // that of a client has the values of its session
	defer end()
	session, err := in.watchBy(ctx)
	if err != nil {
		return err
	}
	in.forget(uri)
	return session.Unsubscribe(ctx, &mcp.UnsubscribeParams{URI: uri})
}

func (in *instance) watches(uri string) bool {
	in.watching.mu.Lock()
	defer in.watching.mu.Unlock()
	_, is := in.watching.uris[uri]
	return is
}

// levels are those of logs, the least first.
var levels = []string{"debug", "info", "notice", "warning", "error", "critical", "alert", "emergency"}

// logFrom has a server of the older revisions log from a level on that the client of a
// call wants, if that is more than it does. What is too much for others is left out
// where it is passed on.
func (in *instance) logFrom(ctx context.Context, level string) {
	at := slices.Index(levels, level)
	r := in.session.InitializeResult()
	if at < 0 || in.sessionless() || r == nil || r.Capabilities == nil || r.Capabilities.Logging == nil {
		return
	}
	in.mu.Lock()
	more := in.logs == "" || at < slices.Index(levels, in.logs)
	if more {
		in.logs = level
	}
	in.mu.Unlock()
	if more {
		// A server that takes no level logs as it likes.
		_ = in.session.SetLoggingLevel(ctx, &mcp.SetLoggingLevelParams{Level: mcp.LoggingLevel(level)})
	}
}
