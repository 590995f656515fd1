package calls

import (
	"context"
	"fmt"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	palyrav1 "palyra/gen/palyra/v1"
	"palyra/internal/cli/client"
	"palyra/internal/cli/command"
	"palyra/internal/cli/printer"
)

// sessionCommands provides the commands of this family.
type sessionCommands struct{ *client.App }

var sessionListing = printer.Listing{
	Kind:    "Session",
	Columns: []string{"ID", "STATE", "PRINCIPAL", "STARTED", "LAST", "CALLS", "LIMIT"},
	Wide:    []string{"FOR", "DEVICE", "CLIENT", "RUN CALLS", "ENDED", "BY", "REASON"},
	Empty:   "no sessions",
	Drop:    []string{"STARTED", "LIMIT", "LAST"},
}

// SessionsCommand is `palyra sessions`.
func SessionsCommand(program *client.App) *cobra.Command {
	a := &sessionCommands{program}
	return command.NewGroup("sessions", "Show and reset the sessions that call limits count by",
		a.sessionsList(), a.sessionsShow(), a.sessionsEnd())
}

func sessionRecord(s *palyrav1.Session) printer.Record {
	return printer.Record{
		Name: s.GetSessionId(), Body: printer.ProtoObject(s),
		Cells: []string{
			s.GetSessionId(), printer.Enum(s.GetState()), s.GetPrincipal(), printer.Clock(s.GetStartedAt()), printer.Clock(s.GetLastAt()),
			strconv.FormatInt(s.GetCalls(), 10), strconv.FormatInt(s.GetLimit(), 10),
		},
		Wide: []string{
			s.GetOnBehalfOf(), s.GetDeviceId(), s.GetClient(), strconv.FormatInt(s.GetRunCalls(), 10),
			printer.Clock(s.GetEndedAt()), s.GetEndedBy(), printer.FirstLine(s.GetEndReason()),
		},
	}
}

func (a *sessionCommands) sessionsList() *cobra.Command {
	req := &palyrav1.ListSessionsRequest{}
	limit := 0
	c := &cobra.Command{
		Use: "list", Short: "List sessions, newest first: yours and your agents', or all if you may read the record", Args: command.Args(0, 0),
		Long: "List the sessions by which the gateway counts calls, newest first: yours\n" +
			"and your agents', or all if you may read the record.",
		Example: "palyra sessions list\npalyra sessions list --all --principal agent:claude",
		RunE: a.Connected(func(ctx context.Context, g *client.Gateway, _ []string) error {
			return client.List(a.App, sessionListing, limit, sessionPages(ctx, g, req), sessionRecord)
		}),
	}
	flags := c.Flags()
	flags.BoolVar(&req.All, "all", false, "include sessions that a user ended")
	flags.StringVar(&req.Principal, "principal", "", "only sessions of this principal, such as agent:claude")
	flags.IntVar(&limit, "limit", 200, "maximum number of entries; 0 means all")
	return c
}

// sessionPages returns a list of sessions page by page.
func sessionPages(ctx context.Context, g *client.Gateway, req *palyrav1.ListSessionsRequest) client.Pages[*palyrav1.Session] {
	return func(size int32) ([]*palyrav1.Session, bool, error) {
		req.PageSize = size
		reply, err := g.Sessions.ListSessions(ctx, req)
		req.PageToken = reply.GetNextPageToken()
		return reply.GetSessions(), req.PageToken != "", err
	}
}

func findSession(ctx context.Context, g *client.Gateway, given string) (string, error) {
	return client.FindListed("session", given, sessionPages(ctx, g, &palyrav1.ListSessionsRequest{All: true}), (*palyrav1.Session).GetSessionId)
}

func (a *sessionCommands) completeSessions() cobra.CompletionFunc {
	return client.Suggest(a.App, func(ctx context.Context, g *client.Gateway) ([]*palyrav1.Session, error) {
		return client.SuggestPage(sessionPages(ctx, g, &palyrav1.ListSessionsRequest{}))
	}, func(s *palyrav1.Session) (string, string) { return s.GetSessionId(), s.GetPrincipal() })
}

