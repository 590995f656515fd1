package people

import (
	"context"
	"crypto/x509"
	"encoding/pem"
	"os"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	palyrav1 "palyra/gen/palyra/v1"
	"palyra/internal/cli/client"
	"palyra/internal/cli/command"
	"palyra/internal/cli/printer"
	"palyra/internal/core/reason"
	"palyra/internal/identity"
	"palyra/internal/identity/ca"
)

// memberCommands provides the commands of this family.
type memberCommands struct{ *client.App }

var memberListing = printer.Listing{
	Kind:    "Member",
	Columns: []string{"PRINCIPAL", "ROLES", "OWNER", "STATE"},
	Wide:    []string{"CREATED", "REMOVED"},
	Empty:   "no members",
}

// MembersCommand is `palyra members`.
func MembersCommand(program *client.App) *cobra.Command {
	a := &memberCommands{program}
	return command.NewGroup("members", "The users and agents: list, add, change, disable and remove them",
		a.membersList(), a.membersShow(), a.Waits(a.membersAdd()), a.Waits(a.membersRoles()), a.Waits(a.membersOwner()),
		a.membersDisable(), a.Waits(a.membersEnable()), a.Waits(a.membersConfirm()), a.membersConsent(), a.Waits(a.membersRemove()))
}

func (a *memberCommands) membersList() *cobra.Command {
	var all bool
	c := &cobra.Command{Use: "list", Short: "List the users and agents of the gateway", Args: command.Args(0, 0),
		RunE: client.ShowList(a.App, memberListing, memberRecord, func(ctx context.Context, g *client.Gateway) ([]*palyrav1.Member, error) {
			reply, err := g.Access.ListMembers(ctx, &palyrav1.ListMembersRequest{Removed: all})
			return reply.GetMembers(), err
		})}
	c.Flags().BoolVar(&all, "all", false, "include removed members")
	return c
}

// membersOf lists the members that are not removed.
func membersOf(ctx context.Context, g *client.Gateway) ([]*palyrav1.Member, error) {
	reply, err := g.Access.ListMembers(ctx, &palyrav1.ListMembersRequest{})
	return reply.GetMembers(), err
}

func memberRecord(m *palyrav1.Member) printer.Record {
	return printer.Record{
		Name: m.GetPrincipal(), Body: printer.ProtoObject(m),
		Cells: []string{m.GetPrincipal(), strings.Join(m.GetRoles(), ","), m.GetOwner(), memberState(m)},
		Wide:  []string{printer.Clock(m.GetCreatedAt()), printer.Clock(m.GetRemovedAt())},
	}
}

func (a *memberCommands) membersShow() *cobra.Command {
	return &cobra.Command{Use: "show NAME", Short: "Show a user or agent with its devices", Args: command.Args(1, 1),
		Long:              "Show a user or agent with its devices. NAME is a user, or an agent if no such user\nexists; use user:NAME or agent:NAME to be explicit.",
		ValidArgsFunction: a.completeMembers(),
		RunE: a.Connected(func(ctx context.Context, g *client.Gateway, given []string) error {
			members, err := g.Access.ListMembers(ctx, &palyrav1.ListMembersRequest{Removed: true})
			if err != nil {
				return err
			}
			m := resolveMember(members.GetMembers(), given[0])
			if m == nil {
				return reason.Errorf(reason.NotFound, "the member %s does not exist", given[0]).WithRemedy("List the members with `palyra members list --all`.")
			}
			devices, err := devicesOf(ctx, g)
			if err != nil {
				return err
			}
			return a.printMember(m, members.GetMembers(), devices)
		})}
}

// resolveMember resolves a name to a member as the gateway does, or nil.
func resolveMember(members []*palyrav1.Member, name string) *palyrav1.Member {
	for _, p := range []string{name, "user:" + name, "agent:" + name} {
		for _, m := range members {
			if m.GetPrincipal() == p {
				return m
			}
		}
	}
	return nil
}

