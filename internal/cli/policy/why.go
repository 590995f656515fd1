package policy

import (
	"context"
	"strings"

	"github.com/oklog/ulid/v2"
	"github.com/spf13/cobra"

	palyrav1 "palyra/gen/palyra/v1"
	"palyra/internal/cli/client"
	"palyra/internal/cli/command"
	"palyra/internal/cli/printer"
	"palyra/internal/core/reason"
)

// WhyCommand is `palyra approvals why`.
func WhyCommand(program *client.App) *cobra.Command {
	a := &policyCommands{program}
	run := ""
	c := &cobra.Command{
		Use:   "why ID",
		Short: "Explain the decision on a call, by any of its ids",
		Long: "Explain the decision on a call, or why it needs approval: the output of `palyra policy explain`\n" +
			"says, by any id of the call: of its proposal, its decision or its approval, or the\n" +
			"id that a model gave it. Models may use an id again in another run: --run names the\n" +
			"run, and without it the newest call counts.",
		Example: "palyra approvals why 01J...\npalyra approvals why toolu_01A09q90qw90lq917835lq9 --run 01J...",
		Args:    command.Args(1, 1),
		RunE: a.Connected(func(ctx context.Context, g *client.Gateway, given []string) error {
			return a.why(ctx, g, given[0], run)
		}),
	}
	c.Flags().StringVar(&run, "run", "", "the run in which a model gave the id")
	return c
}

func (a *policyCommands) why(ctx context.Context, g *client.Gateway, given, run string) error {
	id := strings.ToUpper(given)
	if _, err := ulid.ParseStrict(id); err != nil || run != "" {
		call, err := modelsCall(ctx, g, given, run)
		if err != nil {
			return err
		}
		if id = call.GetProposalId(); run == "" {
			a.Say("%s is call %s of run %s", given, id, call.GetRun())
		}
	}
	v, err := g.Policy.ExplainPolicy(ctx, &palyrav1.ExplainPolicyRequest{Subject: &palyrav1.ExplainPolicyRequest_DecisionId{DecisionId: id}})
	if err != nil {
		return err
	}
	return a.printExplanation("PolicyExplanation", v, printer.ProtoObject(v), "")
}

// mostSearched is how many calls are searched for an id that a model assigned.
const mostSearched = 1000

// modelsCall finds the newest call to which a model gave an id.
func modelsCall(ctx context.Context, g *client.Gateway, id, run string) (*palyrav1.Call, error) {
	req := &palyrav1.ListCallsRequest{Run: run, PageSize: 200}
	for seen := 0; seen < mostSearched; {
		reply, err := g.Calls.ListCalls(ctx, req)
		if err != nil {
			return nil, err
		}
		for _, c := range reply.GetCalls() {
			if c.GetCallId() == id {
				return c, nil
			}
		}
		seen += int(req.GetPageSize())
		if req.PageToken = reply.GetNextPageToken(); req.PageToken == "" {
			break
		}
	}
	where := "among your newest calls"
	if run != "" {
		where = "in run " + run
	}
	return nil, reason.Errorf(reason.NotFound, "no call %s has the id %s, and it is not an id of a proposal, a decision or an approval", where, id).
		WithRemedy("`palyra calls list -o wide` shows the ids that models gave; --run names the run.")
}
