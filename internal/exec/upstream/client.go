package upstream

import (
	"context"
	"errors"
	"log/slog"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"palyra/internal/core/tool"
	"palyra/internal/exec/upstream/declared"
)

// client returns the MCP client for a server. Servers of older revisions receive the client
// capabilities once, at initialization, and get an error for a capability that the client of a
// call did not declare. Servers of newer revisions receive the capabilities with each call (see
// capabilitiesOf).
func (st *starter) client(in *instance) *mcp.Client {
	c := mcp.NewClient(&mcp.Implementation{Name: "palyra", Version: st.use.Version}, &mcp.ClientOptions{
		Capabilities: &mcp.ClientCapabilities{
			Elicitation: &mcp.ElicitationCapabilities{Form: &mcp.FormElicitationCapabilities{}, URL: &mcp.URLElicitationCapabilities{}},
			Sampling:    &mcp.SamplingCapabilities{}, RootsV2: &mcp.RootCapabilities{},
		},
		// The library calls only this request handler, for errors that require opening a URL.
		ElicitationHandler: func(ctx context.Context, r *mcp.ElicitRequest) (*mcp.ElicitResult, error) {
			answer, err := st.asker.asked(ctx, in, r.Params)
			elicited, _ := answer.(*mcp.ElicitResult)
			return elicited, err
		},
		ToolListChangedHandler:     func(context.Context, *mcp.ToolListChangedRequest) { st.watchers.toolsChanged(in) },
		PromptListChangedHandler:   func(context.Context, *mcp.PromptListChangedRequest) { st.watchers.promptsChanged(in) },
		ResourceListChangedHandler: func(context.Context, *mcp.ResourceListChangedRequest) { st.watchers.resourcesChanged(in) },
		ResourceUpdatedHandler:     st.watchers.resourceUpdated(in),
		MultiRoundTrip:             &mcp.MultiRoundTripOptions{Disabled: true},
		Logger:                     slog.New(slog.DiscardHandler),
	})
	c.AddReceivingMiddleware(func(next mcp.MethodHandler) mcp.MethodHandler {
		return func(ctx context.Context, method string, req mcp.Request) (mcp.Result, error) {
			switch p := req.GetParams().(type) {
			case *mcp.SubscriptionsAcknowledgedParams:
				in.watching.took(p.Notifications.ResourceSubscriptions)
			case mcp.InputRequest:
				answer, err := st.asker.asked(ctx, in, p)
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

// uncached disables the read caches of the library. An instance may serve several principals, so
// each call must reach the server.
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

// capabilitiesOf returns the capabilities of the client of a call, for servers that receive them
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

// look fetches all definitions of a server. meta lists the _meta keys that the server declares.
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
	err := pages(ctx, seen, "tools", func(cursor string) (list []*mcp.Tool, next string, err error) {
		r, err := s.ListTools(ctx, &mcp.ListToolsParams{Cursor: cursor})
		if err != nil {
			return nil, "", err
		}
		return r.Tools, r.NextCursor, nil
	}, seen.tool)
	if err == nil && seen.Prompts {
		err = pages(ctx, seen, "prompts", func(cursor string) (list []*mcp.Prompt, next string, err error) {
			r, err := s.ListPrompts(ctx, &mcp.ListPromptsParams{Cursor: cursor})
			if err != nil {
				return nil, "", err
			}
			return r.Prompts, r.NextCursor, nil
		}, func(p *mcp.Prompt) {
			bare := *p
			bare.Meta, bare.Icons = nil, nil
			seen.add(declared.KindPrompt, p.Name, bare)
		})
	}
	if err == nil && seen.Resources {
		err = pages(ctx, seen, "resource templates", func(cursor string) (list []*mcp.ResourceTemplate, next string, err error) {
			r, err := s.ListResourceTemplates(ctx, &mcp.ListResourceTemplatesParams{Cursor: cursor})
			if err != nil {
				return nil, "", err
			}
			return r.ResourceTemplates, r.NextCursor, nil
		}, func(t *mcp.ResourceTemplate) {
			bare := *t
			bare.Meta, bare.Icons = nil, nil
			seen.add(declared.KindTemplate, t.URITemplate, bare)
		})
	}
	return seen.done(), err
}

// mostPages is the maximum number of pages of one list.
const mostPages = 512

// pages reads a list of the server up to the limits. A server without such a list has no entries.
// An unreadable later page ends the list, and the earlier pages are kept. pages returns the error
// if the first page is unreadable, or if the context or the session has ended.
func pages[T any](ctx context.Context, seen *sighting, of string, page func(cursor string) (list []*T, next string, err error), take func(*T)) error {
	cursor, cursors := "", map[string]bool{}
	for n := 1; ; n++ {
		list, next, err := page(cursor)
		var fault *jsonrpc.Error
		switch {
		case n == 1 && errors.As(err, &fault) && fault.Code == jsonrpc.CodeMethodNotFound:
			return nil
		case err != nil && (n == 1 || ctx.Err() != nil || errors.Is(err, mcp.ErrConnectionClosed)):
			return err
		case err != nil:
			seen.cut(of, n, pageFault(err))
			return nil
		}
		for _, one := range list {
			switch {
			case seen.full():
				seen.leave("the rest", "a server has at most %d definitions", mostDefinitions)
				return nil
			case one != nil:
				take(one)
			}
		}
		if cursors[next] || n == mostPages {
			seen.cut(of, n+1, "the list repeats a page or does not end")
			return nil
		}
		if next == "" {
			return nil
		}
		cursors[next], cursor = true, next
	}
}

// pageFault returns the reason why a page is not accepted. It quotes the server's error message
// if there is one.
func pageFault(err error) string {
	var fault *jsonrpc.Error
	if errors.As(err, &fault) {
		return "the server refused it: " + fault.Message
	}
	return "its content does not follow the protocol"
}