func (a *memberCommands) printMember(m *palyrav1.Member, members []*palyrav1.Member, devices []*palyrav1.Device) error {
	var agents, has []string
	for _, other := range members {
		if other.GetOwner() == m.GetPrincipal() && other.GetRemovedAt() == nil {
			agents = append(agents, other.GetPrincipal())
		}
	}
	owned := []printer.Object{}
	for _, d := range devices {
		if d.GetPrincipal() == m.GetPrincipal() {
			owned = append(owned, printer.ProtoObject(d))
			has = append(has, deviceLine(d))
		}
	}
	body := append(printer.ProtoObject(m), printer.Member{Name: "agents", Value: slices.Concat([]string{}, agents)}, printer.Member{Name: "devices", Value: owned})
	return a.PrintOne("Member", printer.Record{Name: m.GetPrincipal(), Body: body}, func(p *printer.Page) {
		a.memberFields(p, m)
		if len(agents) > 0 {
			p.List("agents", agents)
		}
		if len(has) > 0 {
			p.List("devices", has)
		}
	})
}

func (a *memberCommands) memberFields(p *printer.Page, m *palyrav1.Member) {
	p.Field("member", m.GetPrincipal())
	p.Field("roles", strings.Join(m.GetRoles(), ", "))
	if m.GetOwner() != "" {
		p.Field("acts for", m.GetOwner())
	}
	p.Field("state", memberState(m))
	if m.GetRemovedAt() != nil {
		p.Field("removed", a.Moment(m.GetRemovedAt()))
	}
	p.Field("answers", answers(m))
	if m.GetLoginSubject() != "" {
		p.Field("logs in", m.GetLoginSubject()+" at "+m.GetLoginIssuer())
	}
	if hands := m.GetInHandsOf(); len(hands) > 0 {
		p.Field("in hands of", strings.Join(hands, ", "))
	}
}

func memberState(m *palyrav1.Member) string {
	switch {
	case m.GetRemovedAt() != nil:
		return "removed"
	case m.GetDisabled():
		return "disabled"
	case m.GetAwaitsConsent():
		return "waits for the consent of " + m.GetOwner()
	case m.GetNoDevice():
		return "without a device"
	}
	return "active"
}

func answers(m *palyrav1.Member) string {
	if m.GetDecides() {
		return "approvals"
	}
	return "no approvals"
}

func deviceLine(d *palyrav1.Device) string {
	text := d.GetDeviceId() + " " + d.GetName()
	if d.GetRevokedAt() != nil {
		return text + ", revoked " + printer.Clock(d.GetRevokedAt())
	}
	if d.GetLoginEndsAt() != nil {
		return text + ", session ends " + printer.Clock(d.GetLoginEndsAt())
	}
	return text + ", certificate ends " + printer.Clock(d.GetCertificateExpiresAt())
}

func (a *memberCommands) membersAdd() *cobra.Command {
	var roles []string
	var owner, out string
	var sure bool
	c := &cobra.Command{Use: "add NAME", Short: "Add a user or an agent, and write its credential bundle", Args: command.Args(1, 1),
		Long: "Add a user or an agent, and write its credential bundle: a directory with a key that\nwas created here and is stored only there. Give it to the user, or to the agent's machine,\nand keep no copy. With --owner it is an agent that acts for that user,\nonce the user consents: `palyra members consent NAME`. The name of a removed\nmember cannot be reused.\n\n" +
			"If the change needs a second approver, the directory contains only the key. Repeat\nthe command after the approval to complete the bundle.",
		RunE: func(cmd *cobra.Command, given []string) error {
			return a.addMember(cmd.Context(), given[0], roles, owner, out, sure)
		}}
	c.Flags().StringSliceVar(&roles, "role", nil, "a role of the member; repeatable")
	c.Flags().StringVar(&owner, "owner", "", "the user for whom an agent acts")
	c.Flags().StringVar(&out, "out", "", "directory of the bundle (default ./NAME.palyra)")
	c.Flags().BoolVar(&sure, "yes", false, "do not ask if users lose the power to answer approvals")
	_ = c.MarkFlagDirname("out")
	return c
}