func (a *sessionCommands) sessionsShow() *cobra.Command {
	return &cobra.Command{
		Use: "show ID", Short: "Show one session with its facts for policies", Args: command.Args(1, 1),
		Example: "palyra sessions show 01J...\npalyra sessions show 01J... -o json", ValidArgsFunction: a.completeSessions(),
		RunE: a.Connected(func(ctx context.Context, g *client.Gateway, given []string) error {
			return a.showSession(ctx, g, given[0])
		}),
	}
}

func (a *sessionCommands) showSession(ctx context.Context, g *client.Gateway, given string) error {
	id, err := findSession(ctx, g, given)
	if err != nil {
		return err
	}
	reply, err := g.Sessions.GetSession(ctx, &palyrav1.GetSessionRequest{SessionId: id})
	if err != nil {
		return err
	}
	s, f := reply.GetSession(), reply.GetFacts()
	rec := sessionRecord(s)
	rec.Body = append(rec.Body, printer.Member{"facts", printer.ProtoObject(f)})
	return a.PrintOne("Session", rec, func(p *printer.Page) {
		a.sessionPage(p, s)
		p.Field("under way", strconv.FormatInt(f.GetInFlight(), 10))
		p.Field("tools used", strings.Join(f.GetToolsUsed(), ", "))
		p.Field("secrets", strings.Join(f.GetSecretsRead(), ", "))
		p.Field("tainted", map[bool]string{true: "yes: it has read from the open world", false: "no"}[f.GetTainted()])
		p.Field("bytes out", strconv.FormatInt(f.GetBytesOut(), 10))
	})
}

func (a *sessionCommands) sessionPage(p *printer.Page, s *palyrav1.Session) {
	p.Field("session", s.GetSessionId())
	p.Field("state", printer.Enum(s.GetState()))
	p.Field("of", s.GetPrincipal())
	if s.GetOnBehalfOf() != s.GetPrincipal() {
		p.Field("for", s.GetOnBehalfOf())
	}
	p.Field("device", s.GetDeviceId())
	p.Field("client", s.GetClient())
	p.Field("started", a.Moment(s.GetStartedAt()))
	p.Field("last", a.Moment(s.GetLastAt()))
	if s.GetEndedAt() != nil {
		p.Field("ended", a.Moment(s.GetEndedAt()))
		p.Field("by", s.GetEndedBy())
		p.Field("because", s.GetEndReason())
	}
	p.Field("calls", fmt.Sprintf("%d of %d, and %d of runs", s.GetCalls(), s.GetLimit(), s.GetRunCalls()))
}

func (a *sessionCommands) sessionsEnd() *cobra.Command {
	var why string
	c := &cobra.Command{
		Use: "end ID", Short: "End a session: the caller's next call starts another", Args: command.Args(1, 1),
		Long: "End a session. The next call of its caller starts another with empty counters:\n" +
			"no taint, no tools used, no calls. Active calls still end in the old session.\n" +
			"Grants and approvals are not affected.",
		Example: "palyra sessions end 01J... --reason \"reviewed its fetches\"", ValidArgsFunction: a.completeSessions(),
		RunE: client.ShowOne(a.App, "Session", sessionRecord, func(p *printer.Page, s *palyrav1.Session) {
			p.Field("session", s.GetSessionId())
			p.Field("of", s.GetPrincipal())
			p.Field("ended", a.Moment(s.GetEndedAt()))
			p.Field("by", s.GetEndedBy())
		}, func(ctx context.Context, g *client.Gateway, given []string) (*palyrav1.Session, error) {
			id, err := findSession(ctx, g, given[0])
			if err != nil {
				return nil, err
			}
			reply, err := g.Sessions.EndSession(ctx, &palyrav1.SessionServiceEndSessionRequest{SessionId: id, Reason: why})
			return reply.GetSession(), err
		}),
	}
	c.Flags().StringVar(&why, "reason", "", "the reason, for the journal")
	return c
}
