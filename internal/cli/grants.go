package cli

import (
	"context"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	palyrav1 "palyra/gen/palyra/v1"
)

var grantListing = listing{
	kind:    "Grant",
	columns: []string{"ID", "STATE", "SCOPE", "MATCH", "FOR", "COVERS", "USES", "LEFT"},
	wide:    []string{"SESSION", "APPROVAL", "APPROVERS", "CREATED", "LAST USED", "DIGEST"},
	empty:   "no grants",
	drop:    []string{"MATCH", "SCOPE", "USES", "FOR"},
}

func (a *app) grantsCommand() *cobra.Command {
	var principal string
	var ended bool
	list := &cobra.Command{Use: "list", Short: "List the grants: yeses for a session or for a time", Args: args(0, 0),
		RunE: func(cmd *cobra.Command, _ []string) error { return a.listGrants(cmd.Context(), principal, ended) }}
	list.Flags().StringVar(&principal, "principal", "", "only those that cover the calls of this principal, such as agent:claude")
	list.Flags().BoolVar(&ended, "all", false, "also those that were revoked or ran out")
	var why string
	revoke := &cobra.Command{Use: "revoke ID", Short: "Take a grant back at once", Args: args(1, 1),
		ValidArgsFunction: a.completeGrants,
		RunE: func(cmd *cobra.Command, given []string) error {
			return a.revokeGrant(cmd.Context(), given[0], why)
		}}
	revoke.Flags().StringVar(&why, "reason", "", "why, for the journal")
	// Nothing is asked: taking power away is the safe direction. Scripts that
	// answer all the same go on working.
	revoke.Flags().Bool("yes", false, "no effect: nothing is asked")
	_ = revoke.Flags().MarkHidden("yes")
	return newGroup("grants", "See and take back grants, the yeses for a session or a time", list, revoke)
}

func (a *app) grantRecord(g *palyrav1.Grant) record {
	left := ""
	if a.grantState(g) == "live" {
		left = strings.TrimPrefix(a.relative(g.GetExpiresAt()), "in ")
	}
	return record{
		name: g.GetGrantId(), body: protoObject(g),
		cells: []string{
			g.GetGrantId(), a.grantState(g), short(g.GetScope()), short(g.GetMatch()), g.GetPrincipal(),
			covers(g), fmt.Sprint(g.GetUses()), left,
		},
		wide: []string{
			g.GetSession(), g.GetApprovalId(), strings.Join(g.GetApprovers(), ","), clock(g.GetCreatedAt()),
			clock(g.GetLastUsedAt()), g.GetCallDigest(),
		},
	}
}

// covers says which calls a grant covers.
func covers(g *palyrav1.Grant) string {
	switch g.GetMatch() {
	case palyrav1.GrantMatch_GRANT_MATCH_TOOL:
		return "any call of " + g.GetTool()
	case palyrav1.GrantMatch_GRANT_MATCH_SUBJECT:
		return g.GetTool() + " with subject " + g.GetSubject()
	}
	return "the same call of " + firstOf(g.GetSubject(), g.GetTool())
}

func (a *app) grantState(g *palyrav1.Grant) string {
	switch {
	case g.GetRevokedAt() != nil:
		return "revoked"
	case g.GetExpiresAt() != nil && !a.now().Before(g.GetExpiresAt().AsTime()):
		return "ended"
	}
	return "live"
}

func (a *app) listGrants(ctx context.Context, principal string, ended bool) error {
	g, err := a.connect(ctx)
	if err != nil {
		return err
	}
	req := &palyrav1.ListGrantsRequest{Principal: principal, IncludeEnded: ended}
	records, _, err := collect(0, func(size int32) ([]record, bool, error) {
		req.PageSize = size
		reply, err := g.approvals.ListGrants(ctx, req)
		req.PageToken = reply.GetNextPageToken()
		return recordsOf(reply.GetGrants(), a.grantRecord), req.PageToken != "", err
	})
	if err != nil {
		return err
	}
	return a.printList(grantListing, records)
}

func (a *app) revokeGrant(ctx context.Context, id, why string) error {
	g, err := a.connect(ctx)
	if err != nil {
		return err
	}
	if id, err = g.grantID(ctx, id); err != nil {
		return err
	}
	reply, err := g.approvals.RevokeGrant(ctx, &palyrav1.RevokeGrantRequest{GrantId: id, Reason: why})
	if err != nil {
		return err
	}
	v := reply.GetGrant()
	return a.printOne("Grant", a.grantRecord(v), func(p *page) {
		p.field("grant", v.GetGrantId())
		p.field("state", a.grantState(v))
		p.field("was used", plural(int(v.GetUses()), "time"))
	})
}
