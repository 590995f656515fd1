package calls

import (
	"context"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	palyrav1 "palyra/gen/palyra/v1"
	"palyra/internal/cli/calls/ask"
	"palyra/internal/cli/client"
	"palyra/internal/cli/command"
	"palyra/internal/cli/printer"
)

// approvalCommands provides the commands of this family.
type approvalCommands struct{ *client.App }

var approvalListing = printer.Listing{
	Kind:    "Approval",
	Columns: []string{"ID", "STATE", "SEVERITY", "LEFT", "FOR", "SUMMARY"},
	Wide:    []string{"BY", "TOOL", "SUBJECT", "CREATED", "DIGEST", "MISSING"},
	Empty:   "no approvals",
	Drop:    []string{"SEVERITY", "FOR", "STATE"},
}

// ApprovalsCommand is `palyra approvals`.
func ApprovalsCommand(program *client.App) *cobra.Command {
	a, d := &approvalCommands{program}, &answerCommands{program}
	return command.NewGroup("approvals", "List and answer pending approvals",
		a.approvalsList(), a.approvalsShow(), a.approvalsWatch(), d.approvalsDecide(), d.approvalsEdit(), d.approvalsSign(), a.approvalsCancel(), a.approvalsExport())
}

// recordOf returns approvalRecord for a list.
func recordOf(a *client.App) func(*palyrav1.Approval) printer.Record {
	return func(v *palyrav1.Approval) printer.Record { return approvalRecord(a, v) }
}

func approvalRecord(a *client.App, v *palyrav1.Approval) printer.Record {
	left := ""
	if v.GetState() == palyrav1.ApprovalState_APPROVAL_STATE_PENDING {
		left = strings.TrimPrefix(a.Relative(v.GetExpiresAt()), "in ")
	}
	return printer.Record{
		Name: v.GetApprovalId(), Body: printer.ProtoObject(v),
		Cells: []string{v.GetApprovalId(), printer.Enum(v.GetState()), v.GetSeverity(), left, v.GetRequestedBy(), ask.ApprovalSummary(v)},
		Wide:  []string{voters(v), v.GetPrompt().GetTool(), v.GetSubjectId(), printer.Clock(v.GetCreatedAt()), v.GetCallDigest(), v.GetMissing()},
	}
}

// voters lists the voters, each once.
func voters(v *palyrav1.Approval) string {
	var users []string
	for _, vote := range v.GetVotes() {
		if !slices.Contains(users, vote.GetUser()) {
			users = append(users, vote.GetUser())
		}
	}
	return strings.Join(users, ",")
}

// approvalFilter has the flags that filter approvals.
type approvalFilter struct {
	states, types, principals, tools, severities []string
	except                                       struct{ states, types, principals, tools, severities []string }
	since, until                                 string
	all, oldest                                  bool
	limit                                        int
}

func (a *approvalCommands) approvalsList() *cobra.Command {
	var f approvalFilter
	c := &cobra.Command{Use: "list", Short: "List pending approvals; use --state and --all for others", Args: command.Args(0, 0),
		Example: "palyra approvals list\npalyra approvals list --state denied --since 24h -o json",
		RunE: func(cmd *cobra.Command, _ []string) error {
			return a.listApprovals(cmd.Context(), f)
		}}
	flags := c.Flags()
	flags.StringSliceVar(&f.states, "state", nil, "only in these states: "+strings.Join(stateNames(), ", "))
	flags.StringSliceVar(&f.types, "type", nil, "only about these subject types: "+strings.Join(subjectNames(), ", "))
	flags.StringSliceVar(&f.principals, "principal", nil, "only asked by these principals, such as agent:claude, or on their behalf")
	flags.StringSliceVar(&f.tools, "tool", nil, "only about these tools")
	flags.StringSliceVar(&f.severities, "severity", nil, "only of these severities: low, medium, high, critical")
	flags.StringSliceVar(&f.except.states, "except-state", nil, "not in these states")
	flags.StringSliceVar(&f.except.types, "except-type", nil, "not about these subject types")
	flags.StringSliceVar(&f.except.principals, "except-principal", nil, "not asked by these principals, nor on their behalf")
	flags.StringSliceVar(&f.except.tools, "except-tool", nil, "not about these tools")
	flags.StringSliceVar(&f.except.severities, "except-severity", nil, "not of these severities")
	flags.BoolVar(&f.oldest, "oldest", false, "the oldest first")
	flags.StringVar(&f.since, "since", "", "only since a time (RFC 3339) or a duration ago (24h)")
	flags.BoolVar(&f.all, "all", false, "in every state")
	flags.IntVar(&f.limit, "limit", 200, "maximum number of entries; 0 means all")
	_ = c.RegisterFlagCompletionFunc("state", cobra.FixedCompletions(stateNames(), cobra.ShellCompDirectiveNoFileComp))
	_ = c.RegisterFlagCompletionFunc("type", cobra.FixedCompletions(subjectNames(), cobra.ShellCompDirectiveNoFileComp))
	return c
}

