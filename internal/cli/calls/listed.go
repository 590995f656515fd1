package calls

import (
	"cmp"
	"context"
	"fmt"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	palyrav1 "palyra/gen/palyra/v1"
	"palyra/internal/cli/calls/ask"
	"palyra/internal/cli/client"
	"palyra/internal/cli/command"
	"palyra/internal/cli/printer"
)

var callListing = printer.Listing{
	Kind:    "Call",
	Columns: []string{"ID", "STATE", "AT", "TOOL", "WHAT"},
	Wide:    []string{"BY", "FOR", "RUN", "CALL ID", "EXIT", "REASON", "ENDED"},
	Empty:   "no calls",
	Drop:    []string{"AT", "TOOL"},
}

// ListedCommand is `palyra calls`.
func ListedCommand(program *client.App) *cobra.Command {
	a := &app{program}
	return command.NewGroup("calls", "List and cancel calls: waiting, running and ended ones",
		a.callsList(), a.callsShow(), a.callsCancel())
}

// stateOrOutcome returns the state of a call, or its outcome once it has one.
func stateOrOutcome(c *palyrav1.Call) string {
	return cmp.Or(c.GetOutcome(), printer.Enum(c.GetState()))
}

func callRecord(c *palyrav1.Call) printer.Record {
	exit := ""
	if c.ExitCode != nil {
		exit = strconv.Itoa(int(c.GetExitCode()))
	}
	return printer.Record{
		Name: c.GetProposalId(), Body: printer.ProtoObject(c),
		Cells: []string{c.GetProposalId(), stateOrOutcome(c), printer.Clock(c.GetProposedAt()), c.GetTool(), ask.Summary(c.GetArgumentsJson())},
		Wide:  []string{c.GetPrincipal(), c.GetOnBehalfOf(), c.GetRun(), c.GetCallId(), exit, c.GetReason(), printer.Clock(c.GetEndedAt())},
	}
}

func (a *app) callsList() *cobra.Command {
	req := &palyrav1.ListCallsRequest{}
	limit := 0
	c := &cobra.Command{
		Use: "list", Short: "List calls, newest first: yours and your agents', or all if you may read the record", Args: command.Args(0, 0),
		Long: "List calls, newest first, with their outcomes: yours and your agents', or all\n" +
			"if you may read the record.",
		Example: "palyra calls list\npalyra calls list --open\npalyra calls list --run 01J...",
		RunE: a.Connected(func(ctx context.Context, g *client.Gateway, _ []string) error {
			return client.List(a.App, callListing, limit, callPages(ctx, g, req), callRecord)
		}),
	}
	flags := c.Flags()
	flags.BoolVar(&req.Open, "open", false, "only waiting and running calls")
	flags.StringVar(&req.Run, "run", "", "only calls of this run")
	flags.StringVar(&req.Principal, "principal", "", "only calls of this principal, such as agent:claude")
	flags.IntVar(&limit, "limit", 50, "maximum number of calls; 0 means all")
	return c
}

// mostCalls is the largest page of calls.
const mostCalls = 200

// callPages returns a list of calls page by page.
func callPages(ctx context.Context, g *client.Gateway, req *palyrav1.ListCallsRequest) client.Pages[*palyrav1.Call] {
	return func(size int32) ([]*palyrav1.Call, bool, error) {
		req.PageSize = min(size, mostCalls)
		reply, err := g.Calls.ListCalls(ctx, req)
		req.PageToken = reply.GetNextPageToken()
		return reply.GetCalls(), req.PageToken != "", err
	}
}

// findCall completes the id of one of the newest calls.
func findCall(ctx context.Context, g *client.Gateway, given string) (string, error) {
	newest := callPages(ctx, g, &palyrav1.ListCallsRequest{})
	return client.FindListed("call", given, func(size int32) ([]*palyrav1.Call, bool, error) {
		list, _, err := newest(size)
		return list, false, err
	}, (*palyrav1.Call).GetProposalId)
}

func (a *app) completeCalls(openOnly bool) cobra.CompletionFunc {
	return client.Suggest(a.App, func(ctx context.Context, g *client.Gateway) ([]*palyrav1.Call, error) {
		return client.SuggestPage(callPages(ctx, g, &palyrav1.ListCallsRequest{Open: openOnly}))
	}, func(c *palyrav1.Call) (string, string) {
		return c.GetProposalId(), stateOrOutcome(c) + " " + ask.Summary(c.GetArgumentsJson())
	})
}

func (a *app) callsShow() *cobra.Command {
	return &cobra.Command{
		Use: "show ID", Short: "Show one call and its events", Args: command.Args(1, 1),
		Long: "Show one call by the id of its proposal: the tool, the state or outcome\n" +
			"with its reason, and each of its events in the record.",
		Example: "palyra calls show 01J...\npalyra calls show 01J... -o json", ValidArgsFunction: a.completeCalls(false),
		RunE: a.Connected(func(ctx context.Context, g *client.Gateway, given []string) error {
			return a.showCall(ctx, g, given[0])
		}),
	}
}

