package things

import (
	"context"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	palyrav1 "palyra/gen/palyra/v1"
	"palyra/internal/cli/client"
	"palyra/internal/cli/command"
	"palyra/internal/cli/printer"
	"palyra/internal/core/reason"
	"palyra/internal/surface/notify"
)

// notifyCommands is one run of the program, with the commands of this family.
type notifyCommands struct{ *client.App }

// NotifyCommand is `palyra notify`.
func NotifyCommand(program *client.App) *cobra.Command {
	a := &notifyCommands{program}
	return command.NewGroup("notify", "List and test notification targets",
		a.list(), a.test(), a.deliveries(), a.slack())
}

var targetListing = printer.Listing{
	Kind:    "NotifyTarget",
	Columns: []string{"NAME", "TYPE", "WHERE", "EVENTS", "FROM", "QUEUED", "STATE"},
	Wide:    []string{"INCLUDE"},
	Empty:   "no targets; [[notify]] in palyra.toml declares them",
	Drop:    []string{"EVENTS", "FROM"},
}

func targetRecord(t *palyrav1.NotifyTarget) printer.Record {
	events := strings.Join(t.GetEvents(), ",")
	if events == "" {
		events = "all"
	}
	state := t.GetConnection()
	if t.GetProblem() != "" {
		state = t.GetProblem()
	}
	return printer.Record{
		Name: t.GetName(), Body: printer.ProtoObject(t),
		Cells: []string{t.GetName(), t.GetType(), t.GetWhere(), events, t.GetMinSeverity(), strconv.Itoa(int(t.GetQueued())), printer.FirstLine(state)},
		Wide:  []string{t.GetInclude()},
	}
}

func (a *notifyCommands) list() *cobra.Command {
	return &cobra.Command{
		Use: "list", Short: "List the notification targets", Args: command.Args(0, 0),
		Long:    "List the targets that palyra.toml declares, with pending notices and the error of\nthe last attempt.",
		Example: "palyra notify list\npalyra notify list -o json",
		RunE:    client.ShowList(a.App, targetListing, targetRecord, targetsOf),
	}
}

func targetsOf(ctx context.Context, g *client.Gateway) ([]*palyrav1.NotifyTarget, error) {
	reply, err := g.Notices.ListNotifyTargets(ctx, &palyrav1.ListNotifyTargetsRequest{})
	return reply.GetTargets(), err
}

func (a *notifyCommands) completeTargets() cobra.CompletionFunc {
	return client.Suggest(a.App, targetsOf, func(t *palyrav1.NotifyTarget) (string, string) { return t.GetName(), t.GetType() })
}

func (a *notifyCommands) test() *cobra.Command {
	return &cobra.Command{
		Use: "test TARGET", Short: "Send a test notice to a target, and print the result", Args: command.Args(1, 1),
		Long:    "Send a notice of kind test to a target. It is sent once, and an\nerror is printed.",
		Example: "palyra notify test ops", ValidArgsFunction: a.completeTargets(),
		RunE: client.ShowOne(a.App, "Delivery", deliveryRecord, func(p *printer.Page, d *palyrav1.Delivery) {
			p.Field("target", d.GetTarget())
			p.Field("delivery", d.GetDeliveryId())
			p.Field("state", d.GetState())
		}, func(ctx context.Context, g *client.Gateway, given []string) (*palyrav1.Delivery, error) {
			reply, err := g.Notices.TestNotify(ctx, &palyrav1.TestNotifyRequest{Target: given[0]})
			if err != nil {
				return nil, err
			}
			d := reply.GetDelivery()
			if d.GetState() != string(notify.Delivered) {
				return nil, reason.Errorf(reason.NotConnected, "%s got no notice: %s", d.GetTarget(), d.GetProblem()).
					WithRemedy("Correct [[notify]] in palyra.toml or the secret in the vault, and try again.")
			}
			return d, nil
		}),
	}
}

