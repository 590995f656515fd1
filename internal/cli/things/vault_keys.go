package things

import (
	"context"
	"errors"
	"io"
	"os"
	"strconv"
	"strings"

	"filippo.io/age"
	"github.com/spf13/cobra"

	palyrav1 "palyra/gen/palyra/v1"
	"palyra/internal/cli/client"
	"palyra/internal/cli/command"
	"palyra/internal/cli/printer"
	"palyra/internal/core/reason"
	"palyra/internal/core/text"
)

func (a *vaultCommands) rekey() *cobra.Command {
	return &cobra.Command{
		Use: "rekey", Short: "Replace the key that encrypts the keys of all secrets", Args: command.Args(0, 0),
		Long: "Create another key-encryption key, encrypt the keys of all secrets with it, and delete\n" +
			"the old one. Secrets can be used meanwhile, and an interruption loses nothing:\n" +
			"the next start of palyrad continues. An export of the old key cannot decrypt\n" +
			"later data; create another one.",
		RunE: a.Connected(func(ctx context.Context, g *client.Gateway, _ []string) error {
			done, err := g.Vault.RekeyVault(ctx, &palyrav1.RekeyVaultRequest{})
			if err != nil {
				return err
			}
			if len(done.GetUnreadable()) > 0 {
				a.Say("the old keys are kept, because %s cannot be decrypted; restore them, or remove them and rekey again", text.Plural(len(done.GetUnreadable()), "value"))
			}
			return a.PrintOne("Rekey", printer.Record{Name: done.GetKeyId(), Body: printer.ProtoObject(done)}, func(p *printer.Page) {
				p.Field("key", done.GetKeyId())
				p.Field("rewrapped", strconv.Itoa(int(done.GetRewrapped())))
				p.Field("dropped", strings.Join(done.GetDroppedKeyIds(), ", "))
				for _, name := range done.GetUnreadable() {
					p.Field("unreadable", name)
				}
			})
		}),
	}
}

func (a *vaultCommands) exportRecovery() *cobra.Command {
	req, out := &palyrav1.ExportRecoveryRequest{}, ""
	c := &cobra.Command{
		Use: "export-recovery", Short: "Write the key of the vault to a file, encrypted to a recovery key", Args: command.Args(0, 0),
		Long: "Write the keys of the vault to a new file, encrypted to a recovery key of age. Without\n" +
			"--recipient one is created here and shown once. `palyrad vault recover` on the gateway's\n" +
			"host puts the keys back when the keyring or the key file is lost.\n\n" +
			"Store file and recovery key separately: with both, and the gateway's database, one can\n" +
			"read every secret. The keys are exported once; --again is for an export that is lost.",
		Example: "palyra vault export-recovery --out vault-recovery.age\npalyra vault export-recovery --recipient age1... --out vault-recovery.age",
		RunE: a.Connected(func(ctx context.Context, g *client.Gateway, _ []string) error {
			return a.export(ctx, g, req, out)
		}),
	}
	c.Flags().StringVar(&req.Recipient, "recipient", "", "the recipient of a recovery key that you have, age1...")
	c.Flags().StringVar(&out, "out", "", "the file to write, which must not exist")
	c.Flags().BoolVar(&req.Again, "again", false, "also when the keys were exported before")
	_ = c.MarkFlagRequired("out")
	_ = c.MarkFlagFilename("out")
	return c
}

