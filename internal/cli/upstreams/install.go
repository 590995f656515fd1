package upstreams

import (
	"context"
	"encoding/json"

	"github.com/spf13/cobra"

	palyrav1 "palyra/gen/palyra/v1"
	"palyra/internal/cli/client"
	"palyra/internal/cli/command"
	"palyra/internal/cli/invocation"
	"palyra/internal/cli/question"
	"palyra/internal/cli/taking"
	"palyra/internal/reason"
)

// installTool is the tool that installs what was resolved: a call like any other, which
// policy decides and people are asked about.
const installTool = "package.install"

// install resolves a package for a server and installs it.
func (a *app) install(ctx context.Context, g *client.Gateway, server string, f taking.Fetched, registry string) (taking.Installed, error) {
	var made taking.Installed
	a.Say("resolving %s ...", f.Name)
	r, err := g.Mcp.ResolvePackage(ctx, &palyrav1.ResolvePackageRequest{Server: server, Ecosystem: f.Ecosystem, Name: f.Name, Version: f.Version, Registry: registry})
	if err != nil {
		return made, err
	}
	input, err := json.Marshal(map[string]string{
		"server": server, "resolution": r.GetResolution(), "ecosystem": r.GetEcosystem(), "package": r.GetName(), "version": r.GetVersion(), "integrity": r.GetIntegrity(), "registry": r.GetRegistry(),
	})
	if err != nil {
		return made, err
	}
	a.Say("%s %s of %s, with %d packages in all", r.GetName(), r.GetVersion(), r.GetRegistry(), r.GetPackages())
	c := &installation{a: a, g: g}
	defer c.close()
	stream, err := g.Calls.CallTool(ctx, &palyrav1.CallToolRequest{Tool: installTool, InputJson: input, Session: a.Terminal, IdempotencyKey: invocation.NewKey()})
	if err != nil {
		return made, err
	}
	defer func() { _ = stream.Close() }()
	for stream.Receive() {
		c.event(ctx, stream.Msg())
	}
	if err := stream.Err(); err != nil && c.last == nil {
		return made, err
	}
	if err := c.failure(); err != nil {
		return made, err
	}
	return made, json.Unmarshal(c.result, &made)
}

// installation follows the call.
type installation struct {
	a        *app
	g        *client.Gateway
	question *question.Question
	decision *palyrav1.ToolDecision
	result   []byte
	last     *palyrav1.ToolResult
}

func (c *installation) close() {
	if c.question != nil {
		c.question.Close()
		c.question = nil
	}
}

func (c *installation) event(ctx context.Context, msg *palyrav1.CallToolResponse) {
	switch e := msg.GetEvent().(type) {
	case *palyrav1.CallToolResponse_ApprovalRequested:
		v := e.ApprovalRequested.GetApproval()
		if _, ok := question.Answerer(ctx, c.a.App, c.g, v); !ok {
			question.SayHowToAnswer(c.a.App, v)
			return
		}
		c.question = question.New(c.a.App, c.g, v, question.Unary(c.g))
		c.question.Put(ctx)
	case *palyrav1.CallToolResponse_ApprovalResolved:
		c.close()
		c.a.Say("approval %s: %s", e.ApprovalResolved.GetApprovalId(), invocation.ResolvedWord(e.ApprovalResolved))
	case *palyrav1.CallToolResponse_Decision:
		if c.decision = e.Decision; c.decision.GetAllowed() {
			c.a.Say("installing ...")
		}
	case *palyrav1.CallToolResponse_Result:
		c.result, c.last = append(c.result, e.Result.GetResultJson()...), e.Result
	}
}

// failure is why nothing was installed, nil if it was.
func (c *installation) failure() error {
	if d := c.decision; d != nil && !d.GetAllowed() {
		return client.Failure(d.GetReason(), d.GetMessage(), d.GetRemedy())
	}
	switch r := c.last; {
	case r == nil || r.GetMore():
		return reason.Errorf(reason.OutcomeUnknown, "the gateway ended the stream without a result").WithRemedy("Run the command again.")
	case r.GetOutcome() != "succeeded":
		return client.Failure(r.GetReason(), r.GetMessage(), r.GetRemedy())
	}
	return nil
}

// fetched has a server come from its package, if its command is one of npx and the like.
func (a *app) fetched(ctx context.Context, g *client.Gateway, s *palyrav1.UpstreamServer, registry string) error {
	f, why, is := taking.Fetch(s.GetCommand())
	switch {
	case !is && registry != "":
		return command.Usage("--registry is for commands such as npx, bunx, uvx and pipx")
	case !is:
		return nil
	case why != "":
		return command.Usage("%s", why)
	}
	made, err := a.install(ctx, g, s.GetName(), f, registry)
	if err != nil {
		return err
	}
	if s.Command, why = f.Started(made.Program, made.Programs); why != "" {
		return command.Usage("%s", why)
	}
	s.Package = made.Declared()
	return nil
}

func (a *app) update() *cobra.Command {
	var registry string
	c := &cobra.Command{
		Use: "update NAME [VERSION]", Short: "Install another version of the package of a server", Args: command.Args(1, 2),
		Long: "Resolve the package of a server anew, to its newest version or to VERSION, install it\n" +
			"once somebody approved that, and have the server come from it. Until then the server\n" +
			"runs as it did. If it says something else of itself then, the tools concerned are\n" +
			"suspended until `palyra mcp approve`.",
		Example: "palyra mcp update files\npalyra mcp update files 2025.8.21", ValidArgsFunction: a.complete(),
		RunE: a.Connected(func(ctx context.Context, g *client.Gateway, given []string) error {
			reply, err := g.Mcp.GetUpstream(ctx, &palyrav1.GetUpstreamRequest{Name: given[0]})
			if err != nil {
				return err
			}
			p := reply.GetUpstream().GetServer().GetPackage()
			if p == nil {
				return reason.Errorf(reason.InvalidInput, "the upstream server %s is no package that was installed", given[0]).
					WithRemedy("Update it where it is installed, and then `palyra mcp refresh %s`.", given[0])
			}
			f := taking.Fetched{Ecosystem: p.GetEcosystem(), Name: p.GetName()}
			if len(given) > 1 {
				f.Version = given[1]
			}
			if registry == "" {
				registry = p.GetRegistry()
			}
			made, err := a.install(ctx, g, given[0], f, registry)
			if err != nil {
				return err
			}
			if made.Package.Prefix == p.GetPrefix() {
				a.Say("%s %s is what the server %s comes from already", p.GetName(), p.GetVersion(), given[0])
			}
			updated, err := g.Mcp.UpdateUpstream(ctx, &palyrav1.UpdateUpstreamRequest{Name: given[0], Prefix: made.Package.Prefix})
			if err != nil {
				return err
			}
			return a.page(updated.GetUpstream(), nil)
		}),
	}
	c.Flags().StringVar(&registry, "registry", "", "URL of another registry than that of before")
	return c
}
