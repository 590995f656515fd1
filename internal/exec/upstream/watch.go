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

// Watcher tracks the resource subscriptions of clients (mcp.Server). A zero owner means all
// principals: the instance is shared.
type Watcher interface {
	// ResourceUpdated reports a changed resource. The other methods report a changed list.
	ResourceUpdated(server string, owner access.Principal, uri string)
	ResourcesChanged(server string, owner access.Principal)
	ToolsChanged(server string, owner access.Principal)
	PromptsChanged(server string, owner access.Principal)
	// Watches reports whether a client watches a resource. With the uri "" it reports whether a
	// client watches any resource of the server.
	Watches(server string, owner access.Principal, uri string) bool
}

// Watch sets the watcher for resource changes.
func (m *Manager) Watch(w Watcher) { m.watchers.watcher = w }

// mostWatched is the maximum number of watched resources of one instance.
const mostWatched = 64

// watchers forwards the changes that servers announce.
type watchers struct {
	// watcher is notified of resource changes; nil for none.
	watcher Watcher
	catalog *catalog
}

// watching holds the watched resources of an instance.
type watching struct {
	mu sync.Mutex
	// uris are the watched URIs, each with a channel that is closed when the server confirmed the
	// subscription.
	uris map[string]chan struct{}
	// listen opens an additional session for notifications between calls. It is nil for servers
	// that are not reached over HTTP.
	listen func(context.Context) (*mcp.ClientSession, error)
	// session is a separate session for servers over HTTP of the older revisions. Its stream
	// between calls may end without ending the streams of calls.
	session *mcp.ClientSession
}

// watched reports whether a client's subscription keeps an instance alive.
func (wt *watchers) watched(in *instance) bool {
	return in.watching.any() && wt.watcher != nil && wt.watcher.Watches(in.server.Name, in.owner, "")
}

func (wt *watchers) resourcesChanged(in *instance) {
	if wt.watcher != nil {
		wt.watcher.ResourcesChanged(in.server.Name, in.owner)
	}
	wt.catalog.lookAgain(in.server.Name)
}

func (wt *watchers) toolsChanged(in *instance) {
	wt.catalog.lookAgain(in.server.Name)
	if wt.watcher != nil {
		wt.watcher.ToolsChanged(in.server.Name, in.owner)
	}
}

func (wt *watchers) promptsChanged(in *instance) {
	wt.catalog.lookAgain(in.server.Name)
	if wt.watcher != nil {
		wt.watcher.PromptsChanged(in.server.Name, in.owner)
	}
}

func (wt *watchers) resourceUpdated(in *instance) func(context.Context, *mcp.ResourceUpdatedNotificationRequest) {
	return func(_ context.Context, r *mcp.ResourceUpdatedNotificationRequest) {
		if in.watching.has(r.Params.URI) && wt.watcher != nil {
			wt.watcher.ResourceUpdated(in.server.Name, in.owner, r.Params.URI)
		}
	}
}

// subscribe makes a call of <server>/mcp.subscribe.
func subscribe(ctx context.Context, s sending) (got, error) {
	var p mcp.SubscribeParams
	if err := canonical.Read(s.input, &p); err != nil {
		return got{}, err
	}
	return got{result: map[string]any{}}, s.in.watching.add(ctx, s.in.session, s.in.server.Name, p.URI)
}