func (a *app) showCall(ctx context.Context, g *client.Gateway, given string) error {
	id, err := findCall(ctx, g, given)
	if err != nil {
		return err
	}
	reply, err := g.Calls.GetCall(ctx, &palyrav1.GetCallRequest{ProposalId: id})
	if err != nil {
		return err
	}
	c := reply.GetCall()
	rec := callRecord(c)
	var steps []any
	for _, s := range reply.GetSteps() {
		steps = append(steps, printer.ProtoObject(s))
	}
	rec.Body = append(rec.Body, printer.Member{"steps", steps})
	return a.PrintOne("Call", rec, func(p *printer.Page) {
		a.callPage(p, c)
		p.Gap()
		for _, s := range reply.GetSteps() {
			p.Item(stepLine(s))
		}
		next(p, c)
	})
}

func (a *app) callPage(p *printer.Page, c *palyrav1.Call) {
	p.Field("call", c.GetProposalId())
	p.Field("state", stateOrOutcome(c))
	p.Field("reason", c.GetReason())
	p.Wrapped("because", c.GetMessage())
	p.Wrapped("next", c.GetRemedy())
	p.Field("tool", c.GetTool())
	p.Wrapped("what", ask.Summary(c.GetArgumentsJson()))
	if c.ExitCode != nil {
		p.Field("exit code", strconv.Itoa(int(c.GetExitCode())))
	}
	p.Field("for", printer.OnBehalf(c.GetPrincipal(), c.GetOnBehalfOf()))
	p.Field("session", c.GetSession())
	if c.GetRun() != c.GetProposalId() {
		p.Field("run", c.GetRun())
	}
	p.Field("call id", c.GetCallId())
	p.Field("proposed", a.Moment(c.GetProposedAt()))
	if c.GetEndedAt() != nil {
		p.Field("ended", a.Moment(c.GetEndedAt()))
	}
	p.Field("approval", c.GetApprovalId())
	p.Field("grant", c.GetGrantId())
	p.Field("decision", c.GetDecisionId())
	p.Field("attestation", c.GetAttestationId())
}

func stepLine(s *palyrav1.CallStep) string {
	var more []string
	for _, part := range []string{strings.TrimSpace(s.GetKind() + " " + s.GetId()), s.GetReason(), s.GetMessage()} {
		if part != "" {
			more = append(more, part)
		}
	}
	return fmt.Sprintf("%s  %-10s %s", s.GetAt().AsTime().UTC().Format("15:04:05.000"), s.GetWhat(), strings.Join(more, ", "))
}

// next prints the commands that apply to a call in its state.
func next(p *printer.Page, c *palyrav1.Call) {
	p.Gap()
	switch c.GetState() {
	case palyrav1.CallState_CALL_STATE_WAITING:
		p.Item("answer it:  palyra approve " + c.GetApprovalId())
		p.Item("end it:     palyra calls cancel " + c.GetProposalId())
	case palyrav1.CallState_CALL_STATE_RUNNING:
		p.Item("end it:     palyra calls cancel " + c.GetProposalId())
	case palyrav1.CallState_CALL_STATE_ENDED:
		if c.GetDecisionId() != "" {
			p.Item("why:        palyra approvals why " + c.GetProposalId())
		}
	}
}

func (a *app) callsCancel() *cobra.Command {
	var why string
	c := &cobra.Command{
		Use: "cancel ID", Short: "End a waiting or running call", Args: command.Args(1, 1),
		Long: "End a call: its approval is withdrawn, or its program is stopped. Its changes\n" +
			"in its copy of a workspace are discarded; committed changes stay. A call\n" +
			"that has ended is not affected. A retry with its idempotency key does not run it\n" +
			"again.",
		Example: "palyra calls cancel 01J... --reason \"wrong branch\"", ValidArgsFunction: a.completeCalls(true),
		RunE: client.ShowOne(a.App, "Call", callRecord, func(p *printer.Page, c *palyrav1.Call) {
			p.Field("call", c.GetProposalId())
			p.Field("state", stateOrOutcome(c))
			p.Wrapped("because", c.GetMessage())
			p.Field("ended", a.Moment(c.GetEndedAt()))
		}, func(ctx context.Context, g *client.Gateway, given []string) (*palyrav1.Call, error) {
			id, err := findCall(ctx, g, given[0])
			if err != nil {
				return nil, err
			}
			reply, err := g.Calls.CancelCall(ctx, &palyrav1.CancelCallRequest{ProposalId: id, Reason: why})
			return reply.GetCall(), err
		}),
	}
	c.Flags().StringVar(&why, "reason", "", "the reason, for the journal")
	return c
}
