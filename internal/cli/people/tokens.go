package people

import (
	"context"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"google.golang.org/protobuf/types/known/durationpb"

	palyrav1 "palyra/gen/palyra/v1"
	"palyra/internal/cli/client"
	"palyra/internal/cli/command"
	"palyra/internal/cli/printer"
	"palyra/internal/core/access"
	"palyra/internal/identity"
)

// tokenCommands provides the commands of this family.
type tokenCommands struct{ *client.App }

var tokenListing = printer.Listing{
	Kind:    "Token",
	Columns: []string{"ID", "NAME", "ACTS AS", "SCOPES", "EXPIRES", "LAST USED"},
	Wide:    []string{"BY", "DEVICE", "FROM", "CREATED"},
	Empty:   "no tokens",
	Drop:    []string{"LAST USED", "EXPIRES", "NAME"},
}

// withRevoked returns the listing of all tokens, including revoked ones.
func withRevoked() printer.Listing {
	l := tokenListing
	l.Columns = append(slices.Clone(l.Columns), "REVOKED")
	return l
}

// revokedRecord returns a token with its revocation.
func revokedRecord(t *palyrav1.Token) printer.Record {
	rec := tokenRecord(t)
	rec.Cells = append(rec.Cells, printer.Clock(t.GetRevokedAt()))
	return rec
}

// TokensCommand is `palyra tokens`.
func TokensCommand(program *client.App) *cobra.Command {
	a := &tokenCommands{program}
	return command.NewGroup("tokens", "Create, list and revoke API tokens, for MCP clients, CI and hooks", a.create(), a.list(), a.revoke())
}

func tokenRecord(t *palyrav1.Token) printer.Record {
	return printer.Record{
		Name: t.GetTokenId(), Body: printer.ProtoObject(t),
		Cells: []string{
			t.GetTokenId(), t.GetName(), t.GetPrincipal(), strings.Join(t.GetScopes(), ","), printer.Clock(t.GetExpiresAt()), printer.Clock(t.GetLastUsedAt()),
		},
		Wide: []string{t.GetCreatedBy(), t.GetMadeWithDeviceId(), strings.Join(t.GetAddresses(), ","), printer.Clock(t.GetCreatedAt())},
	}
}

// usual are the default scopes, which an agent needs to call tools.
var usual = []string{string(access.PermToolList), string(access.PermToolCall)}

type creating struct {
	req  palyrav1.CreateTokenRequest
	life string
	out  string
}

func (a *tokenCommands) create() *cobra.Command {
	f := &creating{}
	c := &cobra.Command{
		Use: "create NAME", Short: "Create a token; its text is shown once", Args: command.Args(1, 1),
		Long: "Create an API token for yourself, or for your agent with --for. Its holder acts\n" +
			"in that name, within its scopes and never beyond your permissions. Tokens cannot\n" +
			"answer approvals or change permissions: that needs a device.\n\n" +
			"Its text is shown once and not stored. With --out it is written to a new credential\n" +
			"bundle instead, for `palyra --credentials DIR`.",
		Example: "palyra tokens create ci --for agent:builder --life 30d\n" +
			"palyra tokens create backup --scope journal.export --from 10.0.0.0/8 --out ./backup-credentials",
		RunE: a.Connected(func(ctx context.Context, g *client.Gateway, given []string) error {
			f.req.Name = given[0]
			return a.createToken(ctx, g, f)
		}),
	}
	flags := c.Flags()
	flags.StringVar(&f.req.Principal, "for", "", "the agent that it acts as, such as agent:builder (default: you)")
	flags.StringSliceVar(&f.req.Scopes, "scope", usual, "permissions of the token")
	flags.StringSliceVar(&f.req.Addresses, "from", nil, "allowed source addresses or ranges (default: any)")
	flags.StringVar(&f.life, "life", "90d", "lifetime, such as 12h or 30d; at most 366d")
	flags.StringVar(&f.out, "out", "", "write a credential bundle to this directory, and do not show the text")
	_ = c.MarkFlagDirname("out")
	_ = c.RegisterFlagCompletionFunc("scope", cobra.FixedCompletions(scopes(), cobra.ShellCompDirectiveNoFileComp))
	_ = c.RegisterFlagCompletionFunc("for", a.completeAgents())
	return c
}

func scopes() []string {
	list := make([]string, len(access.Permissions))
	for i, p := range access.Permissions {
		list[i] = string(p)
	}
	return list
}

func (a *tokenCommands) completeAgents() cobra.CompletionFunc {
	return client.Suggest(a.App, func(ctx context.Context, g *client.Gateway) ([]*palyrav1.Member, error) {
		members, err := membersOf(ctx, g)
		users := func(m *palyrav1.Member) bool { return m.GetOwner() == "" }
		return slices.DeleteFunc(members, users), err
	}, func(m *palyrav1.Member) (string, string) { return m.GetPrincipal(), "of " + m.GetOwner() })
}

