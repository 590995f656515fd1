// Package runs has the commands that start, watch, list, message and cancel the runs of models.
package runs

import (
	"context"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	palyrav1 "palyra/gen/palyra/v1"
	"palyra/internal/cli/calls/ask"
	"palyra/internal/cli/client"
	"palyra/internal/cli/command"
	"palyra/internal/cli/printer"
)

// app is one run of the program, with the commands of this family.
type app struct{ *client.App }

var runListing = printer.Listing{
	Kind:    "Run",
	Columns: []string{"ID", "STATE", "AT", "FOR", "MODEL", "CALLS", "TASK"},
	Wide:    []string{"SESSION", "WORKSPACE", "TURNS", "TOKENS", "ENDED", "REASON"},
	Empty:   "no runs",
	Drop:    []string{"MODEL", "CALLS", "FOR"},
}

// Command is `palyra runs`. Its reports use prove to verify events.
func Command(program *client.App, prove Prover) *cobra.Command {
	a := &app{program}
	return command.NewGroup("runs", "List, watch, message and cancel the runs of models",
		a.runsList(), a.runsShow(), a.runsReport(prove), a.runsWatch(), a.runsMessage(), a.runsCancel())
}

func (a *app) runRecord(r *palyrav1.Run) printer.Record {
	u := r.GetUsage()
	return printer.Record{
		Name: r.GetRunId(), Body: printer.ProtoObject(r),
		Cells: []string{
			r.GetRunId(), printer.Enum(r.GetState()), printer.Clock(r.GetStartedAt()), r.GetPrincipal(), r.GetModel(),
			strconv.Itoa(int(u.GetCalls())), printer.FirstLine(strings.TrimSpace(r.GetMessage())),
		},
		Wide: []string{
			r.GetSession(), r.GetWorkspace(), strconv.Itoa(int(u.GetTurns())),
			strconv.FormatInt(u.GetInputTokens()+u.GetOutputTokens(), 10), printer.Clock(r.GetEndedAt()), r.GetReason(),
		},
	}
}

// runFilter holds the flags of `palyra runs list`.
type runFilter struct {
	states             []string
	principal, session string
	since, until       string
	limit              int
}

func runStateNames() []string { return printer.EnumNames(palyrav1.RunState(0).Descriptor()) }

func (a *app) runsList() *cobra.Command {
	var f runFilter
	c := &cobra.Command{Use: "list", Short: "List runs, newest first: yours, or all if you may read the record", Args: command.Args(0, 0),
		Example: "palyra runs list\npalyra runs list --state failed --state interrupted --since 24h",
		RunE:    func(cmd *cobra.Command, _ []string) error { return a.listRuns(cmd.Context(), f) }}
	flags := c.Flags()
	flags.StringSliceVar(&f.states, "state", nil, "only in these states: "+strings.Join(runStateNames(), ", "))
	flags.StringVar(&f.principal, "principal", "", "only started by this principal, such as agent:claude")
	flags.StringVar(&f.session, "session", "", "only in this session: its full id, as -o wide shows it")
	flags.StringVar(&f.since, "since", "", "only since a time (RFC 3339) or a duration ago (24h)")
	flags.StringVar(&f.until, "until", "", "only until a time (RFC 3339) or a duration ago (24h)")
	flags.IntVar(&f.limit, "limit", 200, "maximum number of runs; 0 means all")
	_ = c.RegisterFlagCompletionFunc("state", cobra.FixedCompletions(runStateNames(), cobra.ShellCompDirectiveNoFileComp))
	return c
}

func (a *app) listRunsRequest(f runFilter) (*palyrav1.ListRunsRequest, error) {
	req := &palyrav1.ListRunsRequest{Principal: f.principal, Session: f.session}
	for _, name := range f.states {
		state, err := printer.ParseEnum[palyrav1.RunState]("state", name)
		if err != nil {
			return nil, err
		}
		req.States = append(req.States, state)
	}
	var err error
	if req.Since, err = command.ParseMoment("since", f.since, a.Now()); err != nil {
		return nil, err
	}
	req.Until, err = command.ParseMoment("until", f.until, a.Now())
	return req, err
}

func (a *app) listRuns(ctx context.Context, f runFilter) error {
	req, err := a.listRunsRequest(f)
	if err != nil {
		return err
	}
	g, err := a.Connect(ctx)
	if err != nil {
		return err
	}
	return client.List(a.App, runListing, f.limit, runPages(ctx, g, req), a.runRecord)
}

func (a *app) runsWatch() *cobra.Command {
	var after int64
	c := &cobra.Command{
		Use:   "watch ID",
		Short: "Watch a run to its end",
		Long: "Watch a run to its end, from its beginning or after an event, with the output and\n" +
			"the exit codes of `palyra run`. If you may answer approvals of its calls, the\n" +
			"prompts appear here. Ctrl-C stops watching; the run continues.",
		Example:           "palyra runs watch 01J...\npalyra runs watch 01J... --after 13631488 -o ndjson",
		Args:              command.Args(1, 1),
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
		return command.Usage("--after %d: want 0 or more", after)
	}
	g, err := a.Connect(ctx)
	if err != nil {
		return err
	}
	link := newRunLink(g)
	link.reading, link.after = true, after
	if link.runID, err = findRun(ctx, g, id); err != nil {
		return err
	}
	return a.newSession(g, link, false).run(ctx)
}

