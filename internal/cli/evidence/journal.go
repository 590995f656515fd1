// Package evidence has the commands that read, prove, verify and export the journal, and those for
// attestations. Exports are verified locally, without trusting the gateway.
package evidence

import (
	"context"
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	palyrav1 "palyra/gen/palyra/v1"
	"palyra/internal/cli/calls/ask"
	"palyra/internal/cli/client"
	"palyra/internal/cli/command"
	"palyra/internal/cli/printer"
	"palyra/internal/cli/witness"
	"palyra/internal/core/event"
	"palyra/internal/core/rpc"
)

// app provides the commands of this family.
type journalCommands struct{ *client.App }

var eventListing = printer.Listing{
	Kind:    "Event",
	Columns: []string{"SEQ", "AT", "CODE", "EVENT", "WHAT", "ACTOR", "SUBJECT"},
	Wide:    []string{"SESSION", "RUN", "HASH"},
	Empty:   "no events",
	Drop:    []string{"ACTOR", "CODE", "SUBJECT"},
}

// Command is `palyra journal`.
func Command(program *client.App) *cobra.Command {
	a, v := &journalCommands{program}, &verifyCommands{program}
	return command.NewGroup("journal", "Read, prove, verify and export the record",
		a.journalTail(), a.journalList(), a.journalShow(), v.journalVerify(), v.journalProve(), a.journalExport(), v.journalAcceptRestore())
}

func eventRecord(e *palyrav1.Event) printer.Record {
	seq := strconv.FormatInt(e.GetSeq(), 10)
	return printer.Record{
		Name: seq, Body: printer.ProtoObject(e),
		Cells: []string{seq, printer.Clock(e.GetAt()), e.GetCode(), event.Code(e.GetCode()).Words(), whatHappened(e), e.GetActor(), e.GetSubject()},
		Wide:  []string{e.GetSession(), e.GetRun(), e.GetHash()},
	}
}

// eventFlags select events.
type eventFlags struct {
	code, session, run, subject, actor, since, until string
}

func (f *eventFlags) register(c *cobra.Command) {
	flags := c.Flags()
	flags.StringVar(&f.code, "code", "", "only this code, or codes with this prefix: PAL-D")
	flags.StringVar(&f.session, "session", "", "only events of this session")
	flags.StringVar(&f.run, "run", "", "only events of this run")
	flags.StringVar(&f.subject, "subject", "", "only about this id: a proposal, approval, grant or device")
	flags.StringVar(&f.actor, "actor", "", "only events caused by this principal")
	flags.StringVar(&f.since, "since", "", "only since a time (RFC 3339) or a duration ago (24h)")
	flags.StringVar(&f.until, "until", "", "only until a time (RFC 3339) or a duration ago (24h)")
}

func (a *journalCommands) eventFilter(f eventFlags) (*palyrav1.EventFilter, error) {
	since, err := command.ParseMoment("since", f.since, a.Now())
	if err != nil {
		return nil, err
	}
	until, err := command.ParseMoment("until", f.until, a.Now())
	return &palyrav1.EventFilter{
		Code: f.code, Session: f.session, Run: f.run, Subject: f.subject, Actor: f.actor, Since: since, Until: until,
	}, err
}

func (a *journalCommands) journalList() *cobra.Command {
	var f eventFlags
	var after int64
	var limit, last int
	c := &cobra.Command{Use: "list", Short: "List events, oldest first", Args: command.Args(0, 0),
		RunE: func(cmd *cobra.Command, _ []string) error {
			if cmd.Flags().Changed("last") {
				if last < 1 || cmd.Flags().Changed("limit") {
					return command.Usage("--last requires a number from 1, and excludes --limit")
				}
				return a.listLast(cmd.Context(), f, after, last)
			}
			return a.listEvents(cmd.Context(), f, after, limit)
		}}
	f.register(c)
	c.Flags().Int64Var(&after, "after", 0, "start after this sequence number")
	c.Flags().IntVar(&limit, "limit", 1000, "maximum number of entries; 0 means all")
	c.Flags().IntVar(&last, "last", 0, "only the last N events that match the other flags")
	return c
}

// listLast lists the last events that match the flags. Without a filter it starts at their
// position, otherwise it reads the journal from the beginning.
func (a *journalCommands) listLast(ctx context.Context, f eventFlags, after int64, last int) error {
	filter, err := a.eventFilter(f)
	if err != nil {
		return err
	}
	g, err := a.Connect(ctx)
	if err != nil {
		return err
	}
	if f == (eventFlags{}) {
		status, err := a.witnessed(ctx, g)
		if err != nil {
			return err
		}
		after = max(after, status.GetJournalSize()-int64(last))
	}
	var kept []printer.Record
	req := &palyrav1.ListEventsRequest{Filter: filter, After: after, PageSize: 1000}
	for {
		reply, err := g.Journal.ListEvents(ctx, req)
		if err != nil {
			return err
		}
		kept = append(kept, printer.Records(reply.GetEvents(), eventRecord)...)
		kept = kept[max(0, len(kept)-last):]
		if req.After = reply.GetNextAfter(); req.After == 0 {
			return a.PrintList(eventListing, kept)
		}
	}
}

