package mcp

import (
	"context"
	"log/slog"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"palyra/internal/call"
	"palyra/internal/core/reason"
	"palyra/internal/core/tool"
	declaration "palyra/internal/exec/upstream/declared"
	"palyra/internal/surface/resume"
)

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
	if !ok || !f.catalog.usableTools(v)[server+"/"+declaration.Subscribe] {
		return unknownResource(r.Params.URI, q.client.sessionless)
	}
	key := watched{v.caller.Principal, server, uri}
	if !f.Clients.watch(key, r.Session) {
		return errorOf(q.failed(reason.Errorf(reason.QuotaExceeded, "the principal is subscribed to %d resources", mostWatches).WithRemedy("Unsubscribe from some.")))
	}
	q.sub = call.Submission{
		Caller: v.caller, Tool: server + "/" + declaration.Subscribe, Input: inputOfURI(uri), Session: sessionName(r.Session.ID()),
	}
	stay := resume.Stay{Limit: limitOf(v, q.client.name, f.Limits), Gone: v.gone}
	out, err := f.Calls.CallFor(ctx, q.sub, stay, func(call.Event) {})
	if err == nil && out.Decision.Allowed && out.Report.Outcome == tool.Succeeded {
		return nil
	}
	f.Clients.unwatch(key, r.Session)
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
	if key := (watched{v.caller.Principal, server, uri}); f.Clients.unwatch(key, r.Session) {
		f.unsubscribed(ctx, []watched{key})
	}
	return nil
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
