package calls

import (
	"context"
	"strings"

	"github.com/spf13/cobra"

	palyrav1 "palyra/gen/palyra/v1"
	"palyra/internal/cli/calls/ask"
	"palyra/internal/cli/client"
	"palyra/internal/cli/command"
	"palyra/internal/cli/printer"
	"palyra/internal/core/text"
)

var grantListing = printer.Listing{
	Kind:    "Grant",
	Columns: []string{"ID", "STATE", "SCOPE", "MATCH", "FOR", "COVERS", "USES", "LEFT"},
	Wide:    []string{"SESSION", "APPROVAL", "APPROVERS", "CREATED", "LAST USED", "DIGEST"},
	Empty:   "no grants",
	Drop:    []string{"MATCH", "SCOPE", "USES", "FOR"},
}

// GrantsCommand is `palyra grants`.
func GrantsCommand(program *client.App) *cobra.Command {
	a := &approvalCommands{program}
	req := &palyrav1.ListGrantsRequest{}
	list := &cobra.Command{Use: "list", Short: "List the grants: standing approvals for a session or a time", Args: command.Args(0, 0),
		RunE: a.Connected(func(ctx context.Context, g *client.Gateway, _ []string) error {
			return client.List(a.App, grantListing, 0, grantPages(ctx, g, req), a.grantRecord)
		})}
	list.Flags().StringVar(&req.Principal, "principal", "", "only grants for calls of this principal, such as agent:claude")
	list.Flags().BoolVar(&req.IncludeEnded, "all", false, "include revoked and expired grants")
	var why string
	revoke := &cobra.Command{Use: "revoke ID", Short: "Revoke a grant", Args: command.Args(1, 1),
		ValidArgsFunction: a.completeGrants(),
		RunE: client.ShowOne(a.App, "Grant", a.grantRecord, func(p *printer.Page, v *palyrav1.Grant) {
			p.Field("grant", v.GetGrantId())
			p.Field("state", ask.GrantState(v, a.Now()))
			p.Field("was used", text.Plural(int(v.GetUses()), "time"))
		}, func(ctx context.Context, g *client.Gateway, given []string) (*palyrav1.Grant, error) {
			id, err := findGrant(ctx, g, given[0])
			if err != nil {
				return nil, err
			}
			reply, err := g.Approvals.RevokeGrant(ctx, &palyrav1.RevokeGrantRequest{GrantId: id, Reason: why})
			return reply.GetGrant(), err
		})}
	revoke.Flags().StringVar(&why, "reason", "", "the reason, for the journal")
	// The command does not ask for confirmation, because revoking is safe. The flag is accepted
	// for existing scripts.
	revoke.Flags().Bool("yes", false, "no effect: the command does not ask for confirmation")
	_ = revoke.Flags().MarkHidden("yes")
	return command.NewGroup("grants", "List and revoke grants, the standing approvals for a session or a time", list, revoke)
}

func (a *approvalCommands) grantRecord(g *palyrav1.Grant) printer.Record {
	left := ""
	if ask.GrantState(g, a.Now()) == "live" {
		left = strings.TrimPrefix(a.Relative(g.GetExpiresAt()), "in ")
	}
	return printer.Record{
		Name: g.GetGrantId(), Body: printer.ProtoObject(g),
		Cells: []string{
			g.GetGrantId(), ask.GrantState(g, a.Now()), printer.Enum(g.GetScope()), printer.Enum(g.GetMatch()), g.GetPrincipal(),
			ask.GrantCovers(g), ask.GrantUses(g), left,
		},
		Wide: []string{
			g.GetSession(), g.GetApprovalId(), strings.Join(g.GetApprovers(), ","), printer.Clock(g.GetCreatedAt()),
			printer.Clock(g.GetLastUsedAt()), g.GetCallDigest(),
		},
	}
}

func (a *approvalCommands) completeGrants() cobra.CompletionFunc {
	return client.Suggest(a.App, func(ctx context.Context, g *client.Gateway) ([]*palyrav1.Grant, error) {
		return client.SuggestPage(grantPages(ctx, g, &palyrav1.ListGrantsRequest{}))
	}, func(v *palyrav1.Grant) (string, string) {
		return v.GetGrantId(), printer.Enum(v.GetScope()) + " " + ask.GrantCovers(v)
	})
}

// grantPages returns a list of grants page by page.
func grantPages(ctx context.Context, g *client.Gateway, req *palyrav1.ListGrantsRequest) client.Pages[*palyrav1.Grant] {
	return func(size int32) ([]*palyrav1.Grant, bool, error) {
		req.PageSize = size
		reply, err := g.Approvals.ListGrants(ctx, req)
		req.PageToken = reply.GetNextPageToken()
		return reply.GetGrants(), req.PageToken != "", err
	}
}

func findGrant(ctx context.Context, g *client.Gateway, given string) (string, error) {
	return client.FindListed("grant", given, grantPages(ctx, g, &palyrav1.ListGrantsRequest{IncludeEnded: true}), (*palyrav1.Grant).GetGrantId)
}
