package policy

import (
	"context"
	"path/filepath"
	"strings"

	"github.com/oklog/ulid/v2"
	"github.com/spf13/cobra"

	palyrav1 "palyra/gen/palyra/v1"
	"palyra/internal/call/policy"
	"palyra/internal/cli/client"
	"palyra/internal/cli/command"
	"palyra/internal/cli/printer"
	"palyra/internal/core/reason"
)

func (a *policyCommands) policyExplain() *cobra.Command {
	var f describedFlags
	c := &cobra.Command{
		Use:   "explain DECISION_ID|PROPOSAL_ID|APPROVAL_ID | TOOL [key=value ...]",
		Short: "Explain the decision on a call, and what would change it",
		Long: "Explain the decision on a call: the verdict, the one thing to change,\n" +
			"every policy that decided with its conditions and their values, and the permit\n" +
			"that is nearest to allowing it.\n\n" +
			"A call of the past is explained under the policies, settings and members that\n" +
			"decided it. A described one is explained under those in force; nothing runs and\n" +
			"no approval is requested. Its input is given as for `palyra call`.\n\n" +
			"In the trees a condition is true, false, an error, or \"-\" where Cedar did not\n" +
			"look any more. -o wide shows the conditions of every policy in scope.",
		Example: "palyra policy explain 01JZ8Q4T2M0000000000000000\n" +
			"palyra policy explain process.run workspace=demo argv=git argv=push --as agent:coder\n" +
			"palyra policy explain http.fetch url=https://example.com --vote bob:operator@cli",
		Args:              command.Args(1, -1),
		ValidArgsFunction: a.CompleteTools(),
		RunE: func(cmd *cobra.Command, given []string) error {
			return a.explainPolicy(cmd.Context(), given, f)
		},
	}
	f.register(c)
	return c
}

func (a *policyCommands) explainPolicy(ctx context.Context, given []string, f describedFlags) error {
	req := &palyrav1.ExplainPolicyRequest{}
	var g *client.Gateway
	var err error
	if _, notID := ulid.ParseStrict(given[0]); notID == nil && len(given) == 1 {
		if f.given() {
			return command.Usage("the flags do not apply to a past call, only to a call of TOOL")
		}
		req.Subject = &palyrav1.ExplainPolicyRequest_DecisionId{DecisionId: strings.ToUpper(given[0])}
		g, err = a.Connect(ctx)
	} else {
		var d *palyrav1.CallDescription
		g, d, err = a.describe(ctx, given[0], given[1:], f)
		req.Subject = &palyrav1.ExplainPolicyRequest_Call{Call: d}
	}
	if err != nil {
		return err
	}
	v, err := g.Policy.ExplainPolicy(ctx, req)
	if err != nil {
		return err
	}
	return a.printExplanation("PolicyExplanation", v, printer.ProtoObject(v), "")
}

func (a *policyCommands) policySimulate() *cobra.Command {
	var f describedFlags
	var sources []string
	var replace bool
	c := &cobra.Command{
		Use:   "simulate TOOL [key=value ...]",
		Short: "Print the policy decision for a described call; nothing runs",
		Long: "Print the policy decision for a described call, under the policies in force or\n" +
			"under other files: --policies adds them to those in force, a file of\n" +
			"the same name replaces the other; with --replace only they apply, with the\n" +
			"built-in ones. The verdict in force is shown as well.\n\n" +
			"The call is planned like a real one, without effect; --fact overrides the\n" +
			"gateway's facts. Nothing runs, no approval is requested. Exits 3 if denied.",
		Example: "palyra policy simulate process.run argv=git argv=status --policies policies/\n" +
			"palyra policy simulate http.fetch url=https://example.com --as agent:coder --fact session.tainted=true",
		Args:              command.Args(1, -1),
		ValidArgsFunction: a.CompleteTools(),
		RunE: func(cmd *cobra.Command, given []string) error {
			return a.simulatePolicy(cmd.Context(), given, f, sources, replace)
		},
	}
	f.register(c)
	c.Flags().StringArrayVar(&sources, "policies", nil, "a .cedar file, or a directory of them, that is not in force; may be repeated")
	c.Flags().BoolVar(&replace, "replace", false, "leave out the files in force; the built-in policies stay")
	_ = c.MarkFlagFilename("policies")
	return c
}

func (a *policyCommands) simulatePolicy(ctx context.Context, given []string, f describedFlags, paths []string, replace bool) error {
	sources, err := namedSources(paths)
	if err != nil {
		return err
	}
	g, d, err := a.describe(ctx, given[0], given[1:], f)
	if err != nil {
		return err
	}
	v, err := g.Policy.SimulatePolicy(ctx, &palyrav1.SimulatePolicyRequest{Call: d, Sources: sources, Replace: replace})
	if err != nil {
		return err
	}
	err = a.printExplanation("PolicySimulation", v.GetExplanation(), printer.ProtoObject(v), v.GetVerdictInForce())
	if err == nil && v.GetExplanation().GetVerdict() == policy.Deny.String() {
		return command.Exit(reason.Lookup(reason.PolicyDenied).Exit)
	}
	return err
}

// namedSources reads policy files under their names in a policy directory, so that they replace the
// ones in force.
func namedSources(paths []string) ([]*palyrav1.PolicySource, error) {
	if len(paths) == 0 {
		return nil, nil
	}
	read, err := readPolicies(paths)
	if err != nil {
		return nil, err
	}
	var sources []*palyrav1.PolicySource
	seen := make(map[string]string)
	for _, s := range read {
		name := filepath.Base(s.Name)
		if seen[name] != "" {
			return nil, command.Usage("%s and %s have the same name", seen[name], s.Name)
		}
		seen[name] = s.Name
		sources = append(sources, &palyrav1.PolicySource{Name: name, Text: s.Text})
	}
	return sources, nil
}
