package cli

import (
	"context"
	"errors"
	"slices"
	"strings"
	"time"

	"connectrpc.com/connect"
	"github.com/spf13/cobra"
	"google.golang.org/protobuf/types/known/timestamppb"

	palyrav1 "palyra/gen/palyra/v1"
)

var approvalListing = listing{
	kind:    "Approval",
	columns: []string{"ID", "STATE", "SEVERITY", "LEFT", "FOR", "SUMMARY"},
	wide:    []string{"BY", "TOOL", "SUBJECT", "CREATED", "DIGEST", "MISSING"},
	empty:   "no approvals",
	drop:    []string{"SEVERITY", "FOR"},
}

func (a *app) approvalsCommand() *cobra.Command {
	return newGroup("approvals", "See and answer the calls that wait for a human",
		a.approvalsList(), a.approvalsShow(), a.approvalsWatch(), a.approvalsDecide(), a.approvalsCancel(), a.approvalsExport())
}

func (a *app) approvalRecord(v *palyrav1.Approval) record {
	left := ""
	if v.GetState() == palyrav1.ApprovalState_APPROVAL_STATE_PENDING {
		left = strings.TrimPrefix(a.relative(v.GetExpiresAt()), "in ")
	}
	return record{
		name: v.GetApprovalId(), body: protoObject(v),
		cells: []string{v.GetApprovalId(), short(v.GetState()), v.GetSeverity(), left, v.GetRequestedBy(), summaryOf(v)},
		wide:  []string{voters(v), v.GetPrompt().GetTool(), v.GetSubjectId(), clock(v.GetCreatedAt()), v.GetCallDigest(), v.GetMissing()},
	}
}

// voters names who answered, each once.
func voters(v *palyrav1.Approval) string {
	var users []string
	for _, vote := range v.GetVotes() {
		if !slices.Contains(users, vote.GetUser()) {
			users = append(users, vote.GetUser())
		}
	}
	return strings.Join(users, ",")
}

// approvalFilter is the flags that choose approvals.
type approvalFilter struct {
	states, types []string
	principal     string
	since, until  string
	all           bool
	limit         int
}

func (a *app) approvalsList() *cobra.Command {
	var f approvalFilter
	c := &cobra.Command{Use: "list", Short: "List the approvals that wait; --state and --all show others", Args: args(0, 0),
		Example: "palyra approvals list\npalyra approvals list --state denied --since 24h -o json",
		RunE: func(cmd *cobra.Command, _ []string) error {
			return a.listApprovals(cmd.Context(), f)
		}}
	flags := c.Flags()
	flags.StringSliceVar(&f.states, "state", nil, "only in these states: "+strings.Join(stateNames(), ", "))
	flags.StringSliceVar(&f.types, "type", nil, "only about these subject types: "+strings.Join(subjectNames(), ", "))
	flags.StringVar(&f.principal, "principal", "", "only asked by this principal, such as agent:claude")
	flags.StringVar(&f.since, "since", "", "only since a time (RFC 3339) or for so long (24h)")
	flags.BoolVar(&f.all, "all", false, "in every state")
	flags.IntVar(&f.limit, "limit", 200, "at most so many; 0 means all")
	_ = c.RegisterFlagCompletionFunc("state", cobra.FixedCompletions(stateNames(), cobra.ShellCompDirectiveNoFileComp))
	_ = c.RegisterFlagCompletionFunc("type", cobra.FixedCompletions(subjectNames(), cobra.ShellCompDirectiveNoFileComp))
	return c
}

func stateNames() []string   { return enumNames(palyrav1.ApprovalState(0).Descriptor()) }
func subjectNames() []string { return enumNames(palyrav1.ApprovalSubjectType(0).Descriptor()) }

func (f approvalFilter) parsedStates() ([]palyrav1.ApprovalState, error) {
	var states []palyrav1.ApprovalState
	for _, name := range f.states {
		s, err := parseEnum[palyrav1.ApprovalState]("state", name)
		if err != nil {
			return nil, err
		}
		states = append(states, s)
	}
	return states, nil
}

func (a *app) listRequest(f approvalFilter) (*palyrav1.ListApprovalsRequest, error) {
	states, err := f.parsedStates()
	if err != nil {
		return nil, err
	}
	if len(states) == 0 && !f.all {
		states = []palyrav1.ApprovalState{palyrav1.ApprovalState_APPROVAL_STATE_PENDING}
	}
	req := &palyrav1.ListApprovalsRequest{States: states, Principal: f.principal}
	for _, name := range f.types {
		t, err := parseEnum[palyrav1.ApprovalSubjectType]("type", name)
		if err != nil {
			return nil, err
		}
		req.SubjectTypes = append(req.SubjectTypes, t)
	}
	req.Since, err = a.parseMoment("since", f.since)
	return req, err
}

func (a *app) listApprovals(ctx context.Context, f approvalFilter) error {
	req, err := a.listRequest(f)
	if err != nil {
		return err
	}
	g, err := a.connect(ctx)
	if err != nil {
		return err
	}
	records, more, err := collect(f.limit, func(size int32) ([]record, bool, error) {
		req.PageSize = size
		reply, err := g.approvals.ListApprovals(ctx, req)
		req.PageToken = reply.GetNextPageToken()
		return recordsOf(reply.GetApprovals(), a.approvalRecord), req.PageToken != "", err
	})
	if err != nil {
		return err
	}
	if more {
		a.say("there are more; see --limit")
	}
	return a.printList(approvalListing, records)
}