// export creates the file before it requests the keys, so that a journaled export is not lost.
func (a *vaultCommands) export(ctx context.Context, g *client.Gateway, req *palyrav1.ExportRecoveryRequest, out string) error {
	made := ""
	switch {
	case strings.HasPrefix(strings.ToUpper(strings.TrimSpace(req.GetRecipient())), "AGE-SECRET-KEY-"):
		return command.Usage("--recipient is a recovery key itself, which must stay secret").
			WithRemedy("Use its public half, age1... (`age-keygen -y FILE` prints it), and remove the key from your shell's history.")
	case req.GetRecipient() == "":
		id, err := age.GenerateX25519Identity()
		if err != nil {
			return err
		}
		req.Recipient, made = id.Recipient().String(), id.String()
	}
	f, err := os.OpenFile(out, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return reason.Errorf(reason.InvalidInput, "writing the export: %w", err).WithRemedy("Name a file that does not exist, in a directory that does.")
	}
	defer f.Close()
	reply, err := g.Vault.ExportRecovery(ctx, req)
	if err == nil {
		_, err = f.WriteString(reply.GetExport())
	}
	if err == nil {
		err = f.Sync()
	}
	if err != nil {
		_ = os.Remove(out)
		return err
	}
	body := printer.Object{{Name: "file", Value: out}, {Name: "recipient", Value: req.GetRecipient()}, {Name: "key_ids", Value: reply.GetKeyIds()}}
	if made != "" {
		body = append(body, printer.Member{Name: "recovery_key", Value: made})
	}
	return a.PrintOne("Recovery", printer.Record{Name: out, Body: body}, func(p *printer.Page) {
		p.Field("file", out)
		p.Field("recipient", req.GetRecipient())
		p.Field("keys", strings.Join(reply.GetKeyIds(), ", "))
		if made != "" {
			p.Field("recovery", made)
			a.Say("the recovery key is shown only once; store it separately from the file and this machine")
		}
	})
}

func (a *vaultCommands) unlock() *cobra.Command {
	return &cobra.Command{
		Use: "unlock", Short: "Open the key of the vault with its passphrase", Args: command.Args(0, 0),
		Long: "Unlock the key of the vault with its passphrase, until palyrad stops. It is prompted\n" +
			"at the terminal, or read from stdin: one line.",
		RunE: a.Connected(func(ctx context.Context, g *client.Gateway, _ []string) error {
			// An unlocked vault, and an unreachable gateway, need no prompt.
			if s, err := g.Vault.GetVaultStatus(ctx, &palyrav1.GetVaultStatusRequest{}); err != nil {
				return err
			} else if !s.GetLocked() {
				a.Say("the vault is not locked")
				return a.printStatus(ctx, g)
			}
			phrase, err := a.AskHidden(ctx, "passphrase of the vault: ")
			if err != nil && !errors.Is(err, io.EOF) {
				return err
			}
			if phrase == "" {
				return reason.Errorf(reason.InvalidInput, "a passphrase is required").WithRemedy("Enter it at the terminal, or pass it on stdin.")
			}
			if _, err := g.Vault.UnlockVault(ctx, &palyrav1.UnlockVaultRequest{Passphrase: []byte(phrase)}); err != nil {
				return err
			}
			return a.printStatus(ctx, g)
		}),
	}
}

func (a *vaultCommands) status() *cobra.Command {
	return &cobra.Command{
		Use: "status", Short: "Show the location of the vault's key, and the secrets in use", Args: command.Args(0, 0),
		RunE: a.Connected(func(ctx context.Context, g *client.Gateway, _ []string) error { return a.printStatus(ctx, g) }),
	}
}

func (a *vaultCommands) printStatus(ctx context.Context, g *client.Gateway) error {
	s, err := g.Vault.GetVaultStatus(ctx, &palyrav1.GetVaultStatusRequest{})
	if err != nil {
		return err
	}
	return a.PrintOne("Vault", printer.Record{Name: s.GetPlace(), Body: printer.ProtoObject(s)}, func(p *printer.Page) {
		p.Field("key in", s.GetPlace())
		if s.GetLocked() {
			p.Field("locked", s.GetProblem())
			return
		}
		p.Field("key", s.GetKeyId())
		p.Field("old keys", strings.Join(s.GetOldKeyIds(), ", "))
		if s.GetExportedAt() != nil {
			p.Field("exported", a.Moment(s.GetExportedAt()))
		} else {
			p.Field("exported", "never; use `palyra vault export-recovery`")
		}
		for _, l := range s.GetLeases() {
			p.Field("in use", l.GetRef()+" by "+l.GetPrincipal()+" until "+a.Moment(l.GetEndsAt()))
		}
	})
}
