// Package calls has the commands that call and list tools, show and answer approvals, list and
// revoke grants, show and end sessions, and show and undo what programs changed in workspaces.
package calls

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	palyrav1 "palyra/gen/palyra/v1"
	"palyra/internal/cli/calls/ask"
	"palyra/internal/cli/client"
	"palyra/internal/cli/command"
	"palyra/internal/cli/printer"
	"palyra/internal/core/reason"
)

// app provides the commands of this family.
type app struct{ *client.App }

// callFlags are the flags of `palyra call`.
type callFlags struct {
	input, session, run, channel, key, reason string
	dryRun                                    bool
}

// Command is `palyra call`.
func Command(program *client.App) *cobra.Command {
	a := &app{program}
	var f callFlags
	c := &cobra.Command{
		Use:   "call TOOL [key=value ...]",
		Short: "Propose one tool call and print its result",
		Long: "Propose one tool call and print its result.\n\n" +
			"The input is one JSON object: --input JSON, --input @FILE, --input - for stdin,\n" +
			"or members as key=value, with types from the tool's schema; repeat a key for a\n" +
			"list, and write key:=JSON for any JSON value.\n\n" +
			"A call that names no workspace uses the one with the current directory;\n" +
			"path= and cwd= are then relative to that directory, and may be absolute.\n" +
			"Elsewhere it uses the only workspace, or the one named default. With\n" +
			"workspace=NAME names are relative to the workspace; --input is sent unchanged.\n\n" +
			"If approval is needed, a terminal shows the call in full and asks for an answer;\n" +
			"otherwise the answering commands are printed on stderr, and the call waits.\n" +
			"Ctrl-C ends only the waiting: an approval stays pending, and the\n" +
			"call runs if it is allowed, unless `palyra approvals cancel ID` withdraws it.\n\n" +
			"A policy may require a reason before approval is requested (@ask_reason): use\n" +
			"--reason, or enter it when the terminal asks.\n\n" +
			"The exit code is 0 for any exit code of the tool, which is in the result;\n" +
			"see `palyra help exit-codes`.",
		Example: "palyra call fs.read path=README.md\n" +
			"palyra call fs.read workspace=demo path=README.md\n" +
			"palyra call process.run --input '{\"workspace\":\"demo\",\"argv\":[\"git\",\"status\"]}'\n" +
			"palyra call process.run workspace=demo argv=git argv=status --dry-run",
		Args:              command.Args(1, -1),
		ValidArgsFunction: a.CompleteTools(),
		RunE: func(cmd *cobra.Command, given []string) error {
			return a.call(cmd.Context(), given[0], given[1:], f)
		},
	}
	flags := c.Flags()
	flags.StringVar(&f.input, "input", "", "the input: JSON, @FILE, or - for stdin")
	flags.StringVar(&f.session, "session", "", "your name for the session; an approval for the session covers later calls in it (default: one for each terminal, \"default\" without one)")
	flags.StringVar(&f.run, "run", "", "your name for the agent run it belongs to (default: a run of its own)")
	flags.StringVar(&f.channel, "channel", "", "the messaging channel it came from, if any; policies can ask for it")
	flags.StringVar(&f.key, "idempotency-key", "", "a retry with the same key never runs the call twice (default: a new one)")
	flags.StringVar(&f.reason, "reason", "", "the reason for the call, such as a ticket: approvers see it, and policies can require it")
	flags.BoolVar(&f.dryRun, "dry-run", false, "print the policy decision; nothing runs and no approval is requested")
	return c
}

func (a *app) call(ctx context.Context, toolName string, members []string, f callFlags) error {
	if err := errors.Join(command.CheckName("session", f.session), command.CheckName("run", f.run)); err != nil {
		return err
	}
	f.session = cmp.Or(f.session, a.Terminal)
	input, err := ask.GivenInput(a.App, f.input, members)
	if err != nil {
		return err
	}
	g, err := a.Connect(ctx)
	if err != nil {
		return err
	}
	if f.input == "" {
		if input, err = ask.Typed(ctx, g, toolName, members); err != nil {
			return err
		}
	}
	if f.dryRun {
		return a.evaluate(ctx, g, toolName, input, f)
	}
	return a.propose(ctx, g, f, &palyrav1.CallToolRequest{
		Tool: toolName, InputJson: input, Session: f.session, Run: f.run, Channel: f.channel, IdempotencyKey: f.key, RequesterReason: f.reason,
	})
}

