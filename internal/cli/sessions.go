package cli

import (
	"context"
	"fmt"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	palyrav1 "palyra/gen/palyra/v1"
)

var sessionListing = listing{
	kind:    "Session",
	columns: []string{"ID", "STATE", "PRINCIPAL", "STARTED", "LAST", "CALLS", "LIMIT"},
	wide:    []string{"FOR", "DEVICE", "CLIENT", "RUN CALLS", "ENDED", "BY", "REASON"},
	empty:   "no sessions",
	drop:    []string{"STARTED", "LIMIT", "LAST"},
}

func (a *app) sessionsCommand() *cobra.Command {
	return newGroup("sessions", "See what counts against callers, and let it start anew",
		a.sessionsList(), a.sessionsShow(), a.sessionsEnd())
}

func sessionRecord(s *palyrav1.Session) record {
	return record{
		name: s.GetSessionId(), body: protoObject(s),
		cells: []string{
			s.GetSessionId(), short(s.GetState()), s.GetPrincipal(), clock(s.GetStartedAt()), clock(s.GetLastAt()),
			strconv.FormatInt(s.GetCalls(), 10), strconv.FormatInt(s.GetLimit(), 10),
		},
		wide: []string{
			s.GetOnBehalfOf(), s.GetDeviceId(), s.GetClient(), strconv.FormatInt(s.GetRunCalls(), 10),
			clock(s.GetEndedAt()), s.GetEndedBy(), firstLine(s.GetEndReason()),
		},
	}
}

func (a *app) sessionsList() *cobra.Command {
	req := &palyrav1.ListSessionsRequest{}
	limit := 0
	c := &cobra.Command{
		Use: "list", Short: "List sessions, newest first: yours and your agents', or all if you may read the record", Args: args(0, 0),
		Long: "List the sessions by which the gateway counts what callers do, newest first: yours\n" +
			"and your agents', or all if you may read the record.",
		Example: "palyra sessions list\npalyra sessions list --all --principal agent:claude",
		RunE:    func(cmd *cobra.Command, _ []string) error { return a.listSessions(cmd.Context(), req, limit) },
	}
	flags := c.Flags()
	flags.BoolVar(&req.All, "all", false, "also those that a person ended")
	flags.StringVar(&req.Principal, "principal", "", "only of this principal, such as agent:claude")
	flags.IntVar(&limit, "limit", 200, "at most so many; 0 means all")
	return c
}

func (a *app) listSessions(ctx context.Context, req *palyrav1.ListSessionsRequest, limit int) error {
	g, err := a.connect(ctx)
	if err != nil {
		return err
	}
	records, more, err := collect(limit, g.sessionPages(ctx, req))
	if err != nil {
		return err
	}
	if more {
		a.say("there are more; see --limit")
	}
	return a.printList(sessionListing, records)
}

// sessionPages reads one page after the other.
func (g *gateway) sessionPages(ctx context.Context, req *palyrav1.ListSessionsRequest) func(size int32) ([]record, bool, error) {
	return func(size int32) ([]record, bool, error) {
		req.PageSize = size
		reply, err := g.sessions.ListSessions(ctx, req)
		req.PageToken = reply.GetNextPageToken()
		return recordsOf(reply.GetSessions(), sessionRecord), req.PageToken != "", err
	}
}

func (g *gateway) sessionID(ctx context.Context, given string) (string, error) {
	return findID("session", given, func() ([]string, error) {
		return namesOf(g.sessionPages(ctx, &palyrav1.ListSessionsRequest{All: true}))
	})
}

func (a *app) completeSessions(cmd *cobra.Command, given []string, _ string) ([]cobra.Completion, cobra.ShellCompDirective) {
	return a.suggestions(cmd, given, func(ctx context.Context, g *gateway) (out []cobra.Completion) {
		reply, err := g.sessions.ListSessions(ctx, &palyrav1.ListSessionsRequest{PageSize: 50})
		if err != nil {
			return nil
		}
		for _, s := range reply.GetSessions() {
			out = append(out, describe(s.GetSessionId(), s.GetPrincipal()))
		}
		return out
	})
}

