package people

import (
	"context"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	palyrav1 "palyra/gen/palyra/v1"
	"palyra/internal/cli/calls/ask"
	"palyra/internal/cli/client"
	"palyra/internal/cli/command"
	"palyra/internal/cli/printer"
	"palyra/internal/core/access"
)

// reviewCommands is one run of the program, with the commands of this family.
type reviewCommands struct{ *client.App }

var roleListing = printer.Listing{
	Kind:    "Role",
	Columns: []string{"ROLE", "BUILT IN", "MAY", "MEMBERS"},
	Wide:    []string{"PERMISSIONS"},
	Empty:   "there are no roles",
}

// RolesCommand is `palyra roles`.
func RolesCommand(program *client.App) *cobra.Command {
	a := &reviewCommands{program}
	return &cobra.Command{
		Use: "roles", Short: "List the roles with what they may do, and who holds them", Args: command.Args(0, 0),
		Long: "List the roles, built in and declared, with what somebody who holds one alone may do\n" +
			"by the policies in force, and who holds it. -o wide names the permissions.",
		Example: "palyra roles\npalyra roles -o wide",
		RunE: a.Connected(func(ctx context.Context, g *client.Gateway, _ []string) error {
			reply, err := g.Reviews.ListRoles(ctx, &palyrav1.ListRolesRequest{})
			if err != nil {
				return err
			}
			return a.PrintList(roleListing, printer.Records(reply.GetRoles(), roleRecord))
		}),
	}
}

func roleRecord(r *palyrav1.Role) printer.Record {
	return printer.Record{
		Name: r.GetRole(), Body: printer.ProtoObject(r),
		Cells: []string{r.GetRole(), printer.Yes(r.GetBuiltin()), strconv.Itoa(len(r.GetPermissions())) + " of " + strconv.Itoa(len(access.Permissions)), strings.Join(r.GetMembers(), ",")},
		Wide:  []string{strings.Join(r.GetPermissions(), ",")},
	}
}

// AccessCommand is `palyra access`.
func AccessCommand(program *client.App) *cobra.Command {
	a := &reviewCommands{program}
	return command.NewGroup("access", "Say who may do what, by which policies", a.explain(), a.show(), a.ceilings(), a.allow(), a.forbid())
}

const whoHelp = "WHO is a user, or the agent where there is no such user; user:NAME and agent:NAME tell\n" +
	"them apart. You may ask about yourself and your agents; about others it takes\naccess.read."

func (a *reviewCommands) explain() *cobra.Command {
	return &cobra.Command{
		Use: "explain WHO METHOD", Short: "Say whether a member may do something, and why", Args: command.Args(2, 2),
		Long: "Say whether a member has a permission, or may use a method of the API, by which\n" +
			"policies, and what a person can do about it. METHOD is a permission, approval.decide,\n" +
			"or a method, DecideApproval. " + whoHelp,
		Example: "palyra access explain bob approval.decide\npalyra access explain agent:claude CallTool", ValidArgsFunction: a.complete(),
		RunE: a.Connected(func(ctx context.Context, g *client.Gateway, given []string) error {
			reply, err := g.Reviews.ExplainAccess(ctx, &palyrav1.ExplainAccessRequest{Principal: given[0], Method: given[1]})
			if err != nil {
				return err
			}
			return a.PrintOne("AccessExplanation", printer.Record{Name: reply.GetPrincipal(), Body: printer.ProtoObject(reply)}, func(p *printer.Page) {
				explanation(p, reply)
			})
		}),
	}
}

func explanation(p *printer.Page, r *palyrav1.ExplainAccessResponse) {
	p.Field("member", r.GetPrincipal())
	p.Field("roles", strings.Join(r.GetRoles(), ", "))
	p.Field("permission", r.GetPermission())
	p.List("methods", r.GetMethods())
	if r.GetAllowed() {
		p.Field("verdict", "allowed")
	} else {
		p.Field("verdict", "denied, "+r.GetReason())
	}
	p.Wrapped("why", r.GetMessage())
	p.List("policies", ask.DeterminingLines(r.GetPolicies()))
	if r.GetRemedy() != "" {
		p.Wrapped("next", r.GetRemedy())
	}
	p.List("who may", r.GetWhoMay())
	for _, note := range r.GetNotes() {
		p.Wrapped("note", note)
	}
}

