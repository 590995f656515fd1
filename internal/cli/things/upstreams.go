// Package things has the commands for the gateway's resources: upstream MCP servers, skills,
// secrets and notification targets. Values of secrets are never arguments.
package things

import (
	"context"
	"fmt"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	palyrav1 "palyra/gen/palyra/v1"
	"palyra/internal/cli/client"
	"palyra/internal/cli/command"
	"palyra/internal/cli/printer"
	"palyra/internal/core/text"
)

// upstreamCommands is one run of the program, with the commands of this family.
type upstreamCommands struct{ *client.App }

var upstreamListing = printer.Listing{
	Kind:    "Upstream",
	Columns: []string{"NAME", "TOOLS", "SUSPENDED", "STATE", "WHERE"},
	Wide:    []string{"INSTANCES", "CALLS", "PROTOCOL", "SEEN", "APPROVED BY"},
	Empty:   "no upstream servers; `palyra mcp add` adds one",
	Drop:    []string{"SUSPENDED"},
}

// MCPCommand is `palyra mcp`. others are commands of the same group that other families have.
func MCPCommand(program *client.App, others ...*cobra.Command) *cobra.Command {
	a := &upstreamCommands{program}
	return command.NewGroup("mcp", "Put the tools of MCP servers behind the gateway",
		append([]*cobra.Command{a.Waits(a.add()), a.list(), a.show(), a.refresh(), a.Waits(a.update()), a.Waits(a.approve()), a.login(), a.logout(), a.importCommand(), a.remove()}, others...)...)
}

func upstreamRecord(u *palyrav1.Upstream) printer.Record {
	s := u.GetServer()
	return printer.Record{
		Name: s.GetName(), Body: printer.ProtoObject(u),
		Cells: []string{s.GetName(), number(u.GetTools()), number(u.GetSuspended()), state(u), where(s)},
		Wide:  []string{number(u.GetInstances()), number(u.GetCalls()), u.GetProtocol(), printer.Clock(u.GetSeenAt()), u.GetApprovedBy()},
	}
}

func number(n int32) string { return strconv.Itoa(int(n)) }

// state returns the most important state of a server in one word.
func state(u *palyrav1.Upstream) string {
	switch {
	case u.GetProblem() != "":
		return "failing"
	case u.GetPending() > 0:
		return "changed"
	case u.GetSeenAt() == nil:
		return "never reached"
	}
	return "ok"
}

func where(s *palyrav1.UpstreamServer) string {
	if s.GetUrl() != "" {
		return s.GetUrl()
	}
	return strings.Join(s.GetCommand(), " ")
}

func (a *upstreamCommands) complete() cobra.CompletionFunc {
	return client.Suggest(a.App, upstreamsOf, func(u *palyrav1.Upstream) (string, string) { return u.GetServer().GetName(), where(u.GetServer()) })
}

func (a *upstreamCommands) list() *cobra.Command {
	return &cobra.Command{
		Use: "list", Short: "List the upstream servers", Args: command.Args(0, 0), Example: "palyra mcp list",
		RunE: client.ShowList(a.App, upstreamListing, upstreamRecord, upstreamsOf),
	}
}

func upstreamsOf(ctx context.Context, g *client.Gateway) ([]*palyrav1.Upstream, error) {
	reply, err := g.Mcp.ListUpstreams(ctx, &palyrav1.ListUpstreamsRequest{})
	return reply.GetUpstreams(), err
}

func (a *upstreamCommands) page(p *printer.Page, u *palyrav1.Upstream) {
	s := u.GetServer()
	p.Field("server", s.GetName())
	p.Field("where", where(s))
	p.List("env", s.GetEnv())
	workspace := s.GetWorkspace()
	if s.GetWrite() {
		workspace += ", which it may write to"
	}
	p.Field("workspace", workspace)
	if k := s.GetPackage(); k != nil {
		p.Field("package", strings.TrimSpace(k.GetName()+" "+k.GetVersion()))
		p.Field("integrity", k.GetIntegrity())
		p.Field("registry", k.GetRegistry())
		if k.GetRegistrySecret() != "" {
			p.Field("registry login", strings.TrimSpace(k.GetRegistryUser()+" vault://"+k.GetRegistrySecret()))
		}
		p.Field("installed", k.GetPrefix())
	}
	p.List("hosts", s.GetHosts())
	p.List("secrets", s.GetSecrets())
	p.List("secrets as they are", s.GetInject())
	p.List("keys of _meta", s.GetMeta())
	for _, h := range s.GetHeaders() {
		p.Field("header", strings.TrimSpace(fmt.Sprintf("%s: %s vault://%s", h.GetName(), h.GetScheme(), h.GetSecret())))
	}
	if o := s.GetOauth(); o != nil {
		p.Field("login", strings.TrimSpace(o.GetIssuer()+" "+o.GetClientId()))
	}
	p.Field("marks", marks(s))
	p.Field("identifies as", u.GetImplementation())
	p.Field("protocol", u.GetProtocol())
	p.Field("tools", fmt.Sprintf("%d, %d of them suspended", u.GetTools(), u.GetSuspended()))
	p.Field("instances", fmt.Sprintf("%d, with %s under way", u.GetInstances(), text.Plural(u.GetCalls(), "call")))
	p.Field("added", a.Moment(u.GetAddedAt())+" by "+u.GetAddedBy())
	if u.GetApprovedAt() != nil {
		p.Field("approved", a.Moment(u.GetApprovedAt())+" by "+u.GetApprovedBy())
	}
	p.Block("problem", u.GetProblem())
	p.Field("next", u.GetRemedy())
	p.List("left out", u.GetLeftOut())
	p.List("not checked", u.GetUnchecked())
}

