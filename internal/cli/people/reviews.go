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

// reviewCommands provides the commands of this family.
type reviewCommands struct{ *client.App }

var roleListing = printer.Listing{
	Kind:    "Role",
	Columns: []string{"ROLE", "BUILT IN", "MAY", "MEMBERS"},
	Wide:    []string{"PERMISSIONS"},
	Empty:   "no roles",
}

// RolesCommand is `palyra roles`.
func RolesCommand(program *client.App) *cobra.Command {
	a := &reviewCommands{program}
	return &cobra.Command{
		Use: "roles", Short: "List the roles with their permissions and members", Args: command.Args(0, 0),
		Long: "List the built-in and declared roles, with the permissions of a member who has only\n" +
			"that role under the policies in force, and its members. -o wide lists the permissions.",
		Example: "palyra roles\npalyra roles -o wide",
		RunE: client.ShowList(a.App, roleListing, roleRecord, func(ctx context.Context, g *client.Gateway) ([]*palyrav1.Role, error) {
			reply, err := g.Reviews.ListRoles(ctx, &palyrav1.ListRolesRequest{})
			return reply.GetRoles(), err
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
	return command.NewGroup("access", "Explain permissions of members by policy", a.explain(), a.show(), a.ceilings(), a.allow(), a.forbid())
}

const whoHelp = "WHO is a user, or an agent if no such user exists; use user:NAME or agent:NAME to be\n" +
	"explicit. You may ask about yourself and your agents; others need access.read."

func (a *reviewCommands) explain() *cobra.Command {
	return &cobra.Command{
		Use: "explain WHO METHOD", Short: "Explain whether a member has a permission, and why", Args: command.Args(2, 2),
		Long: "Explain whether a member has a permission, or may use a method of the API, by which\n" +
			"policies, and how to change it. METHOD is a permission, approval.decide,\n" +
			"or a method, DecideApproval. " + whoHelp,
		Example: "palyra access explain bob approval.decide\npalyra access explain agent:claude CallTool", ValidArgsFunction: a.complete(),
		RunE: client.ShowOne(a.App, "AccessExplanation", printer.Named((*palyrav1.ExplainAccessResponse).GetPrincipal), explanation, func(ctx context.Context, g *client.Gateway, given []string) (*palyrav1.ExplainAccessResponse, error) {
			return g.Reviews.ExplainAccess(ctx, &palyrav1.ExplainAccessRequest{Principal: given[0], Method: given[1]})
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
		Long: "Show the tools that a member may call: allowed if no call needs approval, asked if\n" +
			"some may, denied if every call is; and its permissions. A particular call may still\n" +
			"be denied: see `palyra policy explain`. " + whoHelp,
		Example: "palyra access show bob\npalyra access show agent:claude -o json", ValidArgsFunction: a.complete(),
		RunE: client.ShowOne(a.App, "Access", printer.Named((*palyrav1.ShowAccessResponse).GetPrincipal), printAccess, func(ctx context.Context, g *client.Gateway, given []string) (*palyrav1.ShowAccessResponse, error) {
			return g.Reviews.ShowAccess(ctx, &palyrav1.ShowAccessRequest{Principal: given[0]})
		}),
	}
}

func printAccess(p *printer.Page, r *palyrav1.ShowAccessResponse) {
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

// toolLines returns the tools with a verdict, each with the reason.
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

// complete suggests the members, and then the permissions.
func (a *reviewCommands) complete() cobra.CompletionFunc {
	members := client.Suggest(a.App, membersOf, memberWord)
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
