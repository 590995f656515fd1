package cli

import (
	"context"
	"strings"
	"time"

	"github.com/spf13/cobra"

	palyrav1 "palyra/gen/palyra/v1"
)

// completionTimeout keeps a shell from hanging on a gateway that is away.
const completionTimeout = 2 * time.Second

// suggestions asks the gateway for words with descriptions; when it cannot be
// reached there are none.
func (a *app) suggestions(cmd *cobra.Command, given []string, ask func(context.Context, *gateway) []cobra.Completion) ([]cobra.Completion, cobra.ShellCompDirective) {
	if len(given) > 0 {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	parent := cmd.Context()
	if parent == nil {
		parent = context.Background()
	}
	ctx, cancel := context.WithTimeout(parent, completionTimeout)
	defer cancel()
	g, err := a.connect(ctx)
	if err != nil {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	return ask(ctx, g), cobra.ShellCompDirectiveNoFileComp
}

func describe(word, description string) cobra.Completion {
	return cobra.CompletionWithDesc(visibleLine(word), visibleLine(description))
}

func (a *app) completeTools(cmd *cobra.Command, given []string, _ string) ([]cobra.Completion, cobra.ShellCompDirective) {
	return a.suggestions(cmd, given, func(ctx context.Context, g *gateway) (out []cobra.Completion) {
		reply, err := g.calls.ListTools(ctx, &palyrav1.ListToolsRequest{})
		if err != nil {
			return nil
		}
		for _, t := range reply.GetTools() {
			out = append(out, describe(t.GetName(), t.GetTitle()))
		}
		return out
	})
}

func (a *app) completeApprovals(pendingOnly bool) cobra.CompletionFunc {
	return func(cmd *cobra.Command, given []string, _ string) ([]cobra.Completion, cobra.ShellCompDirective) {
		return a.suggestions(cmd, given, func(ctx context.Context, g *gateway) (out []cobra.Completion) {
			req := &palyrav1.ListApprovalsRequest{PageSize: 50}
			if pendingOnly {
				req.States = []palyrav1.ApprovalState{palyrav1.ApprovalState_APPROVAL_STATE_PENDING}
			}
			reply, err := g.approvals.ListApprovals(ctx, req)
			if err != nil {
				return nil
			}
			for _, v := range reply.GetApprovals() {
				out = append(out, describe(v.GetApprovalId(), short(v.GetState())+" "+summaryOf(v)))
			}
			return out
		})
	}
}

func (a *app) completeGrants(cmd *cobra.Command, given []string, _ string) ([]cobra.Completion, cobra.ShellCompDirective) {
	return a.suggestions(cmd, given, func(ctx context.Context, g *gateway) (out []cobra.Completion) {
		reply, err := g.approvals.ListGrants(ctx, &palyrav1.ListGrantsRequest{PageSize: 50})
		if err != nil {
			return nil
		}
		for _, v := range reply.GetGrants() {
			out = append(out, describe(v.GetGrantId(), short(v.GetScope())+" "+covers(v)))
		}
		return out
	})
}

func (a *app) completeDevices(cmd *cobra.Command, given []string, _ string) ([]cobra.Completion, cobra.ShellCompDirective) {
	return a.suggestions(cmd, given, func(ctx context.Context, g *gateway) (out []cobra.Completion) {
		reply, err := g.identity.ListDevices(ctx, &palyrav1.ListDevicesRequest{})
		if err != nil {
			return nil
		}
		for _, d := range reply.GetDevices() {
			if d.GetRevokedAt() == nil {
				out = append(out, describe(d.GetDeviceId(), d.GetPrincipal()+" "+d.GetName()))
			}
		}
		return out
	})
}

func (a *app) completeAttestations(cmd *cobra.Command, given []string, _ string) ([]cobra.Completion, cobra.ShellCompDirective) {
	return a.suggestions(cmd, given, func(ctx context.Context, g *gateway) (out []cobra.Completion) {
		reply, err := g.attestations.ListAttestations(ctx, &palyrav1.ListAttestationsRequest{PageSize: 50})
		if err != nil {
			return nil
		}
		for _, v := range reply.GetAttestations() {
			out = append(out, describe(v.GetAttestationId(), v.GetTool()+" "+v.GetOutcome()))
		}
		return out
	})
}

func (a *app) completeRuns(runningOnly bool) cobra.CompletionFunc {
	return func(cmd *cobra.Command, given []string, _ string) ([]cobra.Completion, cobra.ShellCompDirective) {
		return a.suggestions(cmd, given, func(ctx context.Context, g *gateway) (out []cobra.Completion) {
			req := &palyrav1.ListRunsRequest{PageSize: 50}
			if runningOnly {
				req.States = []palyrav1.RunState{palyrav1.RunState_RUN_STATE_RUNNING}
			}
			reply, err := g.calls.ListRuns(ctx, req)
			if err != nil {
				return nil
			}
			for _, r := range reply.GetRuns() {
				out = append(out, describe(r.GetRunId(), short(r.GetState())+" "+firstLine(r.GetMessage())))
			}
			return out
		})
	}
}

func (a *app) completeWorkspaces(cmd *cobra.Command, _ []string, _ string) ([]cobra.Completion, cobra.ShellCompDirective) {
	return a.suggestions(cmd, nil, func(ctx context.Context, g *gateway) (out []cobra.Completion) {
		reply, err := g.status.GetStatus(ctx, &palyrav1.GetStatusRequest{})
		if err != nil {
			return nil
		}
		for _, w := range reply.GetWorkspaces() {
			out = append(out, describe(w.GetName(), w.GetPath()))
		}
		return out
	})
}

func (a *app) completeChangeSets(cmd *cobra.Command, given []string, _ string) ([]cobra.Completion, cobra.ShellCompDirective) {
	return a.suggestions(cmd, given, func(ctx context.Context, g *gateway) (out []cobra.Completion) {
		sets, err := g.changeSets(ctx, "")
		if err != nil {
			return nil
		}
		for _, s := range sets {
			out = append(out, describe(s.GetChangeSetId(), short(s.GetState())+" in "+s.GetWorkspace()))
		}
		return out
	})
}

func (a *app) completeModels(cmd *cobra.Command, _ []string, _ string) ([]cobra.Completion, cobra.ShellCompDirective) {
	return a.suggestions(cmd, nil, func(ctx context.Context, g *gateway) (out []cobra.Completion) {
		reply, err := g.status.GetStatus(ctx, &palyrav1.GetStatusRequest{})
		if err != nil {
			return nil
		}
		for _, m := range reply.GetModels() {
			out = append(out, describe(m.GetName(), strings.TrimSpace(m.GetProvider()+" "+m.GetModel())))
		}
		return out
	})
}