func (a *journalCommands) listEvents(ctx context.Context, f eventFlags, after int64, limit int) error {
	filter, err := a.eventFilter(f)
	if err != nil {
		return err
	}
	g, err := a.Connect(ctx)
	if err != nil {
		return err
	}
	req := &palyrav1.ListEventsRequest{Filter: filter, After: after}
	records, more, err := client.Collect(limit, func(size int32) ([]printer.Record, bool, error) {
		req.PageSize = size
		reply, err := g.Journal.ListEvents(ctx, req)
		req.After = reply.GetNextAfter()
		return printer.Records(reply.GetEvents(), eventRecord), req.After != 0, err
	})
	if err != nil {
		return err
	}
	if more {
		a.Say("there may be more: --after %d, or see --limit", req.After)
	}
	return a.PrintList(eventListing, records)
}

func (a *journalCommands) journalTail() *cobra.Command {
	var f eventFlags
	var after int64
	var last int64
	c := &cobra.Command{Use: "tail", Short: "Print events as they become durable, until interrupted", Args: command.Args(0, 0),
		RunE: func(cmd *cobra.Command, _ []string) error {
			if cmd.Flags().Changed("after") {
				return a.tailEvents(cmd.Context(), f, after)
			}
			return a.tailLast(cmd.Context(), f, last)
		}}
	f.register(c)
	c.Flags().Int64Var(&after, "after", 0, "start after this sequence number")
	c.Flags().Int64Var(&last, "last", 10, "start with the last N events of the journal")
	return c
}

func (a *journalCommands) tailLast(ctx context.Context, f eventFlags, last int64) error {
	if last <= 0 {
		return a.tailEvents(ctx, f, -1)
	}
	g, err := a.Connect(ctx)
	if err != nil {
		return err
	}
	status, err := a.witnessed(ctx, g)
	if err != nil {
		return err
	}
	return a.tailEvents(ctx, f, max(0, status.GetJournalSize()-last))
}

// witnessed returns the gateway's status. A journal that does not extend the known one is still
// shown, for investigation.
func (a *journalCommands) witnessed(ctx context.Context, g *client.Gateway) (*palyrav1.GetStatusResponse, error) {
	status, doubt, err := witness.Status(ctx, a.App, g)
	if doubt != nil {
		a.Say("warning: %v", doubt)
	}
	return status, err
}

func (a *journalCommands) tailEvents(ctx context.Context, f eventFlags, after int64) error {
	filter, err := a.eventFilter(f)
	if err != nil {
		return err
	}
	g, err := a.Connect(ctx)
	if err != nil {
		return err
	}
	return client.Watch(ctx, a.App, eventListing, func() (*rpc.ServerStream[*palyrav1.TailEventsResponse], error) {
		return g.Journal.TailEvents(ctx, &palyrav1.TailEventsRequest{Filter: filter, After: after})
	}, func(msg *palyrav1.TailEventsResponse) (printer.Record, bool) {
		after = msg.GetEvent().GetSeq()
		return eventRecord(msg.GetEvent()), true
	})
}

func (a *journalCommands) journalShow() *cobra.Command {
	return &cobra.Command{Use: "show SEQ", Short: "Show one event in full", Args: command.Args(1, 1),
		RunE: func(cmd *cobra.Command, given []string) error {
			seq, err := parseSeq(given[0])
			if err != nil {
				return err
			}
			g, err := a.Connect(cmd.Context())
			if err != nil {
				return err
			}
			reply, err := g.Journal.GetEvent(cmd.Context(), &palyrav1.GetEventRequest{Seq: seq})
			if err != nil {
				return err
			}
			e := reply.GetEvent()
			return a.PrintOne("Event", eventRecord(e), func(p *printer.Page) { a.eventPage(p, e) })
		}}
}

func parseSeq(s string) (int64, error) {
	seq, err := strconv.ParseInt(s, 10, 64)
	if err != nil || seq < 1 {
		return 0, command.Usage("%q is not a valid sequence number", s).WithRemedy("Use a whole number from 1, as `palyra journal list` prints.")
	}
	return seq, nil
}

