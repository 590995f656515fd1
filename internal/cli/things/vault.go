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
)

// vaultCommands is one run of the program, with the commands of this family.
type vaultCommands struct{ *client.App }

var secretListing = printer.Listing{
	Kind:    "Secret",
	Columns: []string{"REF", "VERSION", "UPDATED", "LAST USED", "EXPIRES", "NOTE"},
	Wide:    []string{"HOSTS", "HEADER", "ENV", "FILE", "HOLDER", "CREATED"},
	Empty:   "no secrets",
	Drop:    []string{"LAST USED", "UPDATED", "NOTE", "EXPIRES"},
}

var versionListing = printer.Listing{
	Kind: "SecretVersion", Columns: []string{"VERSION", "CREATED", "BY"}, Empty: "no versions",
}

// VaultCommand is `palyra vault`.
func VaultCommand(program *client.App) *cobra.Command {
	a := &vaultCommands{program}
	return command.NewGroup("vault", "Store secrets, and restrict their use",
		a.put(), a.edit(), a.get(), a.list(), a.show(), a.history(), a.remove(), a.importCommand(), a.rekey(), a.exportRecovery(), a.unlock(), a.status())
}

func secretRecord(s *palyrav1.Secret) printer.Record {
	note := s.GetNote()
	switch {
	case s.GetProblem() != "":
		note = s.GetProblem()
	case s.GetEnded() != "":
		note = s.GetEnded()
	}
	version := ""
	if s.GetVersion() > 0 {
		version = strconv.Itoa(int(s.GetVersion()))
	}
	return printer.Record{
		Name: s.GetRef(), Body: printer.ProtoObject(s),
		Cells: []string{
			s.GetRef(), version, printer.Clock(s.GetUpdatedAt()), printer.Clock(s.GetLastUsedAt()), printer.Clock(s.GetExpiresAt()), note,
		},
		Wide: []string{strings.Join(s.GetHosts(), ","), s.GetHeader(), s.GetEnv(), s.GetFile(), s.GetHolder(), printer.Clock(s.GetCreatedAt())},
	}
}

// page writes a secret without its value.
func (a *vaultCommands) page(p *printer.Page, s *palyrav1.Secret) {
	p.Field("secret", s.GetRef())
	p.Field("version", strconv.Itoa(int(s.GetVersion())))
	p.Field("note", s.GetNote())
	p.Field("holder", s.GetHolder())
	p.Field("ended", s.GetEnded())
	p.Field("created", a.Moment(s.GetCreatedAt()))
	p.Field("updated", a.Moment(s.GetUpdatedAt()))
	if s.GetLastUsedAt() != nil {
		p.Field("last used", a.Moment(s.GetLastUsedAt()))
	}
	if s.GetExpiresAt() != nil {
		p.Field("expires", a.Moment(s.GetExpiresAt()))
	}
	if len(s.GetHosts()) > 0 {
		p.Field("hosts", strings.Join(s.GetHosts(), ", "))
		p.Field("header", s.GetHeader())
	}
	p.Field("variable", s.GetEnv())
	p.Field("file", s.GetFile())
	p.Field("value", "not shown; use `palyra vault get --reveal`")
}

func (a *vaultCommands) complete() cobra.CompletionFunc {
	return client.Suggest(a.App, func(ctx context.Context, g *client.Gateway) ([]*palyrav1.Secret, error) {
		return client.SuggestPage(pages(ctx, g, &palyrav1.ListSecretsRequest{}))
	}, func(s *palyrav1.Secret) (string, string) { return s.GetRef(), s.GetNote() })
}

func pages(ctx context.Context, g *client.Gateway, req *palyrav1.ListSecretsRequest) client.Pages[*palyrav1.Secret] {
	return func(size int32) ([]*palyrav1.Secret, bool, error) {
		req.PageSize = size
		reply, err := g.Vault.ListSecrets(ctx, req)
		req.PageToken = reply.GetNextPageToken()
		return reply.GetSecrets(), req.PageToken != "", err
	}
}