func (a *tokenCommands) createToken(ctx context.Context, g *client.Gateway, f *creating) error {
	life, err := command.ParseSpan(f.life)
	if err != nil {
		return err
	}
	if f.out != "" {
		if err := identity.Vacant(f.out); err != nil {
			return err
		}
	}
	f.req.Life = durationpb.New(life)
	reply, err := g.Tokens.CreateToken(ctx, &f.req)
	if err != nil {
		return err
	}
	made, text := reply.GetToken(), reply.GetText()
	if f.out != "" {
		b := identity.Bundle{Root: g.Root, Address: g.Address, ServerName: g.ServerName, Token: text}
		if err := identity.WriteTokenBundle(f.out, b); err != nil {
			a.undo(ctx, g, made.GetTokenId())
			return err
		}
		text = ""
	}
	rec := tokenRecord(made)
	if text != "" {
		rec.Body = append(rec.Body, printer.Member{"text", text})
	}
	return a.PrintOne("Token", rec, func(p *printer.Page) {
		p.Field("token", made.GetTokenId())
		p.Field("name", made.GetName())
		p.Field("acts as", made.GetPrincipal())
		p.Field("scopes", strings.Join(made.GetScopes(), ", "))
		if len(made.GetAddresses()) > 0 {
			p.Field("from", strings.Join(made.GetAddresses(), ", "))
		}
		p.Field("expires", a.Moment(made.GetExpiresAt()))
		if text == "" {
			p.Field("bundle", f.out)
			return
		}
		p.Field("text", text)
		a.Say("this is the only time that the text is shown; send it as \"Authorization: Bearer ...\"")
	})
}

// undo revokes a token that could not be delivered.
func (a *tokenCommands) undo(ctx context.Context, g *client.Gateway, id string) {
	if _, err := g.Tokens.RevokeToken(ctx, &palyrav1.RevokeTokenRequest{TokenId: id}); err != nil {
		a.Say("writing the token %s failed, but it exists; revoke it with `palyra tokens revoke %s`", id, id)
	}
}

func (a *tokenCommands) list() *cobra.Command {
	req := &palyrav1.ListTokensRequest{}
	c := &cobra.Command{
		Use: "list", Short: "List tokens, newest first: yours and your agents', or all if you may see members", Args: command.Args(0, 0),
		Example: "palyra tokens list\npalyra tokens list --device 01J... --all",
		RunE: a.Connected(func(ctx context.Context, g *client.Gateway, _ []string) error {
			reply, err := g.Tokens.ListTokens(ctx, req)
			if err != nil {
				return err
			}
			if req.GetAll() {
				return a.PrintList(withRevoked(), printer.Records(reply.GetTokens(), revokedRecord))
			}
			return a.PrintList(tokenListing, printer.Records(reply.GetTokens(), tokenRecord))
		}),
	}
	c.Flags().BoolVar(&req.All, "all", false, "include expired and revoked tokens")
	c.Flags().StringVar(&req.MadeWithDeviceId, "device", "", "only tokens created with this device, by its full id")
	return c
}

func (a *tokenCommands) revoke() *cobra.Command {
	var sure bool
	c := &cobra.Command{
		Use: "revoke ID", Short: "Revoke a token and end its requests; this cannot be undone", Args: command.Args(1, 1),
		ValidArgsFunction: client.Suggest(a.App, tokensOf, func(t *palyrav1.Token) (string, string) { return t.GetTokenId(), t.GetName() }),
		RunE: client.ShowOne(a.App, "Token", tokenRecord, func(p *printer.Page, t *palyrav1.Token) {
			p.Field("token", t.GetTokenId())
			p.Field("name", t.GetName())
			p.Field("revoked", a.Moment(t.GetRevokedAt()))
			p.Field("by", t.GetRevokedBy())
		}, func(ctx context.Context, g *client.Gateway, given []string) (*palyrav1.Token, error) {
			if err := a.Confirm(ctx, sure, "Revoke the token %s?", given[0]); err != nil {
				return nil, err
			}
			return revokeToken(ctx, g, given[0])
		}),
	}
	c.Flags().BoolVar(&sure, "yes", false, "do not ask to confirm")
	return c
}

func tokensOf(ctx context.Context, g *client.Gateway) ([]*palyrav1.Token, error) {
	reply, err := g.Tokens.ListTokens(ctx, &palyrav1.ListTokensRequest{})
	return reply.GetTokens(), err
}

func revokeToken(ctx context.Context, g *client.Gateway, given string) (*palyrav1.Token, error) {
	pages := func(int32) ([]*palyrav1.Token, bool, error) {
		reply, err := g.Tokens.ListTokens(ctx, &palyrav1.ListTokensRequest{All: true})
		return reply.GetTokens(), false, err
	}
	id, err := client.FindListed("token", given, pages, (*palyrav1.Token).GetTokenId)
	if err != nil {
		return nil, err
	}
	reply, err := g.Tokens.RevokeToken(ctx, &palyrav1.RevokeTokenRequest{TokenId: id})
	return reply.GetToken(), err
}
