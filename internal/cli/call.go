package cli

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"

	"github.com/spf13/cobra"

	palyrav1 "palyra/gen/palyra/v1"
	"palyra/internal/reason"
)

// callFlags are those of `palyra call`.
type callFlags struct {
	input, session, run, channel, key string
	dryRun                            bool
}

func (a *app) callCommand() *cobra.Command {
	var f callFlags
	c := &cobra.Command{
		Use:   "call TOOL [key=value ...]",
		Short: "Propose one tool call and print its result",
		Long: "Propose one tool call and print its result.\n\n" +
			"The input is one JSON object: --input JSON, --input @FILE, --input - for stdin,\n" +
			"or members as key=value, read as the tool's schema says; repeat a key for a\n" +
			"list, and write key:=JSON for any JSON value.\n\n" +
			"If policy asks a human, a terminal shows the call in full and takes the answer;\n" +
			"elsewhere the command that answers it is printed on stderr, and the call waits.\n" +
			"Ctrl-C ends the waiting and not the call: an approval stays pending, and the\n" +
			"call runs if it is allowed, unless `palyra approvals cancel ID` withdraws it.\n\n" +
			"The exit code is 0 whatever the tool's own exit code, which is in the result;\n" +
			"see `palyra help exit-codes`.",
		Example: "palyra call fs.read workspace=demo path=README.md\n" +
			"palyra call process.run --input '{\"workspace\":\"demo\",\"argv\":[\"git\",\"status\"]}'\n" +
			"palyra call process.run workspace=demo argv=git argv=status --dry-run",
		Args:              args(1, -1),
		ValidArgsFunction: a.completeTools,
		RunE: func(cmd *cobra.Command, given []string) error {
			return a.call(cmd.Context(), given[0], given[1:], f)
		},
	}
	flags := c.Flags()
	flags.StringVar(&f.input, "input", "", "the input: JSON, @FILE, or - for stdin")
	flags.StringVar(&f.session, "session", "", "your name for the session; an approval for the session covers later calls in it (default \"default\")")
	flags.StringVar(&f.run, "run", "", "your name for the agent run it belongs to (default: a run of its own)")
	flags.StringVar(&f.channel, "channel", "", "the messaging channel it came from, if any; policies can ask for it")
	flags.StringVar(&f.key, "idempotency-key", "", "a retry with the same key never runs the call twice (default: a new one)")
	flags.BoolVar(&f.dryRun, "dry-run", false, "say what policy would decide; nothing runs and nobody is asked")
	return c
}

func (a *app) call(ctx context.Context, toolName string, members []string, f callFlags) error {
	if err := errors.Join(checkName("session", f.session), checkName("run", f.run)); err != nil {
		return err
	}
	input, err := a.givenInput(f.input, members)
	if err != nil {
		return err
	}
	g, err := a.connect(ctx)
	if err != nil {
		return err
	}
	if len(members) > 0 {
		if input, err = inputFrom(members, g.schemaOf(ctx, toolName)); err != nil {
			return err
		}
	}
	if f.dryRun {
		return a.evaluate(ctx, g, toolName, input, f)
	}
	if f.key == "" {
		f.key = newKey()
	}
	c := &callRun{a: a, g: g, tool: toolName, key: f.key}
	return c.run(ctx, &palyrav1.CallToolRequest{
		Tool: toolName, InputJson: input, Session: f.session, Run: f.run, Channel: f.channel, IdempotencyKey: f.key,
	})
}

func newKey() string {
	raw := make([]byte, 16)
	_, _ = rand.Read(raw) // crypto/rand.Read never fails
	return "cli-" + hex.EncodeToString(raw)
}

// evaluate is `palyra call --dry-run`.
func (a *app) evaluate(ctx context.Context, g *gateway, toolName string, input []byte, f callFlags) error {
	v, err := g.calls.EvaluateTool(ctx, &palyrav1.EvaluateToolRequest{
		Tool: toolName, InputJson: input, Session: f.session, Channel: f.channel,
	})
	if err != nil {
		return err
	}
	err = a.printOne("Evaluation", record{name: v.GetVerdict(), body: protoObject(v)}, func(p *page) { evaluationPage(p, v) })
	if err == nil && v.GetVerdict() == "deny" {
		return exitError{reason.Lookup(reason.PolicyDenied).Exit}
	}
	return err
}

func evaluationPage(p *page, v *palyrav1.EvaluateToolResponse) {
	p.field("verdict", v.GetVerdict())
	p.field("reason", v.GetReason())
	p.field("because", v.GetMessage())
	p.field("next", v.GetRemedy())
	p.list("policies", determiningLines(v.GetDetermining()))
	p.field("grant", v.GetGrantId())
	p.field("subject", v.GetApprovalSubjectId())
	p.field("skill gate", v.GetSkillGateDecision())
	p.field("call digest", v.GetCallDigest())
	p.field("policy", v.GetPolicyVersion())
	p.field("snapshot", v.GetSnapshotDigest())
}
