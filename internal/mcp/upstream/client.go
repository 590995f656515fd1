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

// client is the gateway as a server sees it. It offers neither roots nor sampling: a
// server gets no model and no directories but those that an operator gave it.
func (m *Manager) client(in *instance) *mcp.Client {
	return mcp.NewClient(&mcp.Implementation{Name: "palyra", Version: m.use.Version}, &mcp.ClientOptions{
		Capabilities: &mcp.ClientCapabilities{Elicitation: &mcp.ElicitationCapabilities{Form: &mcp.FormElicitationCapabilities{}, URL: &mcp.URLElicitationCapabilities{}}},
		ElicitationHandler: func(ctx context.Context, r *mcp.ElicitRequest) (*mcp.ElicitResult, error) {
			return m.elicited(ctx, in, r.Params)
		},
		ToolListChangedHandler:      func(context.Context, *mcp.ToolListChangedRequest) { m.lookAgain(in.server.Name) },
		PromptListChangedHandler:    func(context.Context, *mcp.PromptListChangedRequest) { m.lookAgain(in.server.Name) },
		ProgressNotificationHandler: in.progressed,
		Logger:                      slog.New(slog.DiscardHandler),
	})
}

// progressed passes progress on to the call that it is of. Progress of no call, or of
// another, goes nowhere.
func (in *instance) progressed(_ context.Context, r *mcp.ProgressNotificationClientRequest) {
	token, ok := r.Params.ProgressToken.(string)
	if !ok {
		return
	}
	in.mu.Lock()
	call := in.calls[token]
	in.mu.Unlock()
	if call != nil && call.call.Peer.Progress != nil {
		call.call.Peer.Progress(tool.Progress{Done: r.Params.Progress, Total: r.Params.Total, Message: clean(r.Params.Message, 1000)})
	}
}

// look asks a server for everything that it says about itself.
func look(ctx context.Context, s *mcp.ClientSession) (declared.Sight, error) {
	seen := newSighting()
	if started := s.InitializeResult(); started != nil {
		seen.Protocol = clean(started.ProtocolVersion, 40)
		if started.ServerInfo != nil {
			seen.Implementation = clean(started.ServerInfo.Name+" "+started.ServerInfo.Version, 200)
		}
		if started.Instructions != "" {
			seen.add(declared.KindInstructions, "", started.Instructions)
		}
		if c := started.Capabilities; c != nil {
			seen.Resources, seen.Prompts = c.Resources != nil, c.Prompts != nil
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