func (a *reviewCommands) show() *cobra.Command {
	return &cobra.Command{
		Use: "show WHO", Short: "Show the tools that a member may call, and its permissions", Args: command.Args(1, 1),
		Long: "Show the tools that a member may call: allowed, when no call waits for a person; asked,\n" +
			"when one may; denied, when every one is; and the permissions that it has. What a call\n" +
			"does may still have it denied: `palyra policy explain` judges one. " + whoHelp,
		Example: "palyra access show bob\npalyra access show agent:claude -o json", ValidArgsFunction: a.complete(),
		RunE: a.Connected(func(ctx context.Context, g *client.Gateway, given []string) error {
			reply, err := g.Reviews.ShowAccess(ctx, &palyrav1.ShowAccessRequest{Principal: given[0]})
			if err != nil {
				return err
			}
			return a.PrintOne("Access", printer.Record{Name: reply.GetPrincipal(), Body: printer.ProtoObject(reply)}, func(p *printer.Page) {
				shown(p, reply)
			})
		}),
	}
}

func shown(p *printer.Page, r *palyrav1.ShowAccessResponse) {
	p.Field("member", r.GetPrincipal())
	p.Field("roles", strings.Join(r.GetRoles(), ", "))
	if r.GetOwner() != "" {
		p.Field("acts for", r.GetOwner())
	}
	for _, v := range []palyrav1.ToolAccessVerdict{
		palyrav1.ToolAccessVerdict_TOOL_ACCESS_VERDICT_ALLOWED, palyrav1.ToolAccessVerdict_TOOL_ACCESS_VERDICT_ASKED,
		palyrav1.ToolAccessVerdict_TOOL_ACCESS_VERDICT_DENIED,
	} {
		p.List("tools "+printer.Enum(v), toolLines(r.GetTools(), v))
	}
	var may, not []string
	for _, one := range r.GetPermissions() {
		if one.GetAllowed() {
			may = append(may, one.GetPermission())
		} else {
			not = append(not, one.GetPermission())
		}
	}
	p.List("may", may)
	p.List("may not", not)
	for _, note := range r.GetNotes() {
		p.Wrapped("note", note)
	}
}

// toolLines are the tools of a verdict, each with why.
func toolLines(tools []*palyrav1.ToolAccess, of palyrav1.ToolAccessVerdict) []string {
	var lines []string
	for _, t := range tools {
		if t.GetVerdict() != of {
			continue
		}
		line := t.GetTool()
		if t.GetMessage() != "" {
			line += ": " + t.GetMessage()
		}
		var by []string
		for _, d := range t.GetPolicies() {
			by = append(by, d.GetPolicyId())
		}
		if len(by) > 0 {
			line += " (" + strings.Join(by, ", ") + ")"
		}
		lines = append(lines, line)
	}
	return lines
}

// complete offers the members, and then the permissions.
func (a *reviewCommands) complete() cobra.CompletionFunc {
	members := client.Suggest(a.App, func(ctx context.Context, g *client.Gateway) ([]*palyrav1.Member, error) {
		reply, err := g.Access.ListMembers(ctx, &palyrav1.ListMembersRequest{})
		return reply.GetMembers(), err
	}, func(m *palyrav1.Member) (string, string) { return m.GetPrincipal(), strings.Join(m.GetRoles(), ",") })
	var permissions []string
	for _, p := range access.Permissions {
		permissions = append(permissions, string(p))
	}
	return func(cmd *cobra.Command, given []string, typed string) ([]string, cobra.ShellCompDirective) {
		if len(given) == 1 && strings.HasPrefix(cmd.Use, "explain") {
			return permissions, cobra.ShellCompDirectiveNoFileComp
		}
		return members(cmd, given, typed)
	}
}