var deliveryListing = printer.Listing{
	Kind:    "Delivery",
	Columns: []string{"ID", "TARGET", "NOTICE", "STATE", "TRIES", "QUEUED", "PROBLEM"},
	Wide:    []string{"SEVERITY", "EVENT", "APPROVAL", "NEXT", "ENDED"},
	Empty:   "no deliveries",
	Drop:    []string{"TRIES", "QUEUED"},
}

func deliveryRecord(d *palyrav1.Delivery) printer.Record {
	return printer.Record{
		Name: d.GetDeliveryId(), Body: printer.ProtoObject(d),
		Cells: []string{
			d.GetDeliveryId(), d.GetTarget(), d.GetNotice(), d.GetState(), strconv.Itoa(int(d.GetAttempts())), printer.Clock(d.GetQueuedAt()), printer.FirstLine(d.GetProblem()),
		},
		Wide: []string{d.GetSeverity(), strconv.FormatInt(d.GetEvent(), 10), d.GetApprovalId(), printer.Clock(d.GetNextAt()), printer.Clock(d.GetEndedAt())},
	}
}

func (a *notifyCommands) deliveries() *cobra.Command {
	req := &palyrav1.ListDeliveriesRequest{}
	limit := 0
	c := &cobra.Command{
		Use: "deliveries", Short: "List sent and pending notices, newest first", Args: command.Args(0, 0),
		Long:    "List notices by target, newest first: pending ones with the time of the next attempt,\nand those of the last 30 days.",
		Example: "palyra notify deliveries\npalyra notify deliveries --target ops --state failed",
		RunE: a.Connected(func(ctx context.Context, g *client.Gateway, _ []string) error {
			return client.List(a.App, deliveryListing, limit, func(size int32) ([]*palyrav1.Delivery, bool, error) {
				req.PageSize = size
				reply, err := g.Notices.ListDeliveries(ctx, req)
				req.PageToken = reply.GetNextPageToken()
				return reply.GetDeliveries(), req.PageToken != "", err
			}, deliveryRecord)
		}),
	}
	flags := c.Flags()
	flags.StringVar(&req.Target, "target", "", "only notices of this target")
	flags.StringSliceVar(&req.States, "state", nil, "only in these states: queued, delivered, failed, superseded, dropped")
	flags.IntVar(&limit, "limit", 200, "maximum number of entries; 0 means all")
	_ = c.RegisterFlagCompletionFunc("target", a.completeTargets())
	var states []string
	for _, s := range notify.States {
		states = append(states, string(s))
	}
	_ = c.RegisterFlagCompletionFunc("state", cobra.FixedCompletions(states, cobra.ShellCompDirectiveNoFileComp))
	return c
}

var userListing = printer.Listing{
	Kind:    "ChatUser",
	Columns: []string{"USER", "MEMBER", "STATE", "BY", "SINCE"},
	Wide:    []string{"ID"},
	Empty:   "no user is mapped; map one with `palyra notify slack map TEAM/USER user:NAME`",
}

func userRecord(u *palyrav1.ChatUser) printer.Record {
	name := u.GetTeam() + "/" + u.GetUser()
	return printer.Record{
		Name: name, Body: printer.ProtoObject(u), Cells: []string{name, u.GetMember(), userState(u), u.GetMappedBy(), printer.Clock(u.GetMappedAt())}, Wide: []string{u.GetMappingId()},
	}
}

// userState describes whether votes of the user count.
func userState(u *palyrav1.ChatUser) string {
	if u.GetConsentedAt() == nil {
		return "waits for the consent of " + u.GetMember()
	}
	return "votes"
}

func (a *notifyCommands) slack() *cobra.Command {
	return command.NewGroup("slack", "Map Slack users to members", a.users(), a.Waits(a.mapUser()), a.consentUser(), a.unmapUser())
}

func (a *notifyCommands) users() *cobra.Command {
	return &cobra.Command{
		Use: "list", Short: "List Slack users and the members to which they are mapped", Args: command.Args(0, 0), Example: "palyra notify slack list",
		Long: "List Slack users and the members to which they are mapped. A Slack user votes as the\nmember if [[notify]] has decide = true and the member has consented.",
		RunE: client.ShowList(a.App, userListing, userRecord, func(ctx context.Context, g *client.Gateway) ([]*palyrav1.ChatUser, error) {
			reply, err := g.Notices.ListChatUsers(ctx, &palyrav1.ListChatUsersRequest{})
			return reply.GetUsers(), err
		}),
	}
}