func (a *journalCommands) eventPage(p *printer.Page, e *palyrav1.Event) {
	p.Heading("%s", strings.TrimSpace(fmt.Sprintf("%d  %s  %s", e.GetSeq(), e.GetCode(), event.Code(e.GetCode()).Words())))
	p.Field("what", whatHappened(e))
	p.Field("at", a.Moment(e.GetAt()))
	p.Field("id", e.GetEventId())
	p.Field("actor", e.GetActor())
	p.Field("subject", e.GetSubject())
	p.Field("session", e.GetSession())
	p.Field("run", e.GetRun())
	p.Field("hash", e.GetHash())
	p.Field("previous", e.GetPrevHash())
	p.Field("payload hash", e.GetPayloadSha256())
	if len(e.GetPayloadJson()) == 0 {
		p.Field("payload", "erased")
		return
	}
	if egress, ok := ask.LedgerOf(e); ok {
		ask.Ledger(p, egress, 0)
	}
	p.JSON("payload", e.GetPayloadJson())
}

func (a *journalCommands) journalExport() *cobra.Command {
	var after int64
	var form string
	formats := printer.EnumNames(palyrav1.ExportFormat(0).Descriptor())
	c := &cobra.Command{Use: "export [FILE]", Short: "Export the journal as NDJSON, JSON or CSV, with a sealed trailer", Args: command.Args(0, 1),
		Long:    "Export the journal with a sealed trailer. `palyra journal verify FILE` verifies an\nNDJSON export without a gateway. JSON is one document; CSV is for spreadsheets: no\ncell is a formula, the trailer is the last row, and the last column has the\nunchanged lines of NDJSON. FILE must not exist; the default is stdout.",
		Example: "palyra journal export journal.ndjson\npalyra journal export --format csv journal.csv",
		RunE: func(cmd *cobra.Command, given []string) error {
			format, err := printer.ParseEnum[palyrav1.ExportFormat]("format", form)
			if err != nil {
				return err
			}
			return a.exportJournal(cmd.Context(), &palyrav1.ExportJournalRequest{After: after, Format: format}, given)
		}}
	c.Flags().Int64Var(&after, "after", 0, "start after this sequence number; 0 exports all")
	c.Flags().StringVar(&form, "format", "ndjson", "one of "+strings.Join(formats, ", "))
	_ = c.RegisterFlagCompletionFunc("format", cobra.FixedCompletions(formats, cobra.ShellCompDirectiveNoFileComp))
	return c
}

// Export exports the whole journal to a file that does not exist yet.
func Export(program *client.App) func(ctx context.Context, path string) error {
	a := &journalCommands{program}
	return func(ctx context.Context, path string) error {
		return a.exportJournal(ctx, &palyrav1.ExportJournalRequest{}, []string{path})
	}
}

func (a *journalCommands) exportJournal(ctx context.Context, req *palyrav1.ExportJournalRequest, given []string) error {
	if req.GetAfter() < 0 {
		return command.Usage("--after %d: want 0 or more", req.GetAfter())
	}
	g, err := a.Connect(ctx)
	if err != nil {
		return err
	}
	source, err := openExport(ctx, g, req)
	if err != nil {
		return err
	}
	defer source.close()
	if len(given) == 0 || given[0] == "-" {
		return copyExport(rawWriter{a.App}, source)
	}
	f, err := os.OpenFile(given[0], os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return command.Usage("creating the export file: %w", err).WithRemedy("Specify a file that does not exist yet.")
	}
	err = a.exportTo(ctx, f, g, source, req.GetAfter())
	if closeErr := f.Close(); err == nil {
		err = closeErr
	}
	if err != nil {
		_ = os.Remove(f.Name())
		return err
	}
	if req.GetFormat() <= palyrav1.ExportFormat_EXPORT_FORMAT_NDJSON {
		a.Say("exported to %s; verify it with `palyra journal verify %s`", given[0], given[0])
	} else {
		a.Say("exported to %s; `palyra journal verify` reads only the ndjson format, which has the same trailer", given[0])
	}
	return nil
}

// exportTo writes an export to a file. It reports the progress of a long export to a user at a
// terminal, unless the export itself goes to stdout.
func (a *journalCommands) exportTo(ctx context.Context, f io.Writer, g *client.Gateway, source *exportStream, after int64) error {
	source.counted.Expect(max(journalSize(ctx, a.App, g)-after, 0))
	defer a.Progress(&source.counted, "exporting", "events")()
	return copyExport(f, source)
}

// rawWriter writes exported bytes to stdout.
type rawWriter struct{ a *client.App }

func (w rawWriter) Write(p []byte) (int, error) { return len(p), w.a.WriteRaw(p) }

func copyExport(to io.Writer, from *exportStream) error {
	_, err := io.Copy(to, from)
	return err
}