func (a *app) sessionsShow() *cobra.Command {
	return &cobra.Command{
		Use: "show ID", Short: "Show one session with what policy reads of its past", Args: args(1, 1),
		Example: "palyra sessions show 01J...\npalyra sessions show 01J... -o json", ValidArgsFunction: a.completeSessions,
		RunE: func(cmd *cobra.Command, given []string) error { return a.showSession(cmd.Context(), given[0]) },
	}
}

func (a *app) showSession(ctx context.Context, given string) error {
	g, err := a.connect(ctx)
	if err != nil {
		return err
	}
	id, err := g.sessionID(ctx, given)
	if err != nil {
		return err
	}
	reply, err := g.sessions.GetSession(ctx, &palyrav1.GetSessionRequest{SessionId: id})
	if err != nil {
		return err
	}
	s, f := reply.GetSession(), reply.GetFacts()
	rec := sessionRecord(s)
	rec.body = append(rec.body, member{"facts", protoObject(f)})
	return a.printOne("Session", rec, func(p *page) {
		a.sessionPage(p, s)
		p.field("under way", strconv.FormatInt(f.GetInFlight(), 10))
		p.field("tools used", strings.Join(f.GetToolsUsed(), ", "))
		p.field("secrets", strings.Join(f.GetSecretsRead(), ", "))
		p.field("tainted", map[bool]string{true: "yes: it has read from the open world", false: "no"}[f.GetTainted()])
		p.field("bytes out", strconv.FormatInt(f.GetBytesOut(), 10))
	})
}

func (a *app) sessionPage(p *page, s *palyrav1.Session) {
	p.field("session", s.GetSessionId())
	p.field("state", short(s.GetState()))
	p.field("of", s.GetPrincipal())
	if s.GetOnBehalfOf() != s.GetPrincipal() {
		p.field("for", s.GetOnBehalfOf())
	}
	p.field("device", s.GetDeviceId())
	p.field("client", s.GetClient())
	p.field("started", a.moment(s.GetStartedAt()))
	p.field("last", a.moment(s.GetLastAt()))
	if s.GetEndedAt() != nil {
		p.field("ended", a.moment(s.GetEndedAt()))
		p.field("by", s.GetEndedBy())
		p.field("because", s.GetEndReason())
	}
	p.field("calls", fmt.Sprintf("%d of %d, and %d of runs", s.GetCalls(), s.GetLimit(), s.GetRunCalls()))
}

func (a *app) sessionsEnd() *cobra.Command {
	var why string
	c := &cobra.Command{
		Use: "end ID", Short: "End a session: the caller's next call begins another", Args: args(1, 1),
		Long: "End a session. The next call of its caller begins another, in which nothing is\n" +
			"counted yet: no taint, no tools used, no calls. Calls under way end in the old one.\n" +
			"Grants and approvals stay as they are.",
		Example: "palyra sessions end 01J... --reason \"looked at what it fetched\"", ValidArgsFunction: a.completeSessions,
		RunE: func(cmd *cobra.Command, given []string) error { return a.endSession(cmd.Context(), given[0], why) },
	}
	c.Flags().StringVar(&why, "reason", "", "why, for the journal")
	return c
}

func (a *app) endSession(ctx context.Context, given, why string) error {
	g, err := a.connect(ctx)
	if err != nil {
		return err
	}
	id, err := g.sessionID(ctx, given)
	if err != nil {
		return err
	}
	reply, err := g.sessions.EndSession(ctx, &palyrav1.SessionServiceEndSessionRequest{SessionId: id, Reason: why})
	if err != nil {
		return err
	}
	s := reply.GetSession()
	return a.printOne("Session", sessionRecord(s), func(p *page) {
		p.field("session", s.GetSessionId())
		p.field("of", s.GetPrincipal())
		p.field("ended", a.moment(s.GetEndedAt()))
		p.field("by", s.GetEndedBy())
	})
}