func stateNames() []string { return printer.EnumNames(palyrav1.ApprovalState(0).Descriptor()) }

func subjectNames() []string { return printer.EnumNames(palyrav1.ApprovalSubjectType(0).Descriptor()) }

func (a *approvalCommands) listRequest(f approvalFilter) (*palyrav1.ListApprovalsRequest, error) {
	req := &palyrav1.ListApprovalsRequest{
		Principals: f.principals, Tools: f.tools, Severities: f.severities,
		ExceptPrincipals: f.except.principals, ExceptTools: f.except.tools, ExceptSeverities: f.except.severities, Ascending: f.oldest,
	}
	var err error
	if req.States, err = printer.ParseEnums[palyrav1.ApprovalState]("state", f.states); err != nil {
		return nil, err
	}
	if req.ExceptStates, err = printer.ParseEnums[palyrav1.ApprovalState]("except-state", f.except.states); err != nil {
		return nil, err
	}
	if req.SubjectTypes, err = printer.ParseEnums[palyrav1.ApprovalSubjectType]("type", f.types); err != nil {
		return nil, err
	}
	if req.ExceptSubjectTypes, err = printer.ParseEnums[palyrav1.ApprovalSubjectType]("except-type", f.except.types); err != nil {
		return nil, err
	}
	if len(f.states)+len(f.except.states) == 0 && !f.all {
		req.States = []palyrav1.ApprovalState{palyrav1.ApprovalState_APPROVAL_STATE_PENDING}
	}
	req.Since, err = command.ParseMoment("since", f.since, a.Now())
	return req, err
}

func (a *approvalCommands) listApprovals(ctx context.Context, f approvalFilter) error {
	req, err := a.listRequest(f)
	if err != nil {
		return err
	}
	g, err := a.Connect(ctx)
	if err != nil {
		return err
	}
	return client.List(a.App, approvalListing, f.limit, approvalPages(ctx, g, req), recordOf(a.App))
}

func (a *approvalCommands) approvalsShow() *cobra.Command {
	return &cobra.Command{Use: "show ID", Short: "Show one approval in full", Args: command.Args(1, 1),
		ValidArgsFunction: completeApprovals(a.App, false),
		RunE: a.Connected(func(ctx context.Context, g *client.Gateway, given []string) error {
			id, err := findApproval(ctx, g, given[0])
			if err != nil {
				return err
			}
			reply, err := g.Approvals.GetApproval(ctx, &palyrav1.GetApprovalRequest{ApprovalId: id})
			if err != nil {
				return err
			}
			v := reply.GetApproval()
			return a.PrintOne("Approval", approvalRecord(a.App, v), func(p *printer.Page) {
				ask.Page(a.App, p, v)
				p.Block("proofs", strings.Join(provenLines(ctx, a.App, g, v), "\n"))
			})
		})}
}