// propose makes the call. If policy requires a reason, it asks for one in a terminal, once, and
// repeats the call with a new idempotency key.
func (a *app) propose(ctx context.Context, g *client.Gateway, f callFlags, req *palyrav1.CallToolRequest) error {
	once := func() error {
		req.IdempotencyKey = cmp.Or(f.key, ask.NewKey())
		c := &callRun{a: a, g: g, tool: req.GetTool(), key: req.GetIdempotencyKey(), session: f.session}
		return c.run(ctx, req)
	}
	err := once()
	question, wanted := reasonWanted(err)
	if !wanted || f.reason != "" || f.key != "" || !a.Interactive() {
		return err
	}
	a.Say("policy requires a reason before approval: %s", printer.VisibleLine(question))
	said, asking := a.Ask(ctx, "why> ")
	if asking != nil || strings.TrimSpace(said) == "" {
		return cmp.Or(asking, err)
	}
	req.RequesterReason = said
	return once()
}

// reasonWanted returns the question of policy if a call was refused for lack of a reason.
func reasonWanted(err error) (question string, wanted bool) {
	if err == nil {
		return "", false
	}
	info := client.ErrorInfo(client.AsRemote(err))
	return info.GetMetadata()["question"], info.GetReason() == string(reason.RequestReasonNeeded)
}

// evaluate is `palyra call --dry-run`.
func (a *app) evaluate(ctx context.Context, g *client.Gateway, toolName string, input []byte, f callFlags) error {
	v, err := g.Calls.EvaluateTool(ctx, &palyrav1.EvaluateToolRequest{
		Tool: toolName, InputJson: input, Session: f.session, Channel: f.channel, RequesterReason: f.reason,
	})
	if err != nil {
		return err
	}
	strictest := strictest(v)
	err = a.PrintOne("Evaluation", printer.Record{Name: strictest, Body: printer.ProtoObject(v)}, func(p *printer.Page) { evaluationPage(p, v) })
	if err == nil && strictest == "deny" {
		return command.Exit(reason.Lookup(reason.PolicyDenied).Exit)
	}
	return err
}

// strictest returns the strictest verdict on the call and on the secrets of its program.
func strictest(v *palyrav1.EvaluateToolResponse) string {
	verdict := v.GetVerdict()
	for _, s := range v.GetSecrets() {
		if s.GetVerdict() == "deny" || s.GetVerdict() == "ask" && verdict == "allow" {
			verdict = s.GetVerdict()
		}
	}
	return verdict
}

func evaluationPage(p *printer.Page, v *palyrav1.EvaluateToolResponse) {
	p.Field("verdict", v.GetVerdict())
	p.Field("reason", v.GetReason())
	p.Field("because", v.GetMessage())
	p.Field("next", v.GetRemedy())
	if v.GetFrozen() {
		p.Field("frozen", "the gateway refuses every call until `palyra thaw`")
	}
	p.Field("wants to know", v.GetRequesterReasonWanted())
	p.List("policies", ask.DeterminingLines(v.GetDetermining()))
	p.Wrapped("skill", v.GetSkillGateDecision().GetMessage())
	p.List("secrets", secretLines(v.GetSecrets()))
	p.List("denied hosts", v.GetDeniedHosts())
	p.Field("grant", v.GetGrantId())
	p.Field("subject", v.GetApprovalSubjectId())
	p.Field("call digest", v.GetCallDigest())
	p.Field("policy", v.GetPolicyVersion())
	p.Field("snapshot", v.GetSnapshotDigest())
}

// secretLines returns lines such as "vault://global/aws, version 2, in the variable AWS_KEY: ask, a
// human has to approve".
func secretLines(list []*palyrav1.SecretEvaluation) []string {
	lines := make([]string, len(list))
	for n, s := range list {
		where := "in the variable " + s.GetEnv()
		if s.GetFile() != "" {
			where = "in the file " + s.GetFile()
		}
		if s.GetSkill() != "" {
			where = "for the guest of the skill " + s.GetSkill()
		}
		lines[n] = fmt.Sprintf("vault://%s, version %d, %s: %s", s.GetRef(), s.GetVersion(), where, s.GetVerdict())
		if s.GetMessage() != "" {
			lines[n] += ", " + s.GetMessage()
		}
		for _, policy := range ask.DeterminingLines(s.GetDetermining()) {
			lines[n] += "; " + policy
		}
	}
	return lines
}