func (a *memberCommands) addMember(ctx context.Context, name string, roles []string, owner, out string, sure bool) error {
	req := &palyrav1.AddMemberRequest{Name: name, Kind: "user", Roles: roles}
	if owner != "" {
		req.Kind, req.Owner = "agent", "user:"+strings.TrimPrefix(owner, "user:")
		if len(roles) == 0 {
			req.Roles = []string{"agent"}
		}
	}
	if len(req.GetRoles()) == 0 {
		return command.Usage("a member needs a role").WithRemedy("Add --role operator, or another of: owner, admin, operator, auditor, developer.")
	}
	if out == "" {
		out = name + ".palyra"
	}
	if _, _, err := identity.ReadPending(out); err != nil {
		return reason.Errorf(reason.AlreadyExists, "%s exists already", out).WithRemedy("Name another directory with --out, or remove this one.")
	}
	g, err := a.Connect(ctx)
	if err != nil {
		return err
	}
	reply, err := a.bundleFor(ctx, g, req, out, sure)
	if err != nil {
		return err
	}
	return a.PrintOne("Member", printer.Record{Name: reply.GetMember().GetPrincipal(), Body: printer.ProtoObject(reply)}, func(p *printer.Page) {
		a.memberFields(p, reply.GetMember())
		p.Field("device", reply.GetDeviceId())
		p.Field("bundle", out)
		p.Field("use it with", "palyra --credentials "+out+" status")
	})
}

// bundleFor creates a key in a directory, adds the member with it, and writes the bundle. A
// directory that already contains such a key is completed. If the gateway refuses, a new directory
// is removed; the key is kept as long as the member may still be added with it.
func (a *memberCommands) bundleFor(ctx context.Context, g *client.Gateway, req *palyrav1.AddMemberRequest, dir string, sure bool) (*palyrav1.AddMemberResponse, error) {
	_, before := os.Lstat(dir)
	key, err := identity.BundleKey(dir)
	if err != nil {
		return nil, err
	}
	request, err := identity.Request(key)
	if err != nil {
		return nil, err
	}
	block, _ := pem.Decode(request)
	req.CertificateRequest = block.Bytes
	var reply *palyrav1.AddMemberResponse
	err = accepting(ctx, a.App, sure, func(accept bool) (err error) {
		req.AcceptLoss = accept
		reply, err = g.Access.AddMember(ctx, req)
		return err
	})
	if err != nil {
		if before != nil && refused(ctx, err) {
			_ = os.RemoveAll(dir)
		}
		return nil, err
	}
	chain, err := ca.ParseChain([]byte(reply.GetCertificateChain()))
	if err != nil {
		return nil, reason.Errorf(reason.VerificationFailed, "the gateway's certificate for %s does not parse: %w", req.GetName(), err)
	}
	made := identity.Bundle{Root: g.Root, Chain: slices.Concat([]*x509.Certificate{}, chain), Key: key, Address: g.Address, ServerName: reply.GetServerName()}
	return reply, identity.WriteBundle(dir, made)
}

// refused reports whether a change was definitely not made: it is neither pending nor is its result
// unknown.
func refused(ctx context.Context, err error) bool {
	code := client.Explain(nil, err).Code
	return ctx.Err() == nil && code != reason.ChangePending && code != reason.NotConnected && code != reason.ShuttingDown
}

func (a *memberCommands) membersRoles() *cobra.Command {
	var add, remove []string
	var sure bool
	c := &cobra.Command{Use: "roles NAME", Short: "Add or remove roles of a member", Args: command.Args(1, 1),
		Long:              "Add roles to a member with --add and remove roles with --remove, in one step. Removing a\nrole ends the member's open streams and runs, which it may start again if it still can.\nOnly owners add and remove owner and admin, and change members with these roles.",
		ValidArgsFunction: a.completeMembers(),
		RunE: func(cmd *cobra.Command, given []string) error {
			if len(add)+len(remove) == 0 {
				return command.Usage("there is nothing to change").WithRemedy("Add a role with --add ROLE, or remove one with --remove ROLE; `palyra members show %s` lists them.", given[0])
			}
			return a.updateMember(cmd.Context(), &palyrav1.UpdateMemberRequest{Member: given[0], AddRoles: add, RemoveRoles: remove}, sure)
		}}
	c.Flags().StringSliceVar(&add, "add", nil, "a role to add; repeatable")
	c.Flags().StringSliceVar(&remove, "remove", nil, "a role to remove; repeatable")
	c.Flags().BoolVar(&sure, "yes", false, "do not ask if users lose the power to answer approvals")
	return c
}

