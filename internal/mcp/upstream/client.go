package upstream

import (
	"context"
	"errors"
	"iter"
	"log/slog"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"palyra/internal/mcp/declared"
	"palyra/internal/tool"
)

// client is the gateway as a server sees it. Servers of the older revisions are told
// once what it takes, and get an error for what the client of a call did not declare;
// those of the newer ones are told with each call (capabilitiesOf).
func (m *Manager) client(in *instance) *mcp.Client {
	c := mcp.NewClient(&mcp.Implementation{Name: "palyra", Version: m.use.Version}, &mcp.ClientOptions{
		Capabilities: &mcp.ClientCapabilities{
			Elicitation: &mcp.ElicitationCapabilities{Form: &mcp.FormElicitationCapabilities{}, URL: &mcp.URLElicitationCapabilities{}},
			Sampling:    &mcp.SamplingCapabilities{}, RootsV2: &mcp.RootCapabilities{},
		},
		// Of the library's own handlers this one alone is asked, for errors that want a
		// URL to be opened.
		ElicitationHandler: func(ctx context.Context, r *mcp.ElicitRequest) (*mcp.ElicitResult, error) {
			answer, err := m.asked(ctx, in, r.Params)
			elicited, _ := answer.(*mcp.ElicitResult)
			return elicited, err
		},
		ToolListChangedHandler:     func(context.Context, *mcp.ToolListChangedRequest) { m.lookAgain(in.server.Name) },
		PromptListChangedHandler:   func(context.Context, *mcp.PromptListChangedRequest) { m.lookAgain(in.server.Name) },
		ResourceListChangedHandler: func(context.Context, *mcp.ResourceListChangedRequest) { m.resourcesChanged(in) },
		ResourceUpdatedHandler:     m.resourceUpdated(in),
		MultiRoundTrip:             &mcp.MultiRoundTripOptions{Disabled: true},
		Logger:                     slog.New(slog.DiscardHandler),
	})
	c.AddReceivingMiddleware(func(next mcp.MethodHandler) mcp.MethodHandler {
		return func(ctx context.Context, method string, req mcp.Request) (mcp.Result, error) {
			switch p := req.GetParams().(type) {
			case *mcp.SubscriptionsAcknowledgedParams:
				in.took(p.Notifications.ResourceSubscriptions)
			case mcp.InputRequest:
				answer, err := m.asked(ctx, in, p)
				if err != nil {
					return nil, err
				}
				result, is := answer.(mcp.Result)
				if !is {
					return nil, &jsonrpc.Error{Code: refusedCode, Message: "the request was refused"}
				}
				return result, nil
			}
			return next(ctx, method, req)
		}
	})
	c.AddSendingMiddleware(uncached)
	return c
}

// uncached has the library keep nothing of what is read: an instance may serve several
// principals, and each call has to be made.
func uncached(next mcp.MethodHandler) mcp.MethodHandler {
	return func(ctx context.Context, method string, req mcp.Request) (mcp.Result, error) {
		r, err := next(ctx, method, req)
		switch r := r.(type) {
		case *mcp.ReadResourceResult:
			r.Cacheable = mcp.Cacheable{}
		case *mcp.ListResourcesResult:
			r.Cacheable = mcp.Cacheable{}
		}
		return r, err
	}
}

// capabilitiesOf are the capabilities of the client of a call, for servers that are told
// with each call.
func capabilitiesOf(p tool.Peer) map[string]any {
	c := map[string]any{}
	if p.Ask == nil {
		return c
	}
	elicitation := map[string]any{}
	for mode, takes := range map[string]bool{"form": p.Takes.Form, "url": p.Takes.URL} {
		if takes {
			elicitation[mode] = map[string]any{}
			c["elicitation"] = elicitation
		}
	}
	if p.Takes.Sampling {
		sampling := map[string]any{}
		if p.Takes.SamplingTools {
			sampling["tools"] = map[string]any{}
		}
		c["sampling"] = sampling
	}
	if p.Takes.Roots {
		c["roots"] = map[string]any{}
	}
	return c
}

// look asks a server, which declares keys of _meta, for everything that it says about itself.
func look(ctx context.Context, s *mcp.ClientSession, meta []string) (declared.Sight, error) {
	seen := newSighting(meta)
	if started := s.InitializeResult(); started != nil {
		seen.Protocol = clean(started.ProtocolVersion, 40)
		if started.ServerInfo != nil {
			seen.Implementation = clean(started.ServerInfo.Name+" "+started.ServerInfo.Version, 200)
		}
		if started.Instructions != "" {
			seen.add(declared.KindInstructions, "", started.Instructions)
		}
		if c := started.Capabilities; c != nil {
			seen.Resources, seen.Prompts, seen.Completions, seen.Logs = c.Resources != nil, c.Prompts != nil, c.Completions != nil, c.Logging != nil
			seen.Subscriptions = c.Resources != nil && c.Resources.Subscribe
		}
	}
	err := each(seen, s.Tools(ctx, nil), seen.tool)
	if err == nil && seen.Prompts {
		err = each(seen, s.Prompts(ctx, nil), func(p *mcp.Prompt) {
			bare := *p
			bare.Meta, bare.Icons = nil, nil
			seen.add(declared.KindPrompt, p.Name, bare)
		})
	}
	if err == nil && seen.Resources {
		err = each(seen, s.ResourceTemplates(ctx, nil), func(t *mcp.ResourceTemplate) {
			bare := *t
			bare.Meta, bare.Icons = nil, nil
			seen.add(declared.KindTemplate, t.URITemplate, bare)
		})
	}
	return seen.done(), err
}

// each takes what a list has, up to the most that is taken. A server that has no such
// list has none.
func each[T any](seen *sighting, list iter.Seq2[*T, error], take func(*T)) error {
	for one, err := range list {
		var fault *jsonrpc.Error
		switch {
		case errors.As(err, &fault) && fault.Code == jsonrpc.CodeMethodNotFound:
			return nil
		case err != nil:
			return err
		case seen.full():
			seen.leave("the rest", "a server has at most %d definitions", mostDefinitions)
			return nil
		}
		take(one)
	}
	return nil
}