// userPage writes the mapping of a user, and whether its votes count.
func userPage(p *printer.Page, u *palyrav1.ChatUser) {
	p.Field("user", u.GetTeam()+"/"+u.GetUser())
	p.Field("mapped to", u.GetMember())
	p.Field("state", userState(u))
}

func (a *notifyCommands) mapUser() *cobra.Command {
	return &cobra.Command{
		Use: "map TEAM/USER MEMBER", Short: "Map a Slack user to a member", Args: command.Args(2, 2),
		Long: "Map a Slack user to a member, by the ids of the workspace and of the user. Names and\nmail addresses are not used, because the administrators of the workspace set those.\n" +
			"The Slack user votes as the member once the member has consented: `palyra notify slack\nconsent TEAM/USER`. Mapping your own account includes the consent.",
		Example: "palyra notify slack map T012AB3CD/U012AB3CD user:ada",
		RunE: client.ShowOne(a.App, "ChatUser", userRecord, userPage, func(ctx context.Context, g *client.Gateway, given []string) (*palyrav1.ChatUser, error) {
			team, user, err := notify.ParseChatUser(given[0])
			if err != nil {
				return nil, err
			}
			reply, err := g.Notices.MapChatUser(ctx, &palyrav1.MapChatUserRequest{Team: team, User: user, Member: "user:" + strings.TrimPrefix(given[1], "user:")})
			return reply.GetUser(), err
		}),
	}
}

func (a *notifyCommands) consentUser() *cobra.Command {
	withdraw := false
	c := &cobra.Command{
		Use: "consent TEAM/USER", Short: "Let a Slack user vote in your name", Args: command.Args(1, 1),
		Long: "Let a Slack user that is mapped to you vote in your name, or withdraw the consent. It requires\na device of your own. If another member added you, changed your roles or gave you a device, a third\n" +
			"member or the gateway's host must confirm you first: `palyra members confirm NAME`.",
		Example: "palyra notify slack consent T012AB3CD/U012AB3CD",
		RunE: client.ShowOne(a.App, "ChatUser", userRecord, userPage, func(ctx context.Context, g *client.Gateway, given []string) (*palyrav1.ChatUser, error) {
			team, user, err := notify.ParseChatUser(given[0])
			if err != nil {
				return nil, err
			}
			reply, err := g.Notices.ConsentToChatUser(ctx, &palyrav1.ConsentToChatUserRequest{Team: team, User: user, Withdraw: withdraw})
			return reply.GetUser(), err
		}),
	}
	c.Flags().BoolVar(&withdraw, "withdraw", false, "withdraw the consent; the user's votes on open approvals no longer count")
	return c
}

func (a *notifyCommands) unmapUser() *cobra.Command {
	return &cobra.Command{
		Use: "unmap TEAM/USER", Short: "Remove the mapping of a Slack user", Args: command.Args(1, 1),
		Long:    "Remove the mapping of a Slack user. Its votes on open approvals no longer count.",
		Example: "palyra notify slack unmap T012AB3CD/U012AB3CD",
		RunE: client.ShowOne(a.App, "ChatUser", userRecord, func(p *printer.Page, u *palyrav1.ChatUser) {
			p.Field("user", u.GetTeam()+"/"+u.GetUser())
			p.Field("no longer", u.GetMember())
		}, func(ctx context.Context, g *client.Gateway, given []string) (*palyrav1.ChatUser, error) {
			team, user, err := notify.ParseChatUser(given[0])
			if err != nil {
				return nil, err
			}
			reply, err := g.Notices.UnmapChatUser(ctx, &palyrav1.UnmapChatUserRequest{Team: team, User: user})
			return reply.GetUser(), err
		}),
	}
}
