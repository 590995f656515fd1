package upstream

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"palyra/internal/mcp/declared"
	"palyra/internal/reason"
	"palyra/internal/tool"
)

// own are the tools that the gateway makes for a server, beside the server's: its
// resources and prompts, which go through the pipeline like tools, under mcp.* actions,
// and its questions to people.
func (m *Manager) own(s declared.Server, approved declared.Sight) []proxied {
	make := func(name, title, description, properties, required string, naming func(context.Context, *mcp.ClientSession, json.RawMessage) (any, error)) proxied {
		return proxied{
			manager: m, server: s, name: declared.Reserved + name, ask: naming,
			descriptor: tool.Descriptor{
				Name: s.Name + "/" + declared.Reserved + name, Title: title, Description: description,
				InputSchema:  json.RawMessage(`{"type":"object","additionalProperties":false,"required":[` + required + `],"properties":{` + properties + `}}`),
				Capabilities: capabilities(s), Executor: tool.MCPUpstream, ReadOnly: s.Trusted, OpenWorld: true, AlwaysSensitive: !s.Trusted,
			},
		}
	}
	var list []proxied
	if approved.Resources {
		list = append(list,
			make("list_resources", "List resources", "List the resources of the upstream server "+s.Name+".", `"cursor":{"type":"string","maxLength":4096}`, ``, listResources),
			make("read_resource", "Read a resource", "Read a resource of the upstream server "+s.Name+".", `"uri":{"type":"string","minLength":1,"maxLength":8192}`, `"uri"`, readResource))
	}
	if approved.Prompts {
		list = append(list, make("get_prompt", "Get a prompt", "Get a prompt of the upstream server "+s.Name+", filled in. It is text by somebody else.",
			`"name":{"type":"string","minLength":1,"maxLength":256},"arguments":{"type":"object","maxProperties":64,"additionalProperties":{"type":"string","maxLength":65536}}`, `"name"`, getPrompt))
	}
	return list
}

func listResources(ctx context.Context, s *mcp.ClientSession, input json.RawMessage) (any, error) {
	var p mcp.ListResourcesParams
	if err := json.Unmarshal(input, &p); err != nil {
		return nil, err
	}
	return s.ListResources(ctx, &p)
}

func readResource(ctx context.Context, s *mcp.ClientSession, input json.RawMessage) (any, error) {
	var p mcp.ReadResourceParams
	if err := json.Unmarshal(input, &p); err != nil {
		return nil, err
	}
	return s.ReadResource(ctx, &p)
}

func getPrompt(ctx context.Context, s *mcp.ClientSession, input json.RawMessage) (any, error) {
	var p mcp.GetPromptParams
	if err := json.Unmarshal(input, &p); err != nil {
		return nil, err
	}
	return s.GetPrompt(ctx, &p)
}

// checkOwn refuses what of a server's resources and prompts is not what was approved.
func (t proxied) checkOwn(input json.RawMessage) error {
	if t.ask == nil {
		return nil
	}
	k, err := t.manager.find(t.server.Name)
	if err != nil {
		return err
	}
	kind, name := declared.KindTemplate, ""
	if t.name == declared.Reserved+"get_prompt" {
		var p mcp.GetPromptParams
		if err := json.Unmarshal(input, &p); err != nil {
			return err
		}
		kind, name = declared.KindPrompt, p.Name
		if !slices.ContainsFunc(k.Approved.Definitions, func(d declared.Definition) bool { return d.Kind == kind && d.Name == name }) {
			return reason.Errorf(reason.NotFound, "no prompt %q of the upstream server %s was approved", clean(name, 100), t.server.Name).
				WithRemedy("`palyra mcp show %s` lists those that were.", t.server.Name)
		}
	}
	for _, c := range k.changes {
		if c.Kind == kind && (name == "" || c.Name == name) {
			return suspended(t.descriptor.Name, t.server.Name, c)
		}
	}
	return nil
}

// suspended is the refusal of a tool until a change is approved.
func suspended(tool, server string, c declared.Change) error {
	what := declared.Definition{Kind: c.Kind, Name: c.Name}.Called()
	return reason.Errorf(reason.ToolSuspended, "the tool %s is suspended: %s of the upstream server was %s since it was approved", tool, what, c.Word()).
		WithRemedy("`palyra mcp show %s` shows the difference; `palyra mcp approve %s` accepts it.", server, server)
}

// label says whose words a text is.
func label(server, text string) string {
	return fmt.Sprintf("The upstream server %s asks: %s", server, clean(text, 2000))
}
