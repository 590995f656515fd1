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
	return command.NewGroup("notify", "See where people are told of what happens, and try it",
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
		Use: "list", Short: "List where people are told of what happens", Args: command.Args(0, 0),
		Long:    "List the targets that palyra.toml declares, what waits for each, and what its last\ntry failed of.",
		Example: "palyra notify list\npalyra notify list -o json",
		RunE: a.Connected(func(ctx context.Context, g *client.Gateway, _ []string) error {
			reply, err := g.Notices.ListNotifyTargets(ctx, &palyrav1.ListNotifyTargetsRequest{})
			return client.List(a.App, targetListing, 0, whole(reply.GetTargets(), err), targetRecord)
		}),
	}
}

// whole is a list that comes at once.
func whole[T any](list []T, err error) client.Pages[T] {
	return func(int32) ([]T, bool, error) { return list, false, err }
}

func (a *notifyCommands) completeTargets() cobra.CompletionFunc {
	return client.Suggest(a.App, func(ctx context.Context, g *client.Gateway) ([]*palyrav1.NotifyTarget, error) {
		reply, err := g.Notices.ListNotifyTargets(ctx, &palyrav1.ListNotifyTargetsRequest{})
		return reply.GetTargets(), err
	}, func(t *palyrav1.NotifyTarget) (string, string) { return t.GetName(), t.GetType() })
}