// add subscribes the instance with session main to a resource, unless it is subscribed already.
func (w *watching) add(ctx context.Context, main *mcp.ClientSession, server, uri string) error {
	session, err := w.by(ctx, main)
	if err != nil {
		return err
	}
	w.mu.Lock()
	if _, is := w.uris[uri]; is {
		w.mu.Unlock()
		return nil
	}
	if len(w.uris) >= mostWatched {
		w.mu.Unlock()
		return reason.Errorf(reason.QuotaExceeded, "the limit of %d watched resources of the upstream server %s is reached", mostWatched, server).WithRemedy("Unsubscribe from a resource first.")
	}
	if w.uris == nil {
		w.uris = map[string]chan struct{}{}
	}
	taken := make(chan struct{})
	w.uris[uri] = taken
	w.mu.Unlock()
	if err := session.Subscribe(ctx, &mcp.SubscribeParams{URI: uri}); err != nil {
		w.forget(uri)
		return err
	}
	if !sessionless(main) { // the newer revisions confirm on the stream that began
		w.took([]string{uri})
	}
	late := time.NewTimer(lookTime)
	defer late.Stop()
	select {
	case <-taken:
		return nil
	case <-late.C:
		err = reason.Errorf(reason.ToolFailed, "the upstream server %s does not report changes of the resource", server)
	case <-ctx.Done():
		err = context.Cause(ctx)
	}
	w.forget(uri)
	_ = session.Unsubscribe(context.WithoutCancel(ctx), &mcp.UnsubscribeParams{URI: uri}) // the subscription may not exist
	return err
}

// took records that the server confirmed subscriptions.
func (w *watching) took(uris []string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, uri := range uris {
		if taken := w.uris[uri]; taken != nil {
			close(taken)
			w.uris[uri] = nil
		}
	}
}

func (w *watching) forget(uri string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	delete(w.uris, uri)
}

// by returns the session for subscriptions of the instance with session main.
func (w *watching) by(ctx context.Context, main *mcp.ClientSession) (*mcp.ClientSession, error) {
	if w.listen == nil || sessionless(main) {
		return main, nil
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.session == nil {
		session, err := w.listen(ctx)
		if err != nil {
			return nil, err
		}
		w.session = session
	}
	return w.session, nil
}

// end ends the sessions that exist only for subscriptions.
func (w *watching) end() {
	w.mu.Lock()
	session := w.session
	w.session, w.uris = nil, nil
	w.mu.Unlock()
	if session != nil {
		_ = session.Close()
	}
}

// Unsubscribe ends the subscription of a principal, unless another client of the same instance
// watches the resource.
func (m *Manager) Unsubscribe(ctx context.Context, server string, owner access.Principal, uri string) error {
	k, err := m.catalog.find(server)
	if err != nil {
		return err
	}
	if k.Server.Shared {
		owner = access.Principal{}
	}
	if m.watchers.watcher != nil && m.watchers.watcher.Watches(server, owner, uri) {
		return nil
	}
	in := m.Pool.current(slotKey{server, owner})
	if in == nil || !in.watching.has(uri) {
		return nil
	}
	ctx, end := tool.Isolate(ctx) // the client's context carries the values of its session
	defer end()
	session, err := in.watching.by(ctx, in.session)
	if err != nil {
		return err
	}
	in.watching.forget(uri)
	return session.Unsubscribe(ctx, &mcp.UnsubscribeParams{URI: uri})
}

func (w *watching) has(uri string) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	_, is := w.uris[uri]
	return is
}

func (w *watching) any() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return len(w.uris) > 0
}

// levels are the log levels, the least severe first.
var levels = []string{"debug", "info", "notice", "warning", "error", "critical", "alert", "emergency"}

// logFrom sets the log level of a server of an older revision to the level that the client of a
// call requested, if that is more verbose than the current one. Lines below the level of another
// client are dropped when they are forwarded.
func (in *instance) logFrom(ctx context.Context, level string) {
	at := slices.Index(levels, level)
	r := in.session.InitializeResult()
	if at < 0 || sessionless(in.session) || r == nil || r.Capabilities == nil || r.Capabilities.Logging == nil {
		return
	}
	in.mu.Lock()
	more := in.logs == "" || at < slices.Index(levels, in.logs)
	if more {
		in.logs = level
	}
	in.mu.Unlock()
	if more {
		// A server without a settable level keeps its default.
		_ = in.session.SetLoggingLevel(ctx, &mcp.SetLoggingLevelParams{Level: mcp.LoggingLevel(level)})
	}
}