func (a *vaultCommands) list() *cobra.Command {
	req, limit := &palyrav1.ListSecretsRequest{}, 0
	c := &cobra.Command{
		Use: "list", Short: "List the secrets that you may see, without their values", Args: command.Args(0, 0),
		Example: "palyra vault list\npalyra vault list --scope user:ann",
		RunE: a.Connected(func(ctx context.Context, g *client.Gateway, _ []string) error {
			return client.List(a.App, secretListing, limit, pages(ctx, g, req), secretRecord)
		}),
	}
	c.Flags().StringVar(&req.Scope, "scope", "", "only of this scope, such as global or user:ann")
	c.Flags().IntVar(&limit, "limit", 0, "maximum number of entries; 0 means all")
	return c
}

func (a *vaultCommands) show() *cobra.Command {
	return &cobra.Command{
		Use: "show REF", Short: "Show the metadata of a secret", Args: command.Args(1, 1),
		Example: "palyra vault show vault://global/github", ValidArgsFunction: a.complete(),
		RunE: client.ShowOne(a.App, "Secret", secretRecord, a.page, func(ctx context.Context, g *client.Gateway, given []string) (*palyrav1.Secret, error) {
			reply, err := g.Vault.GetSecret(ctx, &palyrav1.GetSecretRequest{Ref: given[0]})
			return reply.GetSecret(), err
		}),
	}
}

func (a *vaultCommands) history() *cobra.Command {
	return &cobra.Command{
		Use: "history REF", Short: "List the stored versions of a secret, newest first", Args: command.Args(1, 1),
		Example: "palyra vault history vault://global/github", ValidArgsFunction: a.complete(),
		RunE: a.Connected(func(ctx context.Context, g *client.Gateway, given []string) error {
			reply, err := g.Vault.GetSecret(ctx, &palyrav1.GetSecretRequest{Ref: given[0]})
			if err != nil {
				return err
			}
			return a.PrintList(versionListing, versionRecords(reply.GetSecret().GetVersions()))
		}),
	}
}

func versionRecords(oldestFirst []*palyrav1.SecretVersion) []printer.Record {
	records := make([]printer.Record, len(oldestFirst))
	for i, v := range oldestFirst {
		number := strconv.Itoa(int(v.GetVersion()))
		records[len(records)-1-i] = printer.Record{
			Name: number, Body: printer.ProtoObject(v), Cells: []string{number, printer.Clock(v.GetCreatedAt()), v.GetCreatedBy()},
		}
	}
	return records
}

func (a *vaultCommands) remove() *cobra.Command {
	var sure bool
	c := &cobra.Command{
		Use: "rm REF", Short: "Remove a secret with all its versions; this cannot be undone", Args: command.Args(1, 1),
		Long: "Remove a secret with all its versions. No call gets it from then on; one that sent it\n" +
			"already may send it until it ends (`palyra calls cancel`). Copies of the value\n" +
			"still has it: revoke it where it came from.",
		Example: "palyra vault rm vault://global/github", ValidArgsFunction: a.complete(),
		RunE: a.Connected(func(ctx context.Context, g *client.Gateway, given []string) error {
			if err := a.Confirm(ctx, sure, "Remove the secret %s with all its versions?", given[0]); err != nil {
				return err
			}
			if _, err := g.Vault.RemoveSecret(ctx, &palyrav1.RemoveSecretRequest{Ref: given[0]}); err != nil {
				return err
			}
			body := printer.Object{{Name: "ref", Value: given[0]}, {Name: "removed", Value: true}}
			return a.PrintOne("Secret", printer.Record{Name: given[0], Body: body}, func(p *printer.Page) {
				p.Field("removed", given[0])
			})
		}),
	}
	c.Flags().BoolVar(&sure, "yes", false, "do not ask")
	return c
}