func (a *memberCommands) membersOwner() *cobra.Command {
	return &cobra.Command{Use: "owner AGENT USER", Short: "Change the owner of an agent", Args: command.Args(2, 2),
		Long:              "Let an agent act for another user, once that user consents: `palyra members consent\nAGENT`. Its open streams and runs end, and grants from its time with the previous owner\ndo not apply. Its secrets, vault://agent:NAME/..., end.",
		ValidArgsFunction: a.completeMembers(),
		RunE: func(cmd *cobra.Command, given []string) error {
			owner := "user:" + strings.TrimPrefix(given[1], "user:")
			return a.updateMember(cmd.Context(), &palyrav1.UpdateMemberRequest{Member: given[0], Owner: owner}, false)
		}}
}

func (a *memberCommands) updateMember(ctx context.Context, req *palyrav1.UpdateMemberRequest, sure bool) error {
	return a.changeMember(ctx, sure, func(g *client.Gateway, accept bool) (*palyrav1.Member, error) {
		req.AcceptLoss = accept
		reply, err := g.Access.UpdateMember(ctx, req)
		return reply.GetMember(), err
	})
}

func (a *memberCommands) membersDisable() *cobra.Command {
	return a.standing("disable", "Suspend a member until it is enabled",
		"Suspend a member, and a user's agents, until it is enabled: open streams and runs end,\nits certificates are refused, and its votes do not count meanwhile, also in grants.",
		func(ctx context.Context, g *client.Gateway, name, why string, accept bool) (*palyrav1.Member, error) {
			reply, err := g.Access.DisableMember(ctx, &palyrav1.DisableMemberRequest{Member: name, Reason: why, AcceptLoss: accept})
			return reply.GetMember(), err
		})
}

func (a *memberCommands) membersEnable() *cobra.Command {
	return a.standing("enable", "Enable a disabled member",
		"Enable a disabled member. Its earlier votes count again, also in grants that are\nstill valid.",
		func(ctx context.Context, g *client.Gateway, name, why string, accept bool) (*palyrav1.Member, error) {
			reply, err := g.Access.EnableMember(ctx, &palyrav1.EnableMemberRequest{Member: name, Reason: why, AcceptLoss: accept})
			return reply.GetMember(), err
		})
}

func (a *memberCommands) membersConfirm() *cobra.Command {
	var host bool
	c := &cobra.Command{Use: "confirm NAME", Short: "Confirm that a member is a person of its own", Args: command.Args(1, 1),
		Long: "Confirm that a member is a person of its own. A member who adds another one, changes its\n" +
			"roles or gives it a device could act as it; where policy requires two people, the two\n" +
			"count as one until a third one confirms the member. Your confirmation counts for every\n" +
			"member that did none of this to you.\n\n" +
			"With --host the gateway's host confirms the member, which counts for every member: the\n" +
			"command needs the local operator's bundle there, and asks for its presence key. So does\n" +
			"`palyrad members confirm NAME` as root, without a key.",
		ValidArgsFunction: a.completeMembers(),
		RunE: a.Connected(func(ctx context.Context, g *client.Gateway, given []string) error {
			if host {
				return a.confirmOnHost(ctx, g, given)
			}
			reply, err := g.Access.ConfirmMember(ctx, &palyrav1.ConfirmMemberRequest{Member: given[0]})
			if err != nil {
				return err
			}
			m := reply.GetMember()
			return a.PrintOne("Member", memberRecord(m), func(p *printer.Page) { p.Field("confirmed", m.GetPrincipal()) })
		})}
	c.Flags().BoolVar(&host, "host", false, "confirm on behalf of the gateway's host, with the presence key of this device")
	return c
}

// confirmOnHost confirms a member on behalf of the gateway's host.
func (a *memberCommands) confirmOnHost(ctx context.Context, g *client.Gateway, members []string) error {
	prover, err := a.Prover(g)
	if err != nil {
		return err
	}
	confirmed, err := prover.ConfirmMembers(ctx, members)
	if err != nil {
		return err
	}
	principal := confirmed[0]
	body := printer.Object{{Name: "principal", Value: principal}}
	return a.PrintOne("Member", printer.Record{Name: principal, Body: body}, func(p *printer.Page) { p.Field("confirmed", principal) })
}

