package people

import (
	"context"
	"fmt"
	"net"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"google.golang.org/protobuf/types/known/durationpb"

	palyrav1 "palyra/gen/palyra/v1"
	"palyra/internal/cli/client"
	"palyra/internal/cli/command"
	"palyra/internal/cli/printer"
	"palyra/internal/core/reason"
	"palyra/internal/identity/pairing"
)

// pairingCommands provides the commands of this family.
type pairingCommands struct{ *client.App }

var pairingListing = printer.Listing{
	Kind:    "Pairing",
	Columns: []string{"ID", "KIND", "FOR", "STATE", "GUESSES", "EXPIRES", "APPROVAL"},
	Wide:    []string{"BY", "COMPARISON", "FROM", "KEY"},
	Empty:   "no pairings",
	Drop:    []string{"GUESSES", "KIND", "EXPIRES"},
}

// PairingsCommand is `palyra pairing`.
func PairingsCommand(program *client.App) *cobra.Command {
	a := &pairingCommands{program}
	return command.NewGroup("pairing", "Let another machine get a certificate: make, list and cancel pairing codes", a.code(), a.list(), a.cancel())
}

func pairingRecord(p *palyrav1.Pairing) printer.Record {
	return printer.Record{
		Name: p.GetPairingId(), Body: printer.ProtoObject(p),
		Cells: []string{
			p.GetPairingId(), kindWord(p.GetCodeKind()), whose(p), stateWord(p), fmt.Sprintf("%d of %d", p.GetGuesses(), pairing.MostGuesses),
			printer.Clock(p.GetExpiresAt()), p.GetApprovalId(),
		},
		Wide: []string{p.GetMadeBy(), p.GetComparison(), p.GetAddress(), p.GetKeySha256()},
	}
}

func kindWord(k palyrav1.PairingKind) string {
	return strings.ToLower(strings.TrimPrefix(k.String(), "PAIRING_KIND_"))
}

func stateWord(p *palyrav1.Pairing) string {
	if p.GetState() == palyrav1.PairingState_PAIRING_STATE_OPEN && p.GetGuesses() >= pairing.MostGuesses {
		return "dead"
	}
	return strings.ToLower(strings.TrimPrefix(p.GetState().String(), "PAIRING_STATE_"))
}

// whose returns the member that gets the device.
func whose(p *palyrav1.Pairing) string {
	if p.GetNewMember() {
		return p.GetMember() + " (new)"
	}
	return p.GetMember()
}

type making struct {
	req     palyrav1.CreatePairingCodeRequest
	pin, qr bool
	ttl     time.Duration
	fresh   string
	// at is the gateway's address for the other machine.
	at   string
	sure bool
}

func (a *pairingCommands) code() *cobra.Command {
	f := &making{}
	c := &cobra.Command{
		Use: "code", Short: "Create a pairing code for another machine", Args: command.Args(0, 0),
		Long: "Create a code for another machine to get a certificate: another device of yours, or\n" +
			"with --member of another member, or with --new of a new member. On the other machine,\n" +
			"`palyra pair` uses it. A PIN is typed; a QR code, or the link below it, also contains\n" +
			"the address and the identity of the gateway.\n\n" +
			"The code works once, allows five attempts and is shown only here. Its use still\n" +
			"needs your approval, which shows six digits that the other machine must\n" +
			"show as well. A restart of the gateway ends all codes.",
		Example: "palyra pairing code\n" +
			"palyra pairing code --qr --ttl 2m\n" +
			"palyra pairing code --new bob --role operator\n" +
			"palyra pairing code --new builder --owner ada --qr",
		RunE: a.Connected(func(ctx context.Context, g *client.Gateway, _ []string) error {
			return a.makeCode(ctx, g, f)
		}),
	}
	flags := c.Flags()
	flags.BoolVar(&f.pin, "pin", false, "eight digits to type (the default)")
	flags.BoolVar(&f.qr, "qr", false, "a QR code, and an equivalent link")
	flags.DurationVar(&f.ttl, "ttl", pairing.DefaultTTL, "how long it is valid, up to 1h")
	flags.StringVar(&f.req.Member, "member", "", "the owner of the device (default: you)")
	flags.StringVar(&f.fresh, "new", "", "add a member of this name with the device")
	flags.StringSliceVar(&f.req.Roles, "role", nil, "a role of the new member; repeatable")
	flags.StringVar(&f.req.Owner, "owner", "", "the user for whom a new agent acts")
	flags.StringVar(&f.at, "at", "", "the gateway's address for the other machine, HOST:PORT (default: as for this one)")
	flags.BoolVar(&f.sure, "yes", false, "do not ask if users lose the power to answer approvals")
	c.MarkFlagsMutuallyExclusive("pin", "qr")
	c.MarkFlagsMutuallyExclusive("member", "new")
	return c
}

// check converts the flags to a request.
func (f *making) check() error {
	f.req.Kind, f.req.Ttl = palyrav1.PairingKind_PAIRING_KIND_PIN, durationpb.New(f.ttl)
	if f.qr {
		f.req.Kind = palyrav1.PairingKind_PAIRING_KIND_QR
	}
	if f.fresh == "" {
		if len(f.req.GetRoles()) > 0 || f.req.GetOwner() != "" {
			return command.Usage("--role and --owner require a new member").WithRemedy("Add --new NAME, or omit them.")
		}
		return nil
	}
	f.req.Member, f.req.NewMember = f.fresh, true
	switch {
	case len(f.req.GetRoles()) == 0 && f.req.GetOwner() != "":
		f.req.Roles = []string{"agent"}
	case len(f.req.GetRoles()) == 0:
		return command.Usage("a new member needs a role").WithRemedy("Add --role operator, or another of: owner, admin, operator, auditor, developer; or --owner USER for an agent.")
	}
	return nil
}