func (a *notifyCommands) test() *cobra.Command {
	return &cobra.Command{
		Use: "test TARGET", Short: "Send a notice to a target, and say whether it arrived", Args: command.Args(1, 1),
		Long:    "Send a notice of kind test to a target. It is tried once, and what it failed of is\nsaid.",
		Example: "palyra notify test ops", ValidArgsFunction: a.completeTargets(),
		RunE: a.Connected(func(ctx context.Context, g *client.Gateway, given []string) error {
			reply, err := g.Notices.TestNotify(ctx, &palyrav1.TestNotifyRequest{Target: given[0]})
			if err != nil {
				return err
			}
			d := reply.GetDelivery()
			if d.GetState() != string(notify.Delivered) {
				return reason.Errorf(reason.NotConnected, "%s got no notice: %s", d.GetTarget(), d.GetProblem()).
					WithRemedy("Correct [[notify]] in palyra.toml or the secret in the vault, and try again.")
			}
			return a.PrintOne("Delivery", deliveryRecord(d), func(p *printer.Page) {
				p.Field("target", d.GetTarget())
				p.Field("delivery", d.GetDeliveryId())
				p.Field("state", d.GetState())
			})
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
		Use: "deliveries", Short: "List what was sent and what waits, newest first", Args: command.Args(0, 0),
		Long:    "List notices by target, newest first: those that wait, with when they are tried again,\nand those that ended within 30 days.",
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
	flags.StringVar(&req.Target, "target", "", "only of this target")
	flags.StringSliceVar(&req.States, "state", nil, "only in these states: queued, delivered, failed, superseded, dropped")
	flags.IntVar(&limit, "limit", 200, "at most so many; 0 means all")
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
	Empty:   "nobody is mapped; `palyra notify slack map TEAM/USER user:NAME` maps somebody",
}

func userRecord(u *palyrav1.ChatUser) printer.Record {
	name := u.GetTeam() + "/" + u.GetUser()
	return printer.Record{
		Name: name, Body: printer.ProtoObject(u), Cells: []string{name, u.GetMember(), userState(u), u.GetMappedBy(), printer.Clock(u.GetMappedAt())}, Wide: []string{u.GetMappingId()},
	}
}

// userState says whether votes of the user count.
func userState(u *palyrav1.ChatUser) string {
	if u.GetConsentedAt() == nil {
		return "waits for the consent of " + u.GetMember()
	}
	return "votes"
}

func (a *notifyCommands) slack() *cobra.Command {
	return command.NewGroup("slack", "Say which members users of Slack are", a.users(), a.Waits(a.mapUser()), a.consentUser(), a.unmapUser())
}

func (a *notifyCommands) users() *cobra.Command {
	return &cobra.Command{
		Use: "list", Short: "List which members users of Slack are", Args: command.Args(0, 0), Example: "palyra notify slack list",
		Long: "List which members users of Slack are. They vote in their names where [[notify]] has\ndecide = true, once the member has consented.",
		RunE: a.Connected(func(ctx context.Context, g *client.Gateway, _ []string) error {
			reply, err := g.Notices.ListChatUsers(ctx, &palyrav1.ListChatUsersRequest{})
			return client.List(a.App, userListing, 0, whole(reply.GetUsers(), err), userRecord)
		}),
	}
}

func (a *notifyCommands) printUser(u *palyrav1.ChatUser, word string) error {
	return a.PrintOne("ChatUser", userRecord(u), func(p *printer.Page) {
		p.Field("user", u.GetTeam()+"/"+u.GetUser())
		p.Field(word, u.GetMember())
		if word == "mapped to" {
			p.Field("state", userState(u))
		}
	})
}

func (a *notifyCommands) mapUser() *cobra.Command {
	return &cobra.Command{
		Use: "map TEAM/USER MEMBER", Short: "Say which member a user of Slack is", Args: command.Args(2, 2),
		Long: "Say which member a user of Slack is, by the ids of the workspace and of the user.\nNames and mail addresses count for nothing: whoever runs the workspace sets those.\n" +
			"Whoever has that user's account in Slack votes as the member, once the member has consented:\n`palyra notify slack consent TEAM/USER`. Who maps an account of their own consents by that.",
		Example: "palyra notify slack map T012AB3CD/U012AB3CD user:ada",
		RunE: a.Connected(func(ctx context.Context, g *client.Gateway, given []string) error {
			team, user, err := notify.ParseChatUser(given[0])
			if err != nil {
				return err
			}
			reply, err := g.Notices.MapChatUser(ctx, &palyrav1.MapChatUserRequest{Team: team, User: user, Member: "user:" + strings.TrimPrefix(given[1], "user:")})
			if err != nil {
				return err
			}
			return a.printUser(reply.GetUser(), "mapped to")
		}),
	}
}

func (a *notifyCommands) consentUser() *cobra.Command {
	withdraw := false
	c := &cobra.Command{
		Use: "consent TEAM/USER", Short: "Let a user of Slack vote in your name", Args: command.Args(1, 1),
		Long: "Let a user of Slack that was mapped to you vote in your name, or no longer. It takes a device\nof your own. While somebody else made or changed you, or gave you a device, another member\n" +
			"or the gateway's host has to confirm you first: `palyra members confirm NAME`.",
		Example: "palyra notify slack consent T012AB3CD/U012AB3CD",
		RunE: a.Connected(func(ctx context.Context, g *client.Gateway, given []string) error {
			team, user, err := notify.ParseChatUser(given[0])
			if err != nil {
				return err
			}
			reply, err := g.Notices.ConsentToChatUser(ctx, &palyrav1.ConsentToChatUserRequest{Team: team, User: user, Withdraw: withdraw})
			if err != nil {
				return err
			}
			return a.printUser(reply.GetUser(), "mapped to")
		}),
	}
	c.Flags().BoolVar(&withdraw, "withdraw", false, "take consent back; what the user voted on open approvals counts no more")
	return c
}

func (a *notifyCommands) unmapUser() *cobra.Command {
	return &cobra.Command{
		Use: "unmap TEAM/USER", Short: "Forget which member a user of Slack is", Args: command.Args(1, 1),
		Long:    "Forget which member a user of Slack is. What it voted on things that are still open\ncounts no more.",
		Example: "palyra notify slack unmap T012AB3CD/U012AB3CD",
		RunE: a.Connected(func(ctx context.Context, g *client.Gateway, given []string) error {
			team, user, err := notify.ParseChatUser(given[0])
			if err != nil {
				return err
			}
			reply, err := g.Notices.UnmapChatUser(ctx, &palyrav1.UnmapChatUserRequest{Team: team, User: user})
			if err != nil {
				return err
			}
			return a.printUser(reply.GetUser(), "no longer")
		}),
	}
}