func (a *app) approvalsShow() *cobra.Command {
	return &cobra.Command{Use: "show ID", Short: "Show one approval in full", Args: args(1, 1),
		ValidArgsFunction: a.completeApprovals(false),
		RunE: func(cmd *cobra.Command, given []string) error {
			g, err := a.connect(cmd.Context())
			if err != nil {
				return err
			}
			id, err := g.approvalID(cmd.Context(), given[0])
			if err != nil {
				return err
			}
			reply, err := g.approvals.GetApproval(cmd.Context(), &palyrav1.GetApprovalRequest{ApprovalId: id})
			if err != nil {
				return err
			}
			v := reply.GetApproval()
			return a.printOne("Approval", a.approvalRecord(v), func(p *page) { a.approvalPage(p, v) })
		}}
}

func (a *app) approvalsWatch() *cobra.Command {
	var cursor string
	c := &cobra.Command{Use: "watch", Short: "Print approvals as they change, until interrupted", Args: args(0, 0),
		RunE: func(cmd *cobra.Command, _ []string) error { return a.watchApprovals(cmd.Context(), cursor) }}
	c.Flags().StringVar(&cursor, "cursor", "", "go on after this cursor, which WatchApprovals of the API gave")
	return c
}

func (a *app) watchApprovals(ctx context.Context, cursor string) error {
	g, err := a.connect(ctx)
	if err != nil {
		return err
	}
	first := true
	err = a.follow(ctx, func() (bool, error) {
		stream, err := g.approvals.WatchApprovals(ctx, &palyrav1.WatchApprovalsRequest{Cursor: cursor})
		if err != nil {
			return false, err
		}
		defer func() { _ = stream.Close() }()
		received := false
		for stream.Receive() {
			received = true
			msg := stream.Msg()
			cursor = firstOf(msg.GetCursor(), cursor)
			if msg.GetApproval() == nil {
				continue
			}
			if err := a.printStream(approvalListing, a.approvalRecord(msg.GetApproval()), first); err != nil {
				return received, err
			}
			first = false
		}
		return received, stream.Err()
	})
	return endOfWatch(ctx, err)
}

// endOfWatch makes an interrupt the normal end of an endless list.
func endOfWatch(ctx context.Context, err error) error {
	if ctx.Err() != nil && (errors.Is(err, context.Canceled) || connect.CodeOf(err) == connect.CodeCanceled) {
		return nil
	}
	return err
}

func (a *app) approvalsExport() *cobra.Command {
	var f approvalFilter
	var form string
	c := &cobra.Command{Use: "export", Short: "Export approvals with a trailer that proves completeness", Args: args(0, 0),
		RunE: func(cmd *cobra.Command, _ []string) error { return a.exportApprovals(cmd.Context(), f, form) }}
	flags := c.Flags()
	flags.StringVar(&form, "format", "ndjson", "ndjson or json")
	flags.StringSliceVar(&f.states, "state", nil, "only in these states: "+strings.Join(stateNames(), ", "))
	flags.StringVar(&f.since, "since", "", "only since a time (RFC 3339) or for so long (24h)")
	flags.StringVar(&f.until, "until", "", "only until a time (RFC 3339) or so long ago (24h)")
	_ = c.RegisterFlagCompletionFunc("format", cobra.FixedCompletions([]string{"ndjson", "json"}, cobra.ShellCompDirectiveNoFileComp))
	return c
}

func (a *app) exportApprovals(ctx context.Context, f approvalFilter, form string) error {
	req := &palyrav1.ExportApprovalsRequest{}
	var err error
	if req.Format, err = parseEnum[palyrav1.ExportFormat]("format", form); err != nil {
		return err
	}
	if req.States, err = f.parsedStates(); err != nil {
		return err
	}
	if req.Since, err = a.parseMoment("since", f.since); err != nil {
		return err
	}
	if req.Until, err = a.parseMoment("until", f.until); err != nil {
		return err
	}
	g, err := a.connect(ctx)
	if err != nil {
		return err
	}
	stream, err := g.approvals.ExportApprovals(ctx, req)
	if err != nil {
		return err
	}
	defer func() { _ = stream.Close() }()
	for stream.Receive() {
		if err := a.writeRaw(stream.Msg().GetData()); err != nil {
			return err
		}
	}
	return stream.Err()
}

// writeRaw writes exported bytes as they are, unless a person is looking.
func (a *app) writeRaw(data []byte) error {
	if a.streams.OutTerminal {
		data = visibleJSON(data)
	}
	_, err := a.out.Write(data)
	return err
}

// parseMoment reads a time, or a duration before now; "" is none.
func (a *app) parseMoment(flag, s string) (*timestamppb.Timestamp, error) {
	if s == "" {
		return nil, nil
	}
	if t, err := time.Parse(time.RFC3339, s); err == nil {
		return timestamppb.New(t), nil
	}
	if d, err := parseSpan(s); err == nil && d >= 0 {
		return timestamppb.New(a.now().Add(-d)), nil
	}
	return nil, usage("--%s %q: want a time such as 2026-01-31T15:00:00Z or a duration such as 24h", flag, s)
}