func (a *memberCommands) membersConsent() *cobra.Command {
	var withdraw bool
	c := &cobra.Command{Use: "consent AGENT", Short: "Let your agent act in your name", Args: command.Args(1, 1),
		Long: "Let your agent act in your name. An agent that another user added for you, or gave to\n" +
			"you, needs your consent from your own device; `palyra status` lists the agents that\n" +
			"wait for it. --withdraw withdraws the consent and ends open streams and runs.",
		ValidArgsFunction: a.completeMembers(),
		RunE: client.ShowOne(a.App, "Member", memberRecord, a.memberFields, func(ctx context.Context, g *client.Gateway, given []string) (*palyrav1.Member, error) {
			reply, err := g.Access.ConsentToAgent(ctx, &palyrav1.ConsentToAgentRequest{Agent: given[0], Withdraw: withdraw})
			return reply.GetMember(), err
		})}
	c.Flags().BoolVar(&withdraw, "withdraw", false, "withdraw the consent")
	return c
}

func (a *memberCommands) membersRemove() *cobra.Command {
	c := a.standing("remove", "Remove a member permanently; this cannot be undone",
		"Remove a member permanently: its devices are revoked, its votes do not count any more,\nalso in grants, and its name cannot be reused, because the journal contains it. Change the\nowner of a user's agents before, or remove them. To suspend a member, disable it.",
		func(ctx context.Context, g *client.Gateway, name, why string, accept bool) (*palyrav1.Member, error) {
			reply, err := g.Access.RemoveMember(ctx, &palyrav1.RemoveMemberRequest{Member: name, Reason: why, AcceptLoss: accept})
			for _, id := range reply.GetRevoked() {
				a.Say("revoked device %s", id)
			}
			return reply.GetMember(), err
		})
	change := c.RunE
	c.RunE = func(cmd *cobra.Command, given []string) error {
		sure, err := cmd.Flags().GetBool("yes")
		if err != nil {
			return err
		}
		if err := a.Confirm(cmd.Context(), sure, "Remove %s?", given[0]); err != nil {
			return err
		}
		return change(cmd, given)
	}
	return c
}

// standing returns a command that changes whether a member may act.
func (a *memberCommands) standing(verb, short, long string, ask func(ctx context.Context, g *client.Gateway, name, why string, accept bool) (*palyrav1.Member, error)) *cobra.Command {
	var why string
	var sure bool
	c := &cobra.Command{Use: verb + " NAME", Short: short, Long: long, Args: command.Args(1, 1),
		ValidArgsFunction: a.completeMembers(),
		RunE: func(cmd *cobra.Command, given []string) error {
			return a.changeMember(cmd.Context(), sure, func(g *client.Gateway, accept bool) (*palyrav1.Member, error) {
				return ask(cmd.Context(), g, given[0], why, accept)
			})
		}}
	c.Flags().StringVar(&why, "reason", "", "the reason, for the journal")
	c.Flags().BoolVar(&sure, "yes", false, "do not ask to confirm")
	return c
}

// changeMember makes a change and prints the resulting member.
func (a *memberCommands) changeMember(ctx context.Context, sure bool, change func(g *client.Gateway, accept bool) (*palyrav1.Member, error)) error {
	g, err := a.Connect(ctx)
	if err != nil {
		return err
	}
	var m *palyrav1.Member
	err = accepting(ctx, a.App, sure, func(accept bool) (err error) {
		m, err = change(g, accept)
		return err
	})
	if err != nil {
		return err
	}
	return a.PrintOne("Member", memberRecord(m), func(p *printer.Page) { a.memberFields(p, m) })
}

// accepting makes a change. If users lose the power to answer approvals, it warns and asks first.
func accepting(ctx context.Context, a *client.App, sure bool, change func(accept bool) error) error {
	err := change(false)
	if err == nil || client.Explain(nil, err).Code != reason.LossNotAccepted {
		return err
	}
	if !sure && !a.Interactive() {
		return err
	}
	a.Say("warning: %s", client.Explain(nil, err).Message)
	if err := a.Agree(ctx, sure, "Continue anyway?"); err != nil {
		return err
	}
	return change(true)
}

func (a *memberCommands) completeMembers() cobra.CompletionFunc {
	return client.Suggest(a.App, membersOf, memberWord)
}

// memberWord suggests a member by its name, with its roles.
func memberWord(m *palyrav1.Member) (word, description string) {
	return m.GetPrincipal(), strings.Join(m.GetRoles(), ",")
}
