package cli

import (
	"context"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	palyrav1 "palyra/gen/palyra/v1"
)

var runListing = listing{
	kind:    "Run",
	columns: []string{"ID", "STATE", "AT", "FOR", "MODEL", "CALLS", "TASK"},
	wide:    []string{"SESSION", "WORKSPACE", "TURNS", "TOKENS", "ENDED", "REASON"},
	empty:   "no runs",
	drop:    []string{"MODEL", "CALLS", "FOR"},
}

func (a *app) runsCommand() *cobra.Command {
	return newGroup("runs", "See, watch and cancel the runs of models",
		a.runsList(), a.runsShow(), a.runsWatch(), a.runsCancel())
}

func (a *app) runRecord(r *palyrav1.Run) record {
	u := r.GetUsage()
	return record{
		name: r.GetRunId(), body: protoObject(r),
		cells: []string{
			r.GetRunId(), short(r.GetState()), clock(r.GetStartedAt()), r.GetPrincipal(), r.GetModel(),
			strconv.Itoa(int(u.GetCalls())), firstLine(strings.TrimSpace(r.GetMessage())),
		},
		wide: []string{
			r.GetSession(), r.GetWorkspace(), strconv.Itoa(int(u.GetTurns())),
			strconv.FormatInt(u.GetInputTokens()+u.GetOutputTokens(), 10), clock(r.GetEndedAt()), r.GetReason(),
		},
	}
}

// runFilter is the flags that choose runs.
type runFilter struct {
	states             []string
	principal, session string
	since, until       string
	limit              int
}

func runStateNames() []string { return enumNames(palyrav1.RunState(0).Descriptor()) }

func (a *app) runsList() *cobra.Command {
	var f runFilter
	c := &cobra.Command{Use: "list", Short: "List runs, newest first: yours, or all if you may read the record", Args: args(0, 0),
		Example: "palyra runs list\npalyra runs list --state failed --state interrupted --since 24h",
		RunE:    func(cmd *cobra.Command, _ []string) error { return a.listRuns(cmd.Context(), f) }}
	flags := c.Flags()
	flags.StringSliceVar(&f.states, "state", nil, "only in these states: "+strings.Join(runStateNames(), ", "))
	flags.StringVar(&f.principal, "principal", "", "only started by this principal, such as agent:claude")
	flags.StringVar(&f.session, "session", "", "only in this session: its full id, as -o wide shows it")
	flags.StringVar(&f.since, "since", "", "only since a time (RFC 3339) or for so long (24h)")
	flags.StringVar(&f.until, "until", "", "only until a time (RFC 3339) or so long ago (24h)")
	flags.IntVar(&f.limit, "limit", 200, "at most so many; 0 means all")
	_ = c.RegisterFlagCompletionFunc("state", cobra.FixedCompletions(runStateNames(), cobra.ShellCompDirectiveNoFileComp))
	return c
}

func (a *app) listRunsRequest(f runFilter) (*palyrav1.ListRunsRequest, error) {
	req := &palyrav1.ListRunsRequest{Principal: f.principal, Session: f.session}
	for _, name := range f.states {
		state, err := parseEnum[palyrav1.RunState]("state", name)
		if err != nil {
			return nil, err
		}
		req.States = append(req.States, state)
	}
	var err error
	if req.Since, err = a.parseMoment("since", f.since); err != nil {
		return nil, err
	}
	req.Until, err = a.parseMoment("until", f.until)
	return req, err
}

func (a *app) listRuns(ctx context.Context, f runFilter) error {
	req, err := a.listRunsRequest(f)
	if err != nil {
		return err
	}
	g, err := a.connect(ctx)
	if err != nil {
		return err
	}
	records, more, err := collect(f.limit, func(size int32) ([]record, bool, error) {
		req.PageSize = size
		reply, err := g.calls.ListRuns(ctx, req)
		req.PageToken = reply.GetNextPageToken()
		return recordsOf(reply.GetRuns(), a.runRecord), req.PageToken != "", err
	})
	if err != nil {
		return err
	}
	if more {
		a.say("there are more; see --limit")
	}
	return a.printList(runListing, records)
}

func (a *app) runsWatch() *cobra.Command {
	var after int64
	c := &cobra.Command{
		Use:   "watch ID",
		Short: "Watch a run to its end",
		Long: "Watch a run to its end, from its beginning or after an event: what `palyra run`\n" +
			"shows, with the same exit codes. Whoever may answer for its calls is asked in\n" +
			"place. Ctrl-C ends the watching and not the run.",
		Example:           "palyra runs watch 01J...\npalyra runs watch 01J... --after 13631488 -o ndjson",
		Args:              args(1, 1),
		ValidArgsFunction: a.completeRuns(false),
		RunE: func(cmd *cobra.Command, given []string) error {
			return a.watchRun(cmd.Context(), given[0], after)
		},
	}
	c.Flags().Int64Var(&after, "after", 0, "begin after this sequence number of the run's events")
	return c
}

func (a *app) watchRun(ctx context.Context, id string, after int64) error {
	if after < 0 {
		return usage("--after %d: want 0 or more", after)
	}
	g, err := a.connect(ctx)
	if err != nil {
		return err
	}
	link := newRunLink(g)
	link.reading, link.after = true, after
	if link.runID, err = g.runID(ctx, id); err != nil {
		return err
	}
	return a.newSession(g, link, false).run(ctx)
}

func (a *app) runsCancel() *cobra.Command {
	var why string
	c := &cobra.Command{
		Use:   "cancel ID",
		Short: "Stop a run: its model, and its calls that wait or run",
		Long: "Stop a run: the request to the model's provider, the calls that wait for a\n" +
			"human, and the calls that run. What calls already did stays done.",
		Example:           "palyra runs cancel 01J... --reason \"wrong branch\"",
		Args:              args(1, 1),
		ValidArgsFunction: a.completeRuns(true),
		RunE: func(cmd *cobra.Command, given []string) error {
			return a.cancelRun(cmd.Context(), given[0], why)
		},
	}
	c.Flags().StringVar(&why, "reason", "", "why, for the journal")
	return c
}

func (a *app) cancelRun(ctx context.Context, id, why string) error {
	g, err := a.connect(ctx)
	if err != nil {
		return err
	}
	if id, err = g.runID(ctx, id); err != nil {
		return err
	}
	reply, err := g.calls.CancelRun(ctx, &palyrav1.CancelRunRequest{RunId: id, Reason: why})
	if err != nil {
		return err
	}
	r := reply.GetRun()
	return a.printOne("Run", a.runRecord(r), func(p *page) {
		p.field("run", r.GetRunId())
		p.field("state", short(r.GetState()))
		p.field("by", r.GetCancelledBy())
		p.field("because", r.GetDetail())
	})
}