func (a *approvalCommands) approvalsExport() *cobra.Command {
	var f approvalFilter
	var form string
	c := &cobra.Command{Use: "export", Short: "Export approvals as NDJSON, JSON or CSV, with a trailer that proves completeness", Args: command.Args(0, 0),
		Long:    "Export approvals as NDJSON, JSON or CSV. The trailer, which is the last line, member\nor row, has their number and a digest of them all. In CSV no cell is a formula: an\napostrophe precedes any text that would start one; the last column has the\nunchanged lines of NDJSON.",
		Example: "palyra approvals export --since 720h --format csv > approvals.csv",
		RunE:    func(cmd *cobra.Command, _ []string) error { return a.exportApprovals(cmd.Context(), f, form) }}
	flags := c.Flags()
	flags.StringVar(&form, "format", "ndjson", "one of "+strings.Join(formatNames(), ", "))
	flags.StringSliceVar(&f.states, "state", nil, "only in these states: "+strings.Join(stateNames(), ", "))
	flags.StringVar(&f.since, "since", "", "only since a time (RFC 3339) or a duration ago (24h)")
	flags.StringVar(&f.until, "until", "", "only until a time (RFC 3339) or a duration ago (24h)")
	_ = c.RegisterFlagCompletionFunc("format", cobra.FixedCompletions(formatNames(), cobra.ShellCompDirectiveNoFileComp))
	return c
}

func formatNames() []string { return printer.EnumNames(palyrav1.ExportFormat(0).Descriptor()) }

func (a *approvalCommands) exportApprovals(ctx context.Context, f approvalFilter, form string) error {
	req := &palyrav1.ExportApprovalsRequest{}
	var err error
	if req.Format, err = printer.ParseEnum[palyrav1.ExportFormat]("format", form); err != nil {
		return err
	}
	if req.States, err = printer.ParseEnums[palyrav1.ApprovalState]("state", f.states); err != nil {
		return err
	}
	if req.Since, err = command.ParseMoment("since", f.since, a.Now()); err != nil {
		return err
	}
	if req.Until, err = command.ParseMoment("until", f.until, a.Now()); err != nil {
		return err
	}
	g, err := a.Connect(ctx)
	if err != nil {
		return err
	}
	stream, err := g.Approvals.ExportApprovals(ctx, req)
	if err != nil {
		return err
	}
	defer func() { _ = stream.Close() }()
	for stream.Receive() {
		if err := a.WriteRaw(stream.Msg().GetData()); err != nil {
			return err
		}
	}
	return stream.Err()
}

func completeApprovals(a *client.App, pendingOnly bool) cobra.CompletionFunc {
	return client.Suggest(a, func(ctx context.Context, g *client.Gateway) ([]*palyrav1.Approval, error) {
		req := &palyrav1.ListApprovalsRequest{}
		if pendingOnly {
			req.States = []palyrav1.ApprovalState{palyrav1.ApprovalState_APPROVAL_STATE_PENDING}
		}
		return client.SuggestPage(approvalPages(ctx, g, req))
	}, func(v *palyrav1.Approval) (string, string) {
		return v.GetApprovalId(), printer.Enum(v.GetState()) + " " + ask.ApprovalSummary(v)
	})
}

// approvalPages returns a list of approvals page by page.
func approvalPages(ctx context.Context, g *client.Gateway, req *palyrav1.ListApprovalsRequest) client.Pages[*palyrav1.Approval] {
	return func(size int32) ([]*palyrav1.Approval, bool, error) {
		req.PageSize = size
		reply, err := g.Approvals.ListApprovals(ctx, req)
		req.PageToken = reply.GetNextPageToken()
		return reply.GetApprovals(), req.PageToken != "", err
	}
}

func findApproval(ctx context.Context, g *client.Gateway, given string) (string, error) {
	return client.FindListed("approval", given, approvalPages(ctx, g, &palyrav1.ListApprovalsRequest{}), (*palyrav1.Approval).GetApprovalId)
}