func (a *pairingCommands) makeCode(ctx context.Context, g *client.Gateway, f *making) error {
	if err := f.check(); err != nil {
		return err
	}
	if _, _, err := net.SplitHostPort(f.at); f.at != "" && err != nil {
		return command.Usage("address %q: want HOST:PORT", f.at).WithRemedy("For example --at 192.0.2.7:7443.")
	}
	reply, err := g.Pairings.CreatePairingCode(ctx, &f.req)
	if err != nil && client.Explain(nil, err).Code == reason.LossNotAccepted && (f.sure || a.Interactive()) {
		a.Say("warning: %s", client.Explain(nil, err).Message)
		if err := a.Agree(ctx, f.sure, "Continue anyway?"); err != nil {
			return err
		}
		f.req.AcceptLoss = true
		reply, err = g.Pairings.CreatePairingCode(ctx, &f.req)
	}
	if err != nil {
		return err
	}
	return a.show(ctx, g, reply, f.at)
}

// reached returns the address for the other machine.
func (a *pairingCommands) reached(g *client.Gateway, at string) string {
	if at != "" {
		return at
	}
	host, _, err := net.SplitHostPort(g.Address)
	if ip := net.ParseIP(host); err == nil && (host == "localhost" || ip.IsLoopback()) {
		a.Say("note: %s is reachable only from this machine; for another one, specify the gateway's address with --at HOST:PORT (as in listen.api, with listen.allow_remote)", g.Address)
	}
	return g.Address
}

// show prints a code with instructions.
func (a *pairingCommands) show(ctx context.Context, g *client.Gateway, reply *palyrav1.CreatePairingCodeResponse, at string) error {
	p, secret := reply.GetPairing(), reply.GetSecret()
	rec := pairingRecord(p)
	rec.Body = append(rec.Body, printer.Member{Name: "secret", Value: secret})
	address := a.reached(g, at)
	run := "palyra pair " + address
	link := ""
	if p.GetCodeKind() == palyrav1.PairingKind_PAIRING_KIND_QR {
		link = linkOf(g, address, p, secret)
		run = "palyra pair '" + link + "'"
		rec.Body = append(rec.Body, printer.Member{Name: "link", Value: link})
	} else if a.several(ctx, g) {
		run += " --code " + p.GetPairingId()
	}
	return a.PrintOne("Pairing", rec, func(page *printer.Page) {
		page.Field("pairing", p.GetPairingId())
		page.Field("for", whose(p))
		if p.GetNewMember() {
			page.Field("roles", strings.Join(p.GetRoles(), ", "))
		}
		if link == "" {
			page.Field("PIN", secret[:4]+" "+secret[4:])
		}
		page.Field("works until", a.Moment(p.GetExpiresAt()))
		page.Field("run there", run)
		page.Field("then here", "palyra approvals list")
		if link != "" {
			page.Text(picture(link))
		}
	})
}

// several reports whether the other machine must specify the PIN's id.
func (a *pairingCommands) several(ctx context.Context, g *client.Gateway) bool {
	list, err := pairingsOf(ctx, g)
	open := 0
	for _, p := range list {
		if p.GetCodeKind() == palyrav1.PairingKind_PAIRING_KIND_PIN && p.GetState() == palyrav1.PairingState_PAIRING_STATE_OPEN {
			open++
		}
	}
	return err != nil || open > 1
}

func (a *pairingCommands) list() *cobra.Command {
	return &cobra.Command{
		Use: "list", Short: "List active pairings: yours, or all if you may change members", Args: command.Args(0, 0),
		RunE: client.ShowList(a.App, pairingListing, pairingRecord, pairingsOf),
	}
}

func (a *pairingCommands) cancel() *cobra.Command {
	return &cobra.Command{
		Use: "cancel ID", Short: "End a pairing, and withdraw its approval", Args: command.Args(1, 1),
		Long: "End a pairing: its code allows no more attempts, and if a machine already used it, the\napproval is withdrawn. A device that has its certificate keeps it; see `palyra devices\nrevoke`.",
		ValidArgsFunction: client.Suggest(a.App, pairingsOf, func(p *palyrav1.Pairing) (string, string) {
			return p.GetPairingId(), kindWord(p.GetCodeKind()) + " for " + whose(p)
		}),
		RunE: client.ShowOne(a.App, "Pairing", pairingRecord, func(page *printer.Page, p *palyrav1.Pairing) {
			page.Field("cancelled", p.GetPairingId())
			page.Field("for", whose(p))
		}, func(ctx context.Context, g *client.Gateway, given []string) (*palyrav1.Pairing, error) {
			reply, err := g.Pairings.CancelPairing(ctx, &palyrav1.CancelPairingRequest{PairingId: given[0]})
			return reply.GetPairing(), err
		}),
	}
}

func pairingsOf(ctx context.Context, g *client.Gateway) ([]*palyrav1.Pairing, error) {
	reply, err := g.Pairings.ListPairings(ctx, &palyrav1.ListPairingsRequest{})
	return reply.GetPairings(), err
}
