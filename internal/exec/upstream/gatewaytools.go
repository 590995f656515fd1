package upstream

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"palyra/internal/core/canonical"
	"palyra/internal/core/reason"
	"palyra/internal/core/tool"
	"palyra/internal/exec/upstream/declared"
)

// ownTools returns the tools that the gateway makes for the resources and prompts of a server. They
// pass the pipeline like other tools, under mcp.* actions.
func ownTools(m *Manager, s declared.Server, digest string, approved declared.Sight) []proxied {
	make := func(name, title, description, properties, required string, ask func(context.Context, sending) (got, error)) proxied {
		return proxied{
			manager: m, server: s, digest: digest, name: name, ask: ask,
			descriptor: tool.Descriptor{
				Name: s.Name + "/" + name, Title: title, Description: description,
				InputSchema:  json.RawMessage(`{"type":"object","additionalProperties":false,"required":[` + required + `],"properties":{` + properties + `}}`),
				Capabilities: capabilities(s), Executor: tool.MCPUpstream, ReadOnly: s.Trusted, OpenWorld: true, AlwaysSensitive: !s.Trusted,
			},
		}
	}
	const uri = `"uri":{"type":"string","minLength":1,"maxLength":8192}`
	var list []proxied
	if approved.Resources {
		list = append(list,
			make(declared.ListResources, "List resources", "List the resources of the upstream server "+s.Name+".", `"cursor":{"type":"string","maxLength":4096}`, ``, listResources),
			make(declared.ReadResource, "Read a resource", "Read a resource of the upstream server "+s.Name+".", uri, `"uri"`, readResource))
	}
	if approved.Subscriptions {
		list = append(list, make(declared.Subscribe, "Watch a resource", "Get notified when a resource of the upstream server "+s.Name+" changes. Clients call this tool by subscribing.", uri, `"uri"`, subscribe))
	}
	if approved.Prompts {
		list = append(list, make(declared.GetPrompt, "Get a prompt", "Get a prompt of the upstream server "+s.Name+", filled in. Its text comes from the server.",
			`"name":{"type":"string","minLength":1,"maxLength":256},"arguments":{"type":"object","maxProperties":64,"additionalProperties":{"type":"string","maxLength":65536}}`, `"name"`, getPrompt))
	}
	if approved.Completions {
		list = append(list, make(declared.Complete, "Complete an argument", "Get suggestions of the upstream server "+s.Name+" for an argument of a prompt or of a resource template.",
			`"ref":{"type":"object","additionalProperties":false,"required":["type"],"properties":{"type":{"type":"string","enum":["ref/prompt","ref/resource"]},`+
				`"name":{"type":"string","maxLength":256},"uri":{"type":"string","maxLength":8192}}},`+
				`"argument":{"type":"object","additionalProperties":false,"required":["name","value"],"properties":{"name":{"type":"string","maxLength":256},"value":{"type":"string","maxLength":65536}}},`+
				`"context":{"type":"object","additionalProperties":false,"properties":{"arguments":{"type":"object","maxProperties":64,"additionalProperties":{"type":"string","maxLength":65536}}}}`,
			`"ref","argument"`, complete))
	}
	return list
}

func listResources(ctx context.Context, s sending) (got, error) {
	var p mcp.ListResourcesParams
	if err := canonical.Read(s.input, &p); err != nil {
		return got{}, err
	}
	p.Meta = s.meta
	r, err := s.in.session.ListResources(ctx, &p)
	return got{result: r}, err
}

func readResource(ctx context.Context, s sending) (got, error) {
	var p mcp.ReadResourceParams
	if err := canonical.Read(s.input, &p); err != nil {
		return got{}, err
	}
	p.Meta, p.InputResponses, p.RequestState = s.meta, s.responses, s.state
	r, err := s.in.session.ReadResource(ctx, &p)
	if err != nil {
		return got{}, err
	}
	return got{r, r.InputRequests, r.RequestState}, nil
}

func getPrompt(ctx context.Context, s sending) (got, error) {
	var p mcp.GetPromptParams
	if err := canonical.Read(s.input, &p); err != nil {
		return got{}, err
	}
	p.Meta, p.InputResponses, p.RequestState = s.meta, s.responses, s.state
	r, err := s.in.session.GetPrompt(ctx, &p)
	if err != nil {
		return got{}, err
	}
	return got{r, r.InputRequests, r.RequestState}, nil
}

func complete(ctx context.Context, s sending) (got, error) {
	var p mcp.CompleteParams
	if err := canonical.Read(s.input, &p); err != nil {
		return got{}, err
	}
	p.Meta = s.meta
	r, err := s.in.session.Complete(ctx, &p)
	return got{result: r}, err
}

// checkOwn returns an error for a resource or prompt that was not approved.
func (t proxied) checkOwn(input json.RawMessage) error {
	if t.ask == nil {
		return nil
	}
	k, err := t.manager.catalog.find(t.server.Name)
	if err != nil {
		return err
	}
	var in struct {
		Name string                `json:"name"`
		Ref  mcp.CompleteReference `json:"ref"`
	}
	if t.name == declared.GetPrompt || t.name == declared.Complete {
		if err := canonical.Read(input, &in); err != nil {
			return reason.Errorf(reason.InvalidInput, "the input does not name a prompt: %w", err)
		}
	}
	kind, name := declared.KindTemplate, ""
	switch {
	case t.name == declared.GetPrompt:
		kind, name = declared.KindPrompt, in.Name
	case t.name == declared.Complete && in.Ref.Type == "ref/prompt":
		kind, name = declared.KindPrompt, in.Ref.Name
	}
	if kind == declared.KindPrompt && !slices.ContainsFunc(k.Approved.Definitions, func(d declared.Definition) bool { return d.Kind == kind && d.Name == name }) {
		return reason.Errorf(reason.NotFound, "the prompt %q of the upstream server %s is not approved", clean(name, 100), t.server.Name).
			WithRemedy("List the approved prompts with `palyra mcp show %s`.", t.server.Name)
	}
	for _, c := range k.changes {
		if c.Kind == kind && (name == "" || c.Name == name) {
			return suspended(t.descriptor.Name, t.server.Name, c)
		}
	}
	return nil
}

// suspended returns the error for a tool that is suspended until a change is approved.
func suspended(tool, server string, c declared.Change) error {
	what := declared.Definition{Kind: c.Kind, Name: c.Name}.Called()
	return reason.Errorf(reason.ToolSuspended, "the tool %s is suspended: %s of the upstream server was %s since it was approved", tool, what, c.Word()).
		WithRemedy("Show the difference with `palyra mcp show %s`; accept it with `palyra mcp approve %s`.", server, server)
}

// label prefixes a text with its origin.
func label(server, text string) string {
	return fmt.Sprintf("The upstream server %s asks: %s", server, clean(text, 2000))
}