func (a *app) runsMessage() *cobra.Command {
	var last bool
	c := &cobra.Command{
		Use:   "message ID [TEXT]",
		Short: "Send a message to a run; its model reads it at its next turn",
		Long: "Send a message to a run, as the user. Its model reads it at its next turn, and the\n" +
			"journal records the sender. Without TEXT, or with -, it is read from stdin. You can\n" +
			"send messages to your own runs and to runs of your agents.\n\n" +
			"A run that `palyra run --detach --interactive` started waits for messages after\n" +
			"each answer. --last marks the last one, and ends such a run when its\n" +
			"model has answered; without TEXT, when its model has ended its turn.",
		Example:           "palyra runs message 01J... \"leave the tests alone\"\npalyra runs message 01J... - < more.md\npalyra runs message 01J... --last",
		Args:              command.Args(1, -1),
		ValidArgsFunction: a.completeRuns(true),
		RunE: func(cmd *cobra.Command, given []string) error {
			return a.sendMessage(cmd.Context(), given[0], given[1:], last)
		},
	}
	c.Flags().BoolVar(&last, "last", false, "this is the last message")
	return c
}

func (a *app) sendMessage(ctx context.Context, id string, words []string, last bool) error {
	req := &palyrav1.SendRunMessageRequest{Last: last, IdempotencyKey: ask.NewKey()}
	if len(words) > 0 || !last {
		var err error
		if req.Text, err = a.readText("message", "Specify the text: palyra runs message ID \"TEXT\".", words); err != nil {
			return err
		}
	}
	g, err := a.Connect(ctx)
	if err != nil {
		return err
	}
	if req.RunId, err = findRun(ctx, g, id); err != nil {
		return err
	}
	reply, err := g.Calls.SendRunMessage(ctx, req)
	if err != nil {
		return err
	}
	r := reply.GetRun()
	return a.PrintOne("Run", a.runRecord(r), func(p *printer.Page) {
		p.Field("run", r.GetRunId())
		p.Field("state", printer.Enum(r.GetState()))
	})
}

func (a *app) runsCancel() *cobra.Command {
	var why string
	c := &cobra.Command{
		Use:   "cancel ID",
		Short: "Stop a run: its model, and its calls that wait or run",
		Long: "Stop a run: the request to the model's provider, the calls that wait for a\n" +
			"human, and the calls that run. The effects of completed calls are not undone.",
		Example:           "palyra runs cancel 01J... --reason \"wrong branch\"",
		Args:              command.Args(1, 1),
		ValidArgsFunction: a.completeRuns(true),
		RunE: client.ShowOne(a.App, "Run", a.runRecord, func(p *printer.Page, r *palyrav1.Run) {
			p.Field("run", r.GetRunId())
			p.Field("state", printer.Enum(r.GetState()))
			p.Field("by", r.GetCancelledBy())
			p.Field("because", r.GetDetail())
		}, func(ctx context.Context, g *client.Gateway, given []string) (*palyrav1.Run, error) {
			id, err := findRun(ctx, g, given[0])
			if err != nil {
				return nil, err
			}
			reply, err := g.Calls.CancelRun(ctx, &palyrav1.CancelRunRequest{RunId: id, Reason: why})
			return reply.GetRun(), err
		}),
	}
	c.Flags().StringVar(&why, "reason", "", "why, for the journal")
	return c
}

func (a *app) completeRuns(runningOnly bool) cobra.CompletionFunc {
	return client.Suggest(a.App, func(ctx context.Context, g *client.Gateway) ([]*palyrav1.Run, error) {
		req := &palyrav1.ListRunsRequest{}
		if runningOnly {
			req.States = []palyrav1.RunState{palyrav1.RunState_RUN_STATE_RUNNING}
		}
		return client.SuggestPage(runPages(ctx, g, req))
	}, func(r *palyrav1.Run) (string, string) {
		return r.GetRunId(), printer.Enum(r.GetState()) + " " + printer.FirstLine(r.GetMessage())
	})
}

// runPages reads a list of runs.
func runPages(ctx context.Context, g *client.Gateway, req *palyrav1.ListRunsRequest) client.Pages[*palyrav1.Run] {
	return func(size int32) ([]*palyrav1.Run, bool, error) {
		req.PageSize = size
		reply, err := g.Calls.ListRuns(ctx, req)
		req.PageToken = reply.GetNextPageToken()
		return reply.GetRuns(), req.PageToken != "", err
	}
}

func findRun(ctx context.Context, g *client.Gateway, given string) (string, error) {
	return client.FindListed("run", given, runPages(ctx, g, &palyrav1.ListRunsRequest{}), (*palyrav1.Run).GetRunId)
}