// fullUpstreamRecord converts a server with its definitions.
func fullUpstreamRecord(r *palyrav1.GetUpstreamResponse) printer.Record {
	rec := upstreamRecord(r.GetUpstream())
	rec.Body = printer.ProtoObject(r)
	return rec
}

func (a *upstreamCommands) fullPage(p *printer.Page, full *palyrav1.GetUpstreamResponse) {
	a.page(p, full.GetUpstream())
	var names []string
	for _, d := range full.GetDefinitions() {
		names = append(names, strings.TrimSpace(d.GetKind()+" "+d.GetName()))
	}
	p.List("approved", names)
	if len(full.GetChanges()) > 0 {
		p.Diff("waits to be approved", full.GetDiff())
	}
}

func marks(s *palyrav1.UpstreamServer) string {
	var list []string
	if s.GetTrusted() {
		list = append(list, "trusted")
	}
	if s.GetShared() {
		list = append(list, "shared")
	}
	if s.GetOauth().GetShared() {
		list = append(list, "shared login")
	}
	return strings.Join(list, ", ")
}

func (a *upstreamCommands) show() *cobra.Command {
	return &cobra.Command{
		Use: "show NAME", Short: "Show a server, its definitions, and pending changes of them", Args: command.Args(1, 1),
		Example: "palyra mcp show github", ValidArgsFunction: a.complete(),
		RunE: client.ShowOne(a.App, "Upstream", fullUpstreamRecord, a.fullPage, func(ctx context.Context, g *client.Gateway, given []string) (*palyrav1.GetUpstreamResponse, error) {
			return g.Mcp.GetUpstream(ctx, &palyrav1.GetUpstreamRequest{Name: given[0]})
		}),
	}
}

func (a *upstreamCommands) refresh() *cobra.Command {
	return &cobra.Command{
		Use: "refresh NAME", Short: "Reconnect to a server and check for changed definitions", Args: command.Args(1, 1),
		Long: "Reconnect to a server, and compare its definitions with the approved ones. A server that\n" +
			"receives secrets by value is started first unless it runs: each secret needs approval.",
		Example: "palyra mcp refresh github", ValidArgsFunction: a.complete(),
		RunE: client.ShowOne(a.App, "Upstream", upstreamRecord, a.page, func(ctx context.Context, g *client.Gateway, given []string) (*palyrav1.Upstream, error) {
			return a.refreshed(ctx, g, given[0])
		}),
	}
}

func (a *upstreamCommands) approve() *cobra.Command {
	var sure bool
	c := &cobra.Command{
		Use: "approve NAME", Short: "Approve the current definitions of a server", Args: command.Args(1, 1),
		Long: "Show how the definitions of a server differ from the approved ones, and approve them.\n" +
			"Its suspended tools can be called again then, with the new definitions. Read\n" +
			"descriptions as external text that models follow.",
		Example: "palyra mcp approve github", ValidArgsFunction: a.complete(),
		RunE: client.ShowOne(a.App, "Upstream", upstreamRecord, a.page, func(ctx context.Context, g *client.Gateway, given []string) (*palyrav1.Upstream, error) {
			seen, err := g.Mcp.GetUpstream(ctx, &palyrav1.GetUpstreamRequest{Name: given[0]})
			if err != nil {
				return nil, err
			}
			if !sure && len(seen.GetChanges()) > 0 {
				if err := a.PrintOne("Upstream", fullUpstreamRecord(seen), func(p *printer.Page) { a.fullPage(p, seen) }); err != nil {
					return nil, err
				}
				if err := a.Agree(ctx, false, "Accept these definitions?"); err != nil {
					return nil, err
				}
			}
			digest := seen.GetUpstream().GetPendingDigest()
			if digest == "" {
				digest = "none"
			}
			reply, err := g.Mcp.ApproveUpstream(ctx, &palyrav1.ApproveUpstreamRequest{Name: given[0], PendingDigest: digest})
			return reply.GetUpstream(), err
		}),
	}
	c.Flags().BoolVar(&sure, "yes", false, "do not show the difference, and do not ask to confirm")
	return c
}

func (a *upstreamCommands) remove() *cobra.Command {
	var sure bool
	c := &cobra.Command{
		Use: "remove NAME", Short: "Remove a server and its tools", Args: command.Args(1, 1),
		Example: "palyra mcp remove github", ValidArgsFunction: a.complete(),
		RunE: a.Connected(func(ctx context.Context, g *client.Gateway, given []string) error {
			if err := a.Confirm(ctx, sure, "Remove the upstream server %s and its tools?", given[0]); err != nil {
				return err
			}
			_, err := g.Mcp.RemoveUpstream(ctx, &palyrav1.RemoveUpstreamRequest{Name: given[0]})
			if err == nil {
				a.Say("the upstream server %s was removed", given[0])
			}
			return err
		}),
	}
	c.Flags().BoolVar(&sure, "yes", false, "do not ask")
	return c
}
